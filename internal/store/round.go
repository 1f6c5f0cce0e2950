package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
)

// round is a round with the candidates as the queue has made them.
type round struct {
	Round
	candidates *candidates
}

// Round settles and starts jobs in one transaction. It waits for its turn if the queue has limits or a rate, and when repeated for the
// earlier try to end. It skips rows that other transactions have locked, but waits some seconds for a lock on a job's key in the index.
// If the error is engine.IsLockTimeout, repeat the round in parts, so that one job doesn't block the others. It may be repeated: see
// Round.Token.
func (q *Queue) Round(ctx context.Context, asked Round) (Done, error) {
	r := round{Round: asked}
	r.candidates, _ = asked.Candidates.(*candidates)
	var done Done
	var first *firstRead
	again, begun := r.Again, false
	err := q.db.TxInParts(ctx, func(tx *engine.Tx) []engine.Query {
		if again && r.candidates != nil {
			r.candidates.Forget() // some were taken for nothing
		}
		begun = false
		first = &firstRead{settling: map[int64]settling{}}
		return q.readFirst(tx, r, first, again)
	}, func(tx *engine.Tx) (err error) {
		begun = true
		if first.finished != len(first.finishing) {
			return errNotAsLeft
		}
		done = Done{}
		slots := r.Slots
		if again {
			if done.Started, err = q.startedUnder(ctx, tx, asked); err != nil {
				return err
			}
			if len(done.Started) > 0 {
				slots, done.More = 0, true
			}
		}
		again = true
		if err := q.settle(ctx, tx, asked, first, &done); err != nil || slots < 1 || r.Stopped != nil && r.Stopped() != nil {
			return err
		}
		return q.start(ctx, tx, r, first, &done)
	})
	if errors.Is(err, errNotAsLeft) || !begun && first != nil && len(first.finishing) > 0 && engine.IsLockTimeout(err) {
		asked.Again = true
		return q.Round(ctx, asked)
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

func (q *Queue) readFirst(tx *engine.Tx, r round, first *firstRead, again bool) (queries []engine.Query) {
	rest, starts := r.Settle, r.Slots > 0 && !q.takesTurns()
	values := []engine.Value{q.db.ClockOf(tx)}
	if !again && q.db.UpdateAtOnce != "" {
		if first.finishing, rest = q.plain(rest); len(first.finishing) > 0 {
			queries = append(queries, q.finishing(tx, q.db.UpdateAtOnce, r.Worker.ID, first.finishing))
			values = append(values, engine.Value{SQL: q.db.RowCount, Into: &first.finished})
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
		if first.due = r.candidates.known(r.Slots); len(first.due) > 0 {
			queries = append(queries, r.candidates.lock(tx, first.due))
		}
	}
	return queries
}

// errNotAsLeft is the error of a round that finds attempts not as it left them, or can't have their rows at once.
var errNotAsLeft = errors.New("some attempts are not as their worker left them")

// logAs logs what a worker did.
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

// entry is an entry about a job, without what only its author knows.
func (q *Queue) Entry(j *job.Job, state activity.State) activity.Entry {
	return activity.Entry{
		Kind: activity.Job, State: state, Queue: q.Name, JobID: j.ID, JobType: j.Type, JobKey: j.Key, Attempt: j.Attempt,
	}
}
