package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrName is wrapped by every refusal of a name.
var ErrName = errors.New("name not allowed")

// DefaultTemplate is the table naming strategy where the config names none.
const DefaultTemplate = "{instance}_{queue}"

// ownersTable lists every table that hipq has in a database, with its owner. It is the one table that instances share.
const ownersTable = "hipq_tables"

// The instance-wide tables take the place of a queue in the naming strategy, so no queue can have these names.
var instanceTables = []string{"activity", "metrics", "hours", "workers", "queues", "shards", "job_types", "notices", "schedules"}

// The allow-lists: a letter first, then at most so many bytes in all. A name that passes goes into SQL as it stands, so
// nothing that needs quoting may pass. They are no regular expressions, because those with counts take each start of the program
// half a millisecond to compile.
const (
	letters = "abcdefghijklmnopqrstuvwxyz"

	maxInstance = 32
	maxQueue    = 48
	maxTable    = 51 // with $job_complete behind it, it has the 64 that MySQL allows
)

func allowed(name, rest string, most int) bool {
	return len(name) <= most && strings.Trim(name, letters+rest) == "" && name != "" && strings.Contains(letters, name[:1])
}

func instanceName(name string) bool { return allowed(name, "_", maxInstance) }

func queueName(name string) bool { return allowed(name, "_0123456789", maxQueue) }

func tableName(name string) bool { return allowed(name, "_0123456789", maxTable) }

// Names gives the tables of one instance their names.
type Names struct {
	instance string
	table    func(instance, queue string) string
	// err is for the first use of the names.
	err error
}

// Named gives the names that an instance has by default: those of NewNames, with DefaultTemplate. A name that is
// not allowed is the error of Open and FromPool.
func Named(instance string) Names {
	n, err := NewNames(instance, "")
	n.err = err
	return n
}

// NewNames checks the instance's name and the naming template: lower case letters, digits and underscores around
// {instance} and {queue}. An empty template is DefaultTemplate.
func NewNames(instance, template string) (Names, error) {
	if template == "" {
		template = DefaultTemplate
	}
	if !strings.Contains(template, "{queue}") {
		return Names{}, fmt.Errorf("%w: table template %q has no {queue}", ErrName, template)
	}
	return NewNamesFunc(instance, func(instance, queue string) string {
		return strings.ReplaceAll(strings.ReplaceAll(template, "{instance}", instance), "{queue}", queue)
	})
}

// NewNamesFunc is NewNames for a naming strategy of your own. table must be a pure function; what it returns is checked
// against the allow-list each time, and for the instance-wide tables it is called with their reserved names.
func NewNamesFunc(instance string, table func(instance, queue string) string) (Names, error) {
	if !instanceName(instance) {
		return Names{}, fmt.Errorf("%w: instance %q (lower case letters and underscores, a letter first, at most 32)", ErrName, instance)
	}
	n := Names{instance: instance, table: table}
	seen := map[string]string{ownersTable: "the list of tables"}
	for _, t := range instanceTables {
		name := table(instance, t)
		if !tableName(name) {
			return Names{}, fmt.Errorf("%w: table %q (lower case letters, digits and underscores, at most 51)", ErrName, name)
		}
		if other, ok := seen[name]; ok {
			return Names{}, fmt.Errorf("%w: table %q would hold both %s and %s", ErrName, name, other, t)
		}
		seen[name] = t
	}
	return n, nil
}

func (n Names) check() error {
	if n.err == nil && n.table == nil {
		return fmt.Errorf("%w: the Names are empty; Named or NewNames makes them", ErrName)
	}
	return n.err
}

// Instance is the instance's name.
func (n Names) Instance() string { return n.instance }

// CheckQueue says whether a queue may have this name, and its table's name if so.
func (n Names) CheckQueue(queue string) (table string, err error) {
	if !queueName(queue) {
		return "", fmt.Errorf("%w: queue %q (lower case letters, digits and underscores, a letter first, at most 48)", ErrName, queue)
	}
	if slices.Contains(instanceTables, queue) {
		return "", fmt.Errorf("%w: queue %q is reserved (so are %s)", ErrName, queue, strings.Join(instanceTables, ", "))
	}
	table = n.table(n.instance, queue)
	if !tableName(table) {
		return "", fmt.Errorf("%w: table %q of queue %q (lower case letters, digits and underscores, at most 51)", ErrName, table, queue)
	}
	if table == ownersTable || slices.ContainsFunc(instanceTables, func(t string) bool { return n.table(n.instance, t) == table }) {
		return "", fmt.Errorf("%w: table %q of queue %q is one of hipq's own", ErrName, table, queue)
	}
	return table, nil
}

// Activity is the name of the activity table.
func (n Names) Activity() string { return n.table(n.instance, "activity") }

// Metrics is the name of the table of the monitor's hours, by queue and job type.
func (n Names) Metrics() string { return n.table(n.instance, "metrics") }

// Hours is the name of the table of the hours that the monitor has aggregated.
func (n Names) Hours() string { return n.table(n.instance, "hours") }

// Workers is the name of the table of workers.
func (n Names) Workers() string { return n.table(n.instance, "workers") }

// Queues is the name of the table of registered queues.
func (n Names) Queues() string { return n.table(n.instance, "queues") }

// Shards is the name of the table of the queues' shards.
func (n Names) Shards() string { return n.table(n.instance, "shards") }

// JobTypes is the name of the table of registered job types.
func (n Names) JobTypes() string { return n.table(n.instance, "job_types") }

// Notices is the name of the table of what cron has mailed lately.
func (n Names) Notices() string { return n.table(n.instance, "notices") }

// Schedules is the name of the table of recurring jobs.
func (n Names) Schedules() string { return n.table(n.instance, "schedules") }
