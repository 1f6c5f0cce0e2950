package worker

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/schedule"
	"github.com/hipq/hipq/schema"
)

// Options bound a worker's load. They match the config's worker section. 0 means the value of DefaultOptions.
type Options struct {
	// Concurrency is how many jobs run at once on this host, across all of the instance's workers there.
	Concurrency int `key:"concurrency" from:"1" to:"10000"`
	// Batch is how many jobs one round may start.
	Batch int `key:"batch" from:"1" to:"10000"`
	// RunFor is how long the worker starts jobs.
	RunFor time.Duration `key:"run_for" from:"1s"`
	// Linger makes the worker poll until RunFor is over. Without Linger it ends when nothing is due.
	Linger bool `key:"linger"`
	// Poll is how often the worker looks for jobs that others have added, at least 10 ms. Jobs that this program adds by the
	// worker's own Queue start at once.
	Poll time.Duration `key:"poll" from:"50ms"`
	// LockFor is how long the worker's lock lasts without renewal.
	LockFor time.Duration `key:"lock_for" from:"1s"`
	// Grace is how long handlers may go on after they were told to stop; NoGrace means not at all.
	Grace time.Duration `key:"grace"`
	// MaxJobs ends the worker after this many starts; 0 means no limit.
	MaxJobs int
}

// NoGrace is a Grace that stops handlers at once.
const NoGrace = handler.NoGrace

// DefaultOptions apply where the config has no value.
var DefaultOptions = Options{
	Concurrency: 4, Batch: 100, RunFor: 55 * time.Second, Poll: time.Second, LockFor: time.Minute, Grace: handler.DefaultGrace,
}

// Queue is a queue with its handlers by job type. The worker ignores jobs of other types.
type Queue struct {
	*queue.Queue
	// Handlers are by job type. That of job.AllTypes is for each type without one, except those in Except.
	Handlers map[string]handler.Handler
	// RetryHandlers decide after errors, by job type; the retry policy decides for other types.
	RetryHandlers map[string]handler.RetryHandler
	// Except are types that the handler of job.AllTypes leaves to other workers.
	Except []string
	// streams are the handlers, by job type, whose programs start within an attempt.
	streams map[string]stream
}

// stream is a handler.Stream. It moves the end of an attempt's time, and says how many jobs it can have now.
type stream interface{ Room() int }

// handledAs is the name of a job type in Handlers: its own, or job.AllTypes.
func (q *Queue) handledAs(jobType string) string {
	if q.Handlers[jobType] != nil || slices.Contains(q.Except, jobType) {
		return jobType
	}
	return job.AllTypes
}

// handler is the handler of a job type; nil if there is none.
func (q *Queue) handler(jobType string) handler.Handler { return q.Handlers[q.handledAs(jobType)] }

// Handles says whether this worker has a handler for a job type.
func (q *Queue) Handles(jobType string) bool { return q.handler(jobType) != nil }

// retryHandler is the retry handler of a job type that this worker handles; nil if there is none.
func (q *Queue) retryHandler(jobType string) handler.RetryHandler {
	if h := q.RetryHandlers[jobType]; h != nil {
		return h
	}
	return q.RetryHandlers[q.handledAs(jobType)]
}

// streamOf is the handler of a job type if it is a stream; else nil.
func (q *Queue) streamOf(jobType string) stream { return q.streams[q.handledAs(jobType)] }

func (q *Queue) store() *store.Queue { return (*store.Queue)(q.Queue) }

// Params are the parameters of a worker. Only Queues is required.
type Params struct {
	// Queues must all belong to one schema.DB.
	Queues []Queue
	// Schedules are recurring jobs that the worker enqueues into Queues, once per slot across all workers. All workers of a
	// queue should have the same schedules.
	Schedules []schedule.Schedule
	Options
	// Shards are the preferred shards: each gets 16 rounds for one of another. By default the worker prefers the shards of
	// its node: see schema.Options.Nodes.
	Shards []int
	// Middleware wraps all handlers, the first outermost: see handler.With.
	Middleware []handler.Middleware
	// ID names the worker in the activity and must never have been used before; empty means a new ID.
	ID string
	// Host defaults to this host's name. Workers with the same Host share Concurrency.
	Host string
	// PID defaults to this process.
	PID int
	// ByHand says that a person started the worker, so its run doesn't prove that cron works.
	ByHand bool
	// ClockStands says that the database's clock doesn't advance, as in tests; the worker then never waits for a rate.
	ClockStands bool
	// Renewed, if set, is called with the remaining life of the lock after each renewal.
	Renewed func(lasts time.Duration)
	// Close, if set, cleans up after the handlers once all attempts are settled. Its text goes into the worker's last
	// activity entry. RunUntilDone calls it once, after all runs, and logs the text.
	Close func() string
	// Ended, if set, is called for each attempt when its handler has ended. What follows isn't decided yet.
	Ended func(Attempt)
	// Quarantine, if set, runs a job whose last two attempts ended with their workers. It starts a process that calls
	// TakeOver, and must end when ctx does. It returns nil if the attempt was settled.
	Quarantine func(ctx context.Context, queue string, j *job.Job) error
	// Unkilled is called with a dead worker's processes that couldn't be killed on this host, before its jobs are reclaimed.
	// If nil, the log gets them.
	Unkilled func(workerID string, processes []string)
	// Log, if set, gets rounds (debug), trouble such as a database that is away (warn), and the error that ends RunUntilDone
	// (error), and why a retry handler failed (warn). To log jobs, see handler.Log.
	Log *slog.Logger
	// over, if set, is called once if RunFor is over, no more jobs will start, and some still run, with how many have started.
	over func(started int)
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
	// Outcome is the handler's, or says that the attempt was interrupted or cancelled.
	Outcome job.Outcome
}
