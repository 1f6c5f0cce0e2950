// Package config reads hipq.yaml, strictly, into the option structs that the other packages own.
package config

import (
	_ "embed" // the starter config
	"errors"
	"fmt"
	"io/fs"
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
	// ErrNotFound means that there is no config file, where it was named or anywhere that Load looks.
	ErrNotFound = errors.New("no configuration file")
	// ErrInvalid is wrapped by every refusal of what a config says.
	ErrInvalid = errors.New("invalid configuration")
	// ErrFlag is wrapped besides when it was a flag that said it.
	ErrFlag = errors.New("invalid flag")
	// ErrUnknownQueue means that a queue is not one of the config's.
	ErrUnknownQueue = errors.New("unknown queue")
)

// Config is hipq.yaml, checked and complete.
type Config struct {
	// File is the absolute path of the file it came from.
	File string
	// lines are those of the file's keys.
	lines map[string]int
	// Name is the instance's.
	Name string
	// Tables is the naming template of the tables.
	Tables string
	// Database says which one, with an absolute Path for SQLite. It may hold a password: don't print it.
	Database schema.Options
	// DSNFrom is the setting that Database.DSN comes from: a variable, or a key of File.
	DSNFrom string
	// Location is the zone of the time windows and of what people read.
	Location *time.Location
	Worker   worker.Options
	// ActivityKeep is how long purge leaves the activity.
	ActivityKeep time.Duration
	// MetricsKeep is how long purge leaves the metrics, two weeks at least: a report has two.
	MetricsKeep time.Duration
	// MonitorPing and PurgePing are the URLs to be told when hipq monitor, or purge, starts and ends; empty is none. They may hold
	// secrets: don't print them.
	MonitorPing string
	PurgePing   string
	// Alert has the limits of the instance, and of its queues and their job types.
	Alert monitor.Alert
	// StrictTypes is what a Queue's is where it says nothing, and that of queues which this config doesn't have.
	StrictTypes bool
	// AllowForeignHandlers lets root run handlers' programs that another user could have written.
	AllowForeignHandlers bool
	// Mail says that what cron mails of a tick's failed jobs and outages is printed.
	Mail bool
	// Warnings say what should be otherwise, for people to read.
	Warnings []string
	// Queues are at least one, in the order of the file.
	Queues []Queue
	// Schedules are the recurring jobs, in the order of the file.
	Schedules []schedule.Schedule
}

// Queue is one queue of the config, with what runs for its jobs.
type Queue struct {
	queue.Options
	// Handlers are by the name of the job type. A type without one is enqueued here and handled elsewhere.
	Handlers map[string]Handler
	// RetryHandlers are by the name of the job type too; a type without one leaves the retry to its policy.
	RetryHandlers map[string]Handler
}

// Handler says what runs for the jobs of one type, or decides about their retry: one of Exec, Stream and HTTP is set.
type Handler struct {
	// Key is the path of its section in the config: queues.emails.job_types.send.handler.
	Key string
	// Exec is the program that runs for each job, and its arguments, without a shell.
	Exec []string
	// Stream is the same of a program that takes one job after another.
	Stream []string
	// Processes is how many programs of a stream a worker runs, at most, and InFlight how many jobs each has at once.
	Processes, InFlight int
	// HTTP is the endpoint that gets the jobs; nil is none.
	HTTP *HTTP
	// Dir is the absolute path of the folder in which it runs.
	Dir string
	// Env is its additional environment: NAME=value, or NAME alone for the worker's own value.
	Env []string
	// DashArguments allows values of jobs as arguments of Exec that begin with -.
	DashArguments bool
	// User is the name of the user as whom it runs; "" is the worker's own. Whether there is one, config doesn't ask.
	User string
	// NewPrivs lets a program of another User gain rights by what it executes: no_new_privs is false.
	NewPrivs bool
	// Limits are what it may use.
	Limits handler.Limits
	// Nice is its niceness, and Umask the rights that its files don't have; nil is the worker's own.
	Nice  int
	Umask *fs.FileMode
}

// Program is the program and its arguments, whichever kind of handler it is; an endpoint has none.
func (h Handler) Program() []string { return slices.Concat(h.Exec, h.Stream) }

// LoadOptions say where to look. The zero value looks where a command without flags does.
type LoadOptions struct {
	// File is the file to read; empty to search for one.
	File string
	// Flags are a command's. Those of the worker (concurrency, batch, run-for, linger, max-jobs) outrank all else where
	// they exist and were given. May be nil.
	Flags *pflag.FlagSet
	// Env is the environment, NAME=value each; nil is the process's.
	Env []string
	// Dir is the folder for hipq.yaml and for relative file names; empty is the working directory.
	Dir string
}

// Names gives the instance's tables their names.
func (c *Config) Names() (schema.Names, error) { return schema.NewNames(c.Name, c.Tables) }

// Queue finds a queue by its name. The error for an unknown one lists those there are.
func (c *Config) Queue(name string) (Queue, error) {
	for _, q := range c.Queues {
		if q.Name == name {
			return q, nil
		}
	}
	known := c.QueueNames()
	slices.Sort(known)
	return Queue{}, fmt.Errorf("%w: %q; %s has %s", ErrUnknownQueue, name, c.File, strings.Join(known, ", "))
}

// QueueNames are the queues, in the order of the file.
func (c *Config) QueueNames() []string {
	return texts.Map(c.Queues, func(q Queue) string { return q.Name })
}

// QueueTables are the queues, as their tables are made and checked.
func (c *Config) QueueTables() []schema.Queue {
	return texts.Map(c.Queues, func(q Queue) schema.Queue { return q.Table() })
}

// TypeNames are the job types, in the order of the file.
func (q Queue) TypeNames() []string {
	return texts.Map(q.Types, func(t job.Type) string { return t.Name })
}

// Schedule finds a schedule by its name; nil is none.
func (c *Config) Schedule(name string) *schedule.Schedule {
	for n := range c.Schedules {
		if c.Schedules[n].Name == name {
			return &c.Schedules[n]
		}
	}
	return nil
}

//go:embed starter.yaml
var starter []byte

// Starter is the smallest sensible config, with comments, for somebody who begins.
func Starter() []byte { return slices.Clone(starter) }
