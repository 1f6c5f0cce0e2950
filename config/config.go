// Package config reads hipq.yaml strictly into the option structs of the other packages.
package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/schedule"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

var (
	// ErrNotFound means that the named config file, or each file that Load looks for, doesn't exist.
	ErrNotFound = errors.New("no configuration file")
	// ErrInvalid is wrapped by each error about a config's content.
	ErrInvalid = errors.New("invalid configuration")
	// ErrFlag is wrapped too if a flag is at fault.
	ErrFlag = errors.New("invalid flag")
	// ErrUnknownQueue means that the config has no such queue.
	ErrUnknownQueue = errors.New("unknown queue")
)

// Config is hipq.yaml, checked, with defaults filled in.
type Config struct {
	// File is the absolute path of the config file.
	File string
	// lines are the lines of the file's keys.
	lines map[string]int
	// Name is the instance's name.
	Name string
	// Tables is the table template.
	Tables string
	// Database says which database to open; an SQLite Path is absolute. It may hold a password: don't print it.
	Database schema.Options
	// DSNFrom is the setting that gave Database.DSN: a variable, or a key of File.
	DSNFrom string
	// Location is the zone of the time windows and of times shown to people.
	Location *time.Location
	Worker   worker.Options
	// ActivityKeep is how long purge keeps the activity.
	ActivityKeep time.Duration
	// MetricsKeep is how long purge keeps the metrics: at least two weeks, because a report compares two.
	MetricsKeep time.Duration
	// MonitorPing is the URL that hipq monitor calls when it starts and ends; empty means none. It may hold a secret:
	// don't print it.
	MonitorPing string
	PurgePing   string // likewise, for hipq purge
	// Alert has the limits of the instance, of its queues, and of their job types.
	Alert monitor.Alert
	// StrictTypes is the default of Queue.StrictTypes, also for queues that this config lacks.
	StrictTypes bool
	// AllowForeignHandlers lets root run handler programs that another user could have written.
	AllowForeignHandlers bool
	// Mail means that failed jobs and outages of a tick are printed, so that cron mails them.
	Mail bool
	// Warnings are settings that should be changed, for people to read.
	Warnings []string
	// Queues has at least one queue, in the order of the file.
	Queues []Queue
	// Schedules are the recurring jobs, in the order of the file.
	Schedules []schedule.Schedule
}

// Queue is one queue of the config, with its handlers.
type Queue struct {
	queue.Options
	// Handlers are by job type. Jobs of a type without one are only enqueued here.
	Handlers map[string]Handler
	// RetryHandlers are by job type. A type without one uses its retry policy.
	RetryHandlers map[string]Handler
}

// Handler runs the jobs of one type, or decides about their retry. Exactly one of Exec, Stream and HTTP is set. Load doesn't check
// that a program's user exists.
type Handler struct {
	// Key is the path of its section in the config: queues.emails.job_types.send.handler.
	Key string
	// Exec and Stream lack what only a worker has: its ID, its guard and its log.
	Exec   *handler.Exec
	Stream *handler.Stream
	HTTP   *HTTP
}

// Program is the program, of whichever kind; nil for an endpoint.
func (h Handler) Program() *handler.Program {
	switch {
	case h.Exec != nil:
		return &h.Exec.Program
	case h.Stream != nil:
		return &h.Stream.Program
	}
	return nil
}

// LoadOptions say where to look. The zero value is for a command without flags.
type LoadOptions struct {
	// File is the file to read; empty means to search for one.
	File string
	// Flags are a command's flags; may be nil. Those of the worker (concurrency, batch, run-for, linger, max-jobs)
	// outrank all other sources if given.
	Flags *pflag.FlagSet
	// Env is the environment, each NAME=value; nil means the process's.
	Env []string
	// Dir is the folder for hipq.yaml and relative file names; empty means the working directory.
	Dir string
}

// Names names the instance's tables.
func (c *Config) Names() (schema.Names, error) { return schema.NewNames(c.Name, c.Tables) }

// Queue finds a queue by name. The error for an unknown name lists the queues.
func (c *Config) Queue(name string) (Queue, error) {
	known := c.QueueNames()
	if n := slices.Index(known, name); n >= 0 {
		return c.Queues[n], nil
	}
	slices.Sort(known)
	return Queue{}, fmt.Errorf("%w: %q; %s has %s", ErrUnknownQueue, name, c.File, strings.Join(known, ", "))
}

// QueueNames are the queues' names, in the order of the file.
func (c *Config) QueueNames() []string {
	return texts.Map(c.Queues, func(q Queue) string { return q.Name })
}

// ScheduleNames are the schedules' names, in the order of the file.
func (c *Config) ScheduleNames() []string {
	return texts.Map(c.Schedules, func(s schedule.Schedule) string { return s.Name })
}

// QueueTables are the queues in the form that creates and checks their tables.
func (c *Config) QueueTables() []schema.Queue {
	return texts.Map(c.Queues, func(q Queue) schema.Queue { return q.Table() })
}

// Serving returns the name under which the config has the handler of a job type: its own, or job.AllTypes. ok is false if there
// is none.
func (q Queue) Serving(jobType string) (name string, ok bool) {
	for _, name := range []string{jobType, job.AllTypes} {
		if _, ok := q.Handlers[name]; ok {
			return name, true
		}
	}
	return jobType, false
}

// HasAllTypes says whether the config has the type job.AllTypes, so that it names every type.
func (q Queue) HasAllTypes() bool { return slices.Contains(q.TypeNames(), job.AllTypes) }

// Nearest is the name of a job type that was probably meant; "" if there is none.
func (q Queue) Nearest(jobType string) string {
	if q.HasAllTypes() {
		return ""
	}
	return Nearest(jobType, q.TypeNames())
}

// TypeNames are the names of the job types, in the order of the file.
func (q Queue) TypeNames() []string {
	return texts.Map(q.Types, func(t job.Type) string { return t.Name })
}

// Schedule finds a schedule by name; nil if there is none.
func (c *Config) Schedule(name string) *schedule.Schedule {
	if n := slices.Index(c.ScheduleNames(), name); n >= 0 {
		return &c.Schedules[n]
	}
	return nil
}
