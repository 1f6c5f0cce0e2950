package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/roster"
)

// Round is what a worker does to a queue in one transaction: it settles the attempts that have ended, and locks and starts
// the next jobs in their place.
type Round struct {
	Worker roster.Worker
	// Token is the lock of the jobs that the round starts. A round that ended in an error may have been committed all the
	// same: done again with its token, it finds what it has started, and settles nothing twice.
	Token string
	// Settle are the attempts that have ended.
	Settle []Settled
	// Slots is how many jobs to start, from Candidates, at most.
	Slots      int
	Candidates *Candidates
	// BehindSuspects says that there may be suspects: in a queue with limits no job overtakes one that waits for room.
	BehindSuspects bool
	// Again says that the round was done before, and ended in an error.
	Again bool
	// tried are the jobs that it has set out to start, each time that it was done; met those that it has looked at.
	tried, met *[]any
}

// NewRound is a round of a worker, with a token of its own.
func NewRound(w roster.Worker) Round {
	return Round{
		Worker: w, Token: uuid.Must(uuid.NewV7()).String(), // it fails only where there is no randomness at all
		tried: &[]any{}, met: &[]any{},
	}
}

// HasTried says whether the round has set out to start a job, which it then may have started.
func (r Round) HasTried() bool { return len(*r.tried) > 0 }

// Done is what a round did.
type Done struct {
	// Started are the jobs to run now.
	Started []*job.Job
	// Resting are those in the state error, under the worker's lock, about which its retry handlers are to be asked now.
	Resting []Settled
	// Unsettled are those whose rows another transaction holds: to be settled by a later round.
	Unsettled []Settled
	// Lost are the jobs whose settlement changed nothing, because the worker had lost its lock on them.
	Lost []*job.Job
	// More says that there may be jobs which the round could have started, had it had more slots or looked longer.
	More bool
	// Wait is how long the queue's rate lets no job start, if it does.
	Wait time.Duration
}

// Round does a round. It waits for its turn where the queue has limits or a rate, and, when it is done again, for what may be
// left of the try before. It passes over rows that other transactions hold; for one that holds the place of a job's key in
// the index it waits some seconds. After an error that is engine.IsLockTimeout it should be done again in parts, so that one
// job holds up no other. It may be repeated: see Round.Token.
func (q *Queue) Round(ctx context.Context, r Round) (Done, error) {
	var done Done
	var first *firstRead
	again := r.Again
	err := q.db.TxInParts(ctx, func(tx *engine.Tx) []engine.Query {
		if again && r.Candidates != nil {
			r.Candidates.Forget() // some were taken for nothing
		}
		first = &firstRead{settling: map[int64]settling{}, jobs: map[int64]*job.Job{}}
		return q.readFirst(tx, r, first, again)
	}, func(tx *engine.Tx) (err error) {
		done = Done{}
		slots := r.Slots
		if again {
			if done.Started, err = q.startedUnder(ctx, tx, r); err != nil {
				return err
			}
			if len(done.Started) > 0 {
				slots, done.More = 0, true
			}
		}
		again = true
		entries, err := q.settle(ctx, tx, r, first, &done)
		if err != nil {
			return err
		}
		if slots > 0 {
			if q.TakesTurns() {
				// those behind should not have to wait for this
				if err := q.logAs(ctx, tx, r.Worker, entries); err != nil {
					return err
				}
				entries = nil
			}
			starting, err := q.start(ctx, tx, r, first, &done)
			if err != nil {
				return err
			}
			entries = append(entries, starting...)
		}
		return q.logAs(ctx, tx, r.Worker, entries)
	})
	if engine.IsRefused(err) {
		ids := slices.Clone(*r.met)
		for _, s := range r.Settle {
			ids = append(ids, s.Job.ID)
		}
		if err = q.weed(ctx, r.Worker, ids, err); err == nil {
			r.Again = true
			return q.Round(ctx, r)
		}
	}
	if err != nil {
		return Done{}, fmt.Errorf("settle and start jobs of %s: %w", q.Name, err)
	}
	return done, nil
}

// firstRead is what a round reads in the round trip that begins its transaction: the rows to settle, by id; and, where it need
// not wait for its turn, whether it may start anything, and the candidates that it knows already, with those of their jobs that
// it has locked.
type firstRead struct {
	settling map[int64]settling
	open     bool
	due      []candidate
	jobs     map[int64]*job.Job
}

func (q *Queue) readFirst(tx *engine.Tx, r Round, first *firstRead, again bool) (queries []engine.Query) {
	if len(r.Settle) > 0 {
		queries = append(queries, q.settling(r.Worker.ID, r.Settle, tx.SkipLocked, first.settling))
	}
	if r.Slots < 1 || q.TakesTurns() {
		return queries
	}
	queries = append(queries, q.isOpen(r.Worker.ID, &first.open))
	if !again {
		if first.due = r.Candidates.known(r.Slots); len(first.due) > 0 {
			queries = append(queries, q.lockDue(tx, first.due, first.jobs))
		}
	}
	return queries
}

// logAs logs what a worker did.
func (q *Queue) logAs(ctx context.Context, tx *engine.Tx, w roster.Worker, entries []activity.Entry) error {
	for i := range entries {
		entries[i].WorkerID, entries[i].Host, entries[i].PID = w.ID, w.Host, w.PID
	}
	return q.log.Record(ctx, tx, entries)
}

// entry is an entry about a job, without what only its author knows.
func (q *Queue) entry(j *job.Job, state activity.State) activity.Entry {
	return activity.Entry{
		Kind: activity.Job, State: state, Queue: q.Name, JobID: j.ID, JobType: j.Type, JobKey: j.Key, Attempt: j.Attempt,
	}
}
