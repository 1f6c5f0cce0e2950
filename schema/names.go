package schema

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrName is wrapped by each error about an invalid name.
var ErrName = errors.New("name not allowed")

// DefaultTemplate is the table template if the config sets none.
const DefaultTemplate = "{instance}_{queue}"

// ownersTable lists each hipq table in the database, with its owner. It is the only table that instances share.
const ownersTable = "hipq_tables"

// instanceTables replace a queue's name in the template, so no queue can have these names.
var instanceTables = []string{"activity", "metrics", "hours", "workers", "queues", "shards", "job_types", "notices", "schedules"}

// The allow-lists: a letter first, then a maximum length in bytes. Names go into SQL unquoted, so nothing that needs
// quoting may pass. These are no regular expressions, because ones with counts take 0.5 ms to compile at each start.
const (
	letters = "abcdefghijklmnopqrstuvwxyz"

	maxInstance = 32
	maxQueue    = 48
	maxTable    = 51 // with $job_complete it has 64 bytes, MySQL's limit
)

func allowed(name, rest string, most int) bool {
	return len(name) <= most && strings.Trim(name, letters+rest) == "" && name != "" && strings.Contains(letters, name[:1])
}

func tableName(name string) bool { return allowed(name, "_0123456789", maxTable) }

// Names names the tables of one instance.
type Names struct {
	instance string
	table    func(instance, queue string) string
	// err is returned by the first function that uses the names.
	err error
}

// Named returns the names of an instance with DefaultTemplate. Open and FromPool return the error of an invalid name.
func Named(instance string) Names {
	n, err := NewNames(instance, "")
	n.err = err
	return n
}

// NewNames checks the instance's name and the table template: lower case letters, digits and underscores around
// {instance} and {queue}. An empty template is DefaultTemplate.
func NewNames(instance, template string) (Names, error) {
	template = cmp.Or(template, DefaultTemplate)
	if !strings.Contains(template, "{queue}") {
		return Names{}, fmt.Errorf("%w: table template %q has no {queue}", ErrName, template)
	}
	return NewNamesFunc(instance, func(instance, queue string) string {
		return strings.ReplaceAll(strings.ReplaceAll(template, "{instance}", instance), "{queue}", queue)
	})
}

// NewNamesFunc is NewNames for your own naming function. table must be pure. It is also called with the reserved names
// of the instance-wide tables. Each result is checked against the allow-list.
func NewNamesFunc(instance string, table func(instance, queue string) string) (Names, error) {
	if !allowed(instance, "_", maxInstance) {
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
		return fmt.Errorf("%w: Names is empty; make it with Named or NewNames", ErrName)
	}
	return n.err
}

// Instance is the instance's name.
func (n Names) Instance() string { return n.instance }

// CheckQueue checks a queue's name and returns the name of its table.
func (n Names) CheckQueue(queue string) (table string, err error) {
	if !allowed(queue, "_0123456789", maxQueue) {
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

// Metrics is the name of the table of hourly metrics, by queue and job type.
func (n Names) Metrics() string { return n.table(n.instance, "metrics") }

// Hours is the name of the table of hours that the monitor has aggregated.
func (n Names) Hours() string { return n.table(n.instance, "hours") }

// Workers is the name of the table of workers.
func (n Names) Workers() string { return n.table(n.instance, "workers") }

// Queues is the name of the table of registered queues.
func (n Names) Queues() string { return n.table(n.instance, "queues") }

// Shards is the name of the table of the queues' shards.
func (n Names) Shards() string { return n.table(n.instance, "shards") }

// JobTypes is the name of the table of registered job types.
func (n Names) JobTypes() string { return n.table(n.instance, "job_types") }

// Notices is the name of the table of recent mails from cron.
func (n Names) Notices() string { return n.table(n.instance, "notices") }

// Schedules is the name of the table of recurring jobs.
func (n Names) Schedules() string { return n.table(n.instance, "schedules") }
