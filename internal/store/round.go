package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
)

// Round is what a worker does to a queue in one transaction: it settles attempts that have ended, and starts the next jobs.
type Round struct {
	Worker workers.Worker
	// Token is the lock of the jobs that the round starts. A round that ended in an error may have been committed: done again with
	// its token, it finds what it has started, and settles nothing twice.
	Token string
	// Settle are the attempts that have ended.
	Settle []Settled
	// Slots is how many jobs to start, from Candidates, at most.
	Slots      int
	Candidates *Candidates
	// Again says that the round may have been done before, or parts of it: it looks at each job before it settles it.
	Again bool
	// Stopped gives an error once the worker's jobs are stopped: from then on the round starts none. Nil is never.
	Stopped func() error
	// Tried are the ids of the jobs that it has set out to start, over all times that it is done.
	Tried *[]any
}

// NewRound is a round of a worker, with a token of its own.
func NewRound(w workers.Worker) Round {
	token := uuid.Must(uuid.NewV7()) // it fails only where there is no randomness at all
	return Round{Worker: w, Token: token.String(), Tried: new([]any)}
}

// Done is what a round did.
type Done struct {
	// Started are the jobs to run now.
	Started []*job.Job
	// Resting are those in the state error, under the worker's lock, about which its retry handlers are to be asked now.
	Resting []Settled
	// Unsettled are those whose rows another transaction holds: to be settled by a later round.
	Unsettled []Settled
	// Answered are the outcomes, by job, of attempts that ended as an answer said and not as their handlers did.
	Answered map[int64]job.Outcome
	// Lost are the jobs whose settlement changed nothing, because the worker had lost its lock on them.
	Lost []*job.Job
	// More says that there may be jobs which the round could have started with more slots or more time.
	More bool
	// Wait is how long the queue's rate lets no job start, if it does.
	Wait time.Duration
	// Full says that jobs wait for room in the limit, and may get it soon.
	Full bool
}

// Settled is an attempt that has ended, and how.
type Settled struct {
	Job     *job.Job
	Outcome job.Outcome
	// Waits is the status in which the job waits for its retry handler after an error: deciding for one of this worker, undecided
	// for one of any, empty for the policy.
	Waits job.Status
	// NotBegun says that no handler has seen the attempt: it says nothing about whether the job ends its workers.
	NotBegun bool
	// Asked says that the attempt was settled before, and that a retry handler has been asked about the job since. Decision is
	// what it said; nil leaves it to the policy, and Note says why.
	Asked    bool
	Decision *job.Decision
	Note     string
}

// Said is what the handler of an attempt has said of its progress.
type Said struct {
	Job      *job.Job
	Progress job.Progress
}

// Round settles and starts jobs in one transaction. It waits for its turn if the queue has limits or a rate, and when repeated for the
// earlier try to end. It skips rows that other transactions have locked, but waits some seconds for a lock on a job's key in the index.
// If the error is engine.IsLockTimeout, repeat the round in parts, so that one job doesn't block the others. It may be repeated: see
// Round.Token.
func (q *Queue) Round(ctx context.Context, r Round) (Done, error) {
	var done Done
	var first *firstRead
	again, begun := r.Again, false
	err := q.db.SQL.TxInParts(ctx, func(tx *engine.Tx) []engine.Query {
		if again && r.Candidates != nil {
			r.Candidates.Forget() // some were taken for nothing
		}
		begun = false
		first = &firstRead{settling: map[int64]settling{}}
		return q.readFirst(tx, r, first, again)
	}, func(tx *engine.Tx) (err error) {
		begun = true
		if first.finished != len(first.finishing) {
			return errNotAsLeft
		}
		done = Done{Answered: map[int64]job.Outcome{}}
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
		if err := q.settle(ctx, tx, r, first, &done); err != nil || slots < 1 || r.Stopped != nil && r.Stopped() != nil {
			return err
		}
		return q.start(ctx, tx, r, first, &done)
	})
	if errors.Is(err, errNotAsLeft) || !begun && first != nil && len(first.finishing) > 0 && engine.IsLockTimeout(err) {
		r.Again = true
		return q.Round(ctx, r)
	}
	if err != nil {
		return Done{}, fmt.Errorf("settle and start jobs of %s: %w", q.Name, err)
	}
	return done, nil
}

// firstRead is what a round reads in the round trip that begins its transaction: the rows to settle, by id; and, where it takes no
// turn, whether its worker may start jobs, and the candidates that it knows already.
type firstRead struct {
	settling map[int64]settling
	// finishing are the attempts whose jobs it has finished without a look at them before, finished is how many of those have been;
	// others are all other attempts to settle.
	finishing, others []Settled
	finished          int
	open              bool
	due               []candidate
}

func (q *Queue) readFirst(tx *engine.Tx, r Round, first *firstRead, again bool) (queries []engine.Query) {
	rest, starts := r.Settle, r.Slots > 0 && !q.TakesTurns()
	values := []engine.Value{q.db.SQL.ClockOf(tx)}
	if !again && q.db.SQL.UpdateAtOnce != "" {
		if first.finishing, rest = q.plain(rest); len(first.finishing) > 0 {
			queries = append(queries, q.finishing(tx, q.db.SQL.UpdateAtOnce, r.Worker.ID, first.finishing))
			values = append(values, engine.Value{SQL: q.db.SQL.RowCount, Into: &first.finished})
		}
	}
	if starts {
		values = append(values, q.isOpen(r.Worker.ID, &first.open))
	}
	queries = append(queries, engine.Values(values...))
	if first.others = rest; len(rest) > 0 {
		queries = append(queries, q.settling(r.Worker.ID, rest, tx.SkipLocked, first.settling))
	}
	if starts && !again {
		if first.due = r.Candidates.known(r.Slots); len(first.due) > 0 {
			queries = append(queries, r.Candidates.lock(tx, first.due))
		}
	}
	return queries
}

// errNotAsLeft is the error of a round that finds attempts not as it left them, or can't have their rows at once.
var errNotAsLeft = errors.New("some attempts are not as their worker left them")

func (q *Queue) logAs(ctx context.Context, tx *engine.Tx, w workers.Worker, entries []activity.Entry) error {
	for i := range entries {
		entries[i].WorkerID, entries[i].Host, entries[i].PID = w.ID, w.Host, w.PID
	}
	return activity.Write(ctx, tx, q.db, entries)
}

// logRows logs what a worker did to all of these jobs, from their rows.
func (q *Queue) logRows(ctx context.Context, tx *engine.Tx, w workers.Worker, state activity.State, rows activity.JobRows) error {
	rows.Table = q.table
	return activity.WriteRows(ctx, tx, q.db, activity.Entry{Kind: activity.Job, State: state, Queue: q.Name, WorkerID: w.ID, Host: w.Host, PID: w.PID}, rows)
}

// Entry is an entry about a job, without what only its author knows.
func (q *Queue) Entry(j *job.Job, state activity.State) activity.Entry {
	return activity.Entry{
		Kind: activity.Job, State: state, Queue: q.Name, JobID: j.ID, JobType: j.Type, JobKey: j.Key, Attempt: j.Attempt,
	}
}
