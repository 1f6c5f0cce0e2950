package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/schedule"
	"github.com/hipq/hipq/schema"
)

// Options bound what a worker takes on. It is a section of the config, so its fields have the config's names. What is 0 is that
// of DefaultOptions, but for Grace and MaxJobs.
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
	// RetryHandlers decide after an error of the types that have one; the policy does for the others.
	RetryHandlers map[string]handler.RetryHandler
}

// Params are what a worker works with: its Queues, and what else isn't as usual.
type Params struct {
	// Queues there must be, all of one schema.DB.
	Queues []Queue
	// Schedules are the recurring jobs that it enqueues, into Queues: each slot's once, over all workers that have the schedule. All
	// workers of a queue should have the same ones.
	Schedules []schedule.Schedule
	Options
	// Shards are those of its queues which the worker prefers: they have 16 turns for one of another. Without any it prefers those of its
	// node of Options.Nodes of the package schema.
	Shards []int
	// Middleware is around all handlers, the first outermost: handler.With.
	Middleware []handler.Middleware
	// ID names the worker in the activity; none may have had it before. Empty is a new one, by NewID.
	ID string
	// Host and PID say where it works; it shares Concurrency with the others of the same Host. Empty and 0 are this host's name
	// and this process.
	Host string
	PID  int
	// ClockStands says that the database's clock stands still while the worker runs, as that of a test does: then the worker doesn't
	// wait until a queue's rate lets it start more.
	ClockStands bool
	// Renewed, if not nil, is told each time how long the lock lasts from now on.
	Renewed func(lasts time.Duration)
	// Ended, if not nil, is told of each attempt when its handler has ended.
	Ended func(Attempt)
	// Quarantine, if not nil, runs an attempt of a job whose latest two ended with their workers, in a process of its own, which calls
	// TakeOver. It gives nil if the attempt has finished, and ends that process when ctx ends. nil: such a job runs like any other.
	Quarantine func(ctx context.Context, queue string, j *job.Job) error
	// Unkilled is told, in words, which processes of a worker that is no more still run on this host, for they could not be killed;
	// its jobs are reclaimed after that. nil puts them into the log.
	Unkilled func(workerID string, processes []string)
	// Log, if not nil, is told what the worker does: each round (debug), what goes on in spite of trouble, such as a database that
	// is away (warn), and, of Stay, what had to end a run (error). Of jobs it says nothing: that is for handler.Log.
	Log *slog.Logger
}

// tables are those of the queues.
func (p Params) tables() (all []schema.Queue) {
	for _, q := range p.Queues {
		all = append(all, q.Table())
	}
	return all
}

// Attempt is an attempt whose handler has ended.
type Attempt struct {
	Job *job.Job
	// Outcome is what the handler said, or what it was told: that it was interrupted, or its job cancelled.
	Outcome job.Outcome
}

// NewID is a random id for a worker.
func NewID() (string, error) {
	id, err := uuid.NewV7()
	return id.String(), err
}
