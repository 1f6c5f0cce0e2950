// Package rounds is what a worker and a queue say to each other: which attempts have ended, which jobs to run now, what there
// is to do. The package queue does it, the package queue/worker asks for it; an application has no use for it.
package rounds

import (
	"context"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/roster"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Queue is a queue as a worker sees it. It is safe for concurrent use.
type Queue interface {
	// DB is the database that it is in.
	DB() *schema.DB
	// Disowned are those of its jobs that run on in this process.
	Disowned() *Disowned

	// Round does a round. It waits for its turn where the queue has limits or a rate, and, when it is done again, for what may be
	// left of the try before. It passes over rows that other transactions hold; for one that holds the place of a job's key in
	// the index it waits some seconds. After an error that is engine.IsLockTimeout it should be done again in parts, so that one
	// job holds up no other. It may be repeated: see Round.Token.
	Round(ctx context.Context, r Round) (Done, error)
	// TakesTurns says whether those who start jobs of the queue follow one another: a job that starts takes something from
	// the others.
	TakesTurns() bool
	// Candidates are those of these types in a shard, for one worker.
	Candidates(shard int, types []string) Candidates
	// StartNow locks and starts one job that waits, whatever its time, its windows and its queue's order say, and although the
	// queue may be paused; its limits and its rate hold all the same. queue.ErrStarted, ErrFinal, ErrNotFound, ErrNotTakenIn or
	// ErrNoRoom if that can't be; ErrLocked if a worker has it. It may be repeated with the same round.
	StartNow(ctx context.Context, r Round, id int64) (*job.Job, error)
	// TakeOver makes a running attempt, which another worker has begun under a token, that of a worker. queue.ErrStarted if it is not the
	// other's any more. It may be repeated.
	TakeOver(ctx context.Context, worker string, id int64, from, token string) (*job.Job, error)
	// SetProgress writes down how far the attempts of a worker have come, as they have said: of those that run under the tokens that
	// it knows. It waits for no other transaction: held are those whose rows another holds. It may be repeated.
	SetProgress(ctx context.Context, workerID string, said []Said) (held []Said, err error)
	// Undecided takes up to r.Slots jobs of these types that wait for their retry decision, under the lock of a round that is
	// only for this, and gives them with what is known of their last attempt. A retry handler decides about them, and another
	// round writes down what it says. A worker that ends before gives them to others; one that was declared dead gets none. It
	// may be repeated: see Round.Token.
	Undecided(ctx context.Context, r Round, types []string) ([]Settled, error)

	// Plan asks the engine how it would find the due jobs of a type, without doing so.
	Plan(ctx context.Context, jobType string) (Plan, error)

	// Look finds out in one query, or in one for each hundred shards, what there is to do: what may be started in these shards, or in all if none is named, and what else
	// there is. It reads and locks nothing. queue.ErrShards if the queue has been divided otherwise.
	Look(ctx context.Context, types []string, shards ...int) (Look, error)
	// Upkeep does what a look found, apart from what rounds do: takes in, divides limits among shards, promotes, and rescues. handled are
	// the types of the worker, and whether it has a retry handler for each. Any number of workers may do it at once. It does a bounded
	// part of each; when there may be more, more is true. dead, if not nil, is called with each worker of the instance that is no
	// more, before its jobs are rescued; perhaps more than once. What has to wait for another transaction waits some
	// seconds, and keeps nothing else from being done: then comes the error, which is engine.IsLockTimeout.
	Upkeep(ctx context.Context, w roster.Worker, l Look, handled map[string]bool, dead func(workerID string)) (more bool, err error)
	// Stopping are the jobs that a worker runs and is asked to stop.
	Stopping(ctx context.Context, workerID string) ([]int64, error)

	// Enqueue adds a job in a transaction of the worker's own: the job of a schedule's slot. by says in the activity where it comes
	// from. isNew is false if a job with its key is there that is not final: then the id is that one's.
	Enqueue(ctx context.Context, tx *engine.Tx, j job.New, by string) (id int64, isNew bool, err error)
}

// Candidates are the due jobs of some types, as one worker knows them: a queue has made them, and reads in them in its
// rounds. They are safe for concurrent use.
type Candidates interface {
	// Forget makes the next round read from the head of the line.
	Forget()
}

// Plan is how the engine finds a queue's due jobs.
type Plan struct {
	// Index is the index that has them in order; Walks says that the engine goes through it, and Sorts that it sorts all the same.
	Index        string
	Walks, Sorts bool
	// Text is what the engine says, on one line.
	Text string
}

// Look says what there is to do in a queue.
type Look struct {
	// Due: a job of the given types may be started; never in a paused queue.
	Due bool
	// Held: jobs whose throttle groups were full wait for room.
	Held bool
	// Shards says that of each of the shards looked at.
	Shards []Startable
	// Waking: a later job's time has come, or that of an answer is over.
	Waking bool
	// New: a row inserted by plain SQL is to be taken in.
	New bool
	// Misplaced: a job was placed when the queue was divided otherwise.
	Misplaced bool
	// Dividing: a shard has too little of the queue's limit or its rate, and these weren't divided anew for a second.
	Dividing bool
	// Orphaned: a worker that is no more still has jobs.
	Orphaned bool
	// Undecided: a job of the given types waits for its retry decision.
	Undecided bool
}

// Nothing says that there is nothing to do.
func (l Look) Nothing() bool {
	return !l.Due && !l.Held && !l.Waking && !l.New && !l.Misplaced && !l.Dividing && !l.Orphaned && !l.Undecided
}

// Startable says what may be started in a shard.
type Startable struct {
	Shard     int
	Due, Held bool
}
