package admin

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
)

// What an operator can't do to a job that is final.
var (
	ErrNotFinal  = errors.New("the job is not final")
	ErrNotFailed = errors.New("the job has not failed")
	ErrFinished  = errors.New("the job finished")
)

// Cancel makes jobs that have not started, or wait for their next attempt, final: closed, with the error job.Cancelled. A row
// inserted by plain SQL is taken in first; one that can't be a job ends with that reason. It takes some hundreds of jobs in one
// transaction. Refused says which it couldn't cancel: ErrStarted, ErrFinal or ErrNotFound.
func (q *Queue) Cancel(ctx context.Context, ids ...int64) error {
	return q.operate(ctx, operation{"cancel", CanCancel, isCancelled, q.cancel}, ids)
}

func (q *Queue) cancel(ctx context.Context, tx *engine.Tx, _ int, j *job.Job) error {
	if j.Invalid != nil {
		return q.s.Reject(ctx, tx, workers.Worker{}, j)
	}
	var entries []activity.Entry
	if j.IsNew() {
		if err := q.s.IngestOne(ctx, tx, j); err != nil {
			return err
		}
		entries = append(entries, q.s.Entry(j, activity.Added))
	}
	entry := q.s.Entry(j, activity.Cancelled)
	entry.Error = job.Cancelled
	if err := activity.Write(ctx, tx, q.s.DB(), append(entries, entry)); err != nil {
		return err
	}
	err := tx.Write(ctx, "UPDATE "+q.s.Table()+" "+q.s.DB().SQL.ByID+" SET status = 'closed', error = ?, wake_time = NULL,"+
		" worker_id = 'NONE', lock_token = 'NONE', update_time = ? WHERE id = ?", job.Cancelled, engine.At(tx.Now), j.ID)
	if err != nil {
		return err
	}
	return q.s.Discard(ctx, tx, job.StatusClosed, []any{j.ID})
}

// CanCancel says whether Cancel, or Reschedule, would refuse a job as it is: ErrStarted or ErrFinal.
func CanCancel(j *job.Job) error {
	switch j.State() {
	case job.Final:
		return store.ErrFinal
	case job.Running, job.Error:
		return store.ErrStarted
	}
	return nil
}

// Stop ends a job that has been started, with the error job.Cancelled, unless it finishes before. If a worker has the job, Stop
// asks this worker, which takes about a second and the handler's grace; else the job ends at once. asked is the worker that was
// asked, else job.None. ErrNotStarted, ErrFinal or ErrNotFound if the job can't be stopped. It may be repeated.
func (q *Queue) Stop(ctx context.Context, id int64) (asked string, err error) {
	can := func(j *job.Job) error {
		if err := CanCancel(j); !errors.Is(err, store.ErrStarted) {
			return cmp.Or(err, store.ErrNotStarted)
		}
		return nil
	}
	asked = job.None
	err = q.operate(ctx, operation{"stop", can, isCancelled, func(ctx context.Context, tx *engine.Tx, _ int, j *job.Job) error {
		asked = job.None
		switch {
		case j.Invalid != nil:
			return q.s.Reject(ctx, tx, workers.Worker{}, j)
		case j.Status.HasWorker():
			asked = j.WorkerID
			return tx.Write(ctx, "UPDATE "+q.s.Table()+" "+q.s.DB().SQL.ByID+" SET stopping = 1 WHERE id = ?", id)
		}
		o := job.Outcome{Verdict: job.Stopped, Error: job.Cancelled, Result: j.Result, Output: j.Output, Ran: j.Ran(tx.Now)}
		entries, err := q.s.Conclude(ctx, tx, store.Settled{Job: j, Outcome: o})
		if err != nil {
			return err
		}
		return activity.Write(ctx, tx, q.s.DB(), entries)
	}}, []int64{id})
	return asked, err
}

// RescheduleOptions is when a job should run, and with which priority. What is zero or nil stays as it is.
type RescheduleOptions struct {
	At time.Time
	// In counts from now by the database's clock.
	In       *time.Duration
	Priority *int
}

// Reschedule changes when a waiting job should run, and with which priority. Its windows still hold. ErrStarted, ErrFinal or
// ErrNotFound if it can't be rescheduled. It may be repeated.
func (q *Queue) Reschedule(ctx context.Context, id int64, w RescheduleOptions) error {
	return q.operate(ctx, operation{"reschedule", CanCancel, nil, func(ctx context.Context, tx *engine.Tx, _ int, j *job.Job) error {
		if j.Invalid != nil {
			return j.Invalid
		}
		when := j.ScheduledRunTime
		if !w.At.IsZero() {
			when = w.At
		}
		if w.In != nil {
			when = tx.Now.Add(*w.In)
		}
		when = policy.Opening(j.Windows, q.s.Location, when)
		status, wake := policy.StatusAt(when, tx.Now)
		return tx.Write(ctx, "UPDATE "+q.s.Table()+" "+q.s.DB().SQL.ByID+store.ScheduledAnew+", priority = COALESCE(?, priority) WHERE id = ?",
			status, engine.At(wake), engine.At(when), engine.At(tx.Now), w.Priority, j.ID)
	}}, []int64{id})
}

// Pause stops workers from starting jobs of the queue. What runs goes on, and jobs may be enqueued. It registers the queue if
// nothing else has, and may be repeated.
func (q *Queue) Pause(ctx context.Context) error { return q.pause(ctx, true) }

// Resume lets workers start jobs of the queue again. It may be repeated.
func (q *Queue) Resume(ctx context.Context) error { return q.pause(ctx, false) }

func (q *Queue) pause(ctx context.Context, paused bool) error {
	number, err := q.s.DivisionOf(ctx, q.s.DB().SQL)
	if err == nil && number == 0 {
		err = q.s.Register(ctx)
	}
	if err == nil {
		err = q.s.DB().SQL.Tx(ctx, func(tx *engine.Tx) error {
			if err := tx.Write(ctx, "UPDATE "+q.s.DB().Queues()+" SET paused = ? WHERE queue = ?", paused, q.s.Name); err != nil || !paused {
				return err
			}
			// a round that has its turn and hasn't seen this is over first
			return q.s.TakeAllTurns(ctx, tx)
		})
	}
	return texts.Wrap(err, "pause or resume %s", q.s.Name)
}

// Paused says whether the queue is paused.
func (q *Queue) Paused(ctx context.Context) (paused bool, err error) {
	err = q.s.DB().SQL.GetContext(ctx, &paused, "SELECT "+q.s.PausedExpr(), q.s.Name)
	return paused, texts.Wrap(err, "find out whether %s is paused", q.s.Name)
}
