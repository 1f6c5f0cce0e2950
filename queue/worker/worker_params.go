package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/schedule"
	"github.com/hipq/hipq/schema"
)

// Options bound what a worker takes on. They are a section of the config, whose names they have. A 0 stands for the value of
// DefaultOptions, except in Grace and MaxJobs.
type Options struct {
	// Concurrency is how many jobs run at once on this host, over all of the instance's workers on it.
	Concurrency int
	// Batch is how many jobs one round starts at most.
	Batch int
	// RunFor is how long the worker starts new jobs.
	RunFor time.Duration
	// Linger makes it look for new jobs until RunFor is over; else it ends when nothing is due.
	Linger bool
	// LockFor is how long a lock lasts unless it is renewed.
	LockFor time.Duration
	// Grace is how long a job may go on after it was told to stop; 0 is not at all.
	Grace time.Duration
	// MaxJobs ends the worker after so many starts; 0 is without end.
	MaxJobs int
}

// DefaultOptions are those where the config says nothing.
var DefaultOptions = Options{Concurrency: 4, Batch: 100, RunFor: 55 * time.Second, LockFor: time.Minute, Grace: 10 * time.Second}

// Queue is a queue with what runs its jobs, by job type. Jobs of other types are left to other workers.
type Queue struct {
	*queue.Queue
	Handlers map[string]handler.Handler
	// RetryHandlers decide after an error of their types; the policy decides for the others.
	RetryHandlers map[string]handler.RetryHandler
}

func (q Queue) store() *store.Queue { return (*store.Queue)(q.Queue) }

// Params are what a worker works with. Only Queues are required.
type Params struct {
	// Queues are all of one schema.DB.
	Queues []Queue
	// Schedules are the recurring jobs that it enqueues into Queues, once a slot over all workers. All workers of a queue should
	// have the same ones.
	Schedules []schedule.Schedule
	Options
	// Shards are those that the worker prefers: they have 16 rounds for one of another. Without any it prefers those of its node:
	// see schema.Options.Nodes.
	Shards []int
	// Middleware is around all handlers, the first outermost: handler.With.
	Middleware []handler.Middleware
	// ID names the worker in the activity; no other may have had it. Empty is a new one.
	ID string
	// Host is where it works, by default this host's name. It shares Concurrency with the other workers there.
	Host string
	// PID is by default this process.
	PID int
	// ByHand says that a person has started it: that is no sign that cron, or what else starts workers, does so.
	ByHand bool
	// ClockStands says that the database's clock stands still, as in a test: the worker doesn't wait for a queue's rate then.
	ClockStands bool
	// Renewed, if not nil, is told how long the lock lasts from now on.
	Renewed func(lasts time.Duration)
	// Close, if not nil, ends what the handlers have left, when all attempts are settled. What it says goes to the worker's last entry in
	// the activity.
	Close func() string
	// Ended, if not nil, is told of each attempt when its handler has ended.
	Ended func(Attempt)
	// Quarantine, if not nil, runs an attempt of a job whose latest two ended with their workers. It does so in a process of its
	// own, which calls TakeOver and ends with ctx. It returns nil if the attempt has finished.
	Quarantine func(ctx context.Context, queue string, j *job.Job) error
	// Unkilled is told, in words, which processes of a dead worker could not be killed on this host, before its jobs are
	// reclaimed. If it is nil, the log is.
	Unkilled func(workerID string, processes []string)
	// Log, if not nil, is told of each round (debug), of trouble such as a database that is away (warn), and of what ends Stay
	// (error). For jobs there is handler.Log.
	Log *slog.Logger
}

func (p Params) tables() (all []schema.Queue) {
	for _, q := range p.Queues {
		all = append(all, q.store().Options.Table())
	}
	return all
}

// Attempt is an attempt whose handler has ended.
type Attempt struct {
	Job *job.Job
	// Outcome is what the handler said, or what it was told: that it was interrupted, or its job cancelled.
	Outcome job.Outcome
}
