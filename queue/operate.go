package queue

import (
	"context"
	"errors"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/record"
	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/internal/rules"
	"github.com/hipq/hipq/queue/job"
)

// What an operator can't do to a job any more, or not yet.
var (
	// ErrStarted: the job is running, or waits for its retry decision.
	ErrStarted = errors.New("the job has started")
	// ErrFinal: the job is final, and a final job never changes.
	ErrFinal = errors.New("the job is final")
	// ErrLocked: a worker has the job locked.
	ErrLocked = errors.New("a worker has the job locked")
	// ErrNotTakenIn: the row was inserted by plain SQL, and no worker has taken it in yet.
	ErrNotTakenIn = errors.New("no worker has taken the job in yet")
	// ErrNoRoom: the queue's limits, or its rate, leave no room for the job.
	ErrNoRoom = errors.New("the queue's limits leave no room for the job now")
	// ErrNotFinal: the job is not final yet.
	ErrNotFinal = errors.New("the job is not final")
	// ErrNotFailed: the job is final, and without an error.
	ErrNotFailed = errors.New("the job has not failed")
)

// notStarted is the condition for a job that an operator may still change: it waits, whoever has it locked. Taking it
// clears the token, so a worker that has it locked doesn't start it.
const notStarted = " AND state IN ('initial', 'retry')"

// Cancel makes a job that has not started (or waits for its next attempt) final, with the error job.Cancelled, and closes it, because
// whoever cancels a job has seen to it. A row inserted by plain SQL is taken in first; one that can't be a job ends with that reason.
// ErrStarted, ErrFinal or ErrNotFound if that can't be.
func (q *Queue) Cancel(ctx context.Context, id int64) error {
	return alone(q.CancelMany(ctx, []int64{id}))
}

// CancelMany is Cancel for several jobs in one transaction: for some hundreds at once. refused has for each why it could not
// be, nil if it was. After an error nothing was done.
func (q *Queue) CancelMany(ctx context.Context, ids []int64) (refused []error, err error) {
	return q.many(ctx, operation{"cancel", CanCancel, isCancelled, q.cancel}, ids)
}

// cancel ends a job that waits.
func (q *Queue) cancel(ctx context.Context, tx *engine.Tx, _ int, j *job.Job) error {
	if j.Flaw != nil {
		return q.refuseOne(ctx, tx, j)
	}
	var entries []activity.Entry
	if j.IsNew() {
		if err := q.takeInOne(ctx, tx, j); err != nil {
			return err
		}
		entries = append(entries, q.entry(j, activity.Added))
	}
	entry := q.entry(j, activity.Cancelled)
	entry.Error = job.Cancelled
	if err := record.Entries(ctx, tx, q.db, append(entries, entry)); err != nil {
		return err
	}
	err := tx.Write(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET status = 'closed', error = ?, wake_time = NULL,"+
		" worker_id = 'NONE', lock_token = 'NONE', update_time = ? WHERE id = ?"+notStarted, job.Cancelled, engine.At(tx.Now), j.ID)
	if err != nil {
		return err
	}
	return q.discard(ctx, tx, job.StatusClosed, []any{j.ID})
}

// CanCancel says whether Cancel, or Reschedule, would refuse a job as it is: ErrStarted or ErrFinal.
func CanCancel(j *job.Job) error {
	switch j.State() {
	case job.Final:
		return ErrFinal
	case job.Running, job.Error:
		return ErrStarted
	}
	return nil
}

// Stop ends a job that has been started: if a worker has it, that is asked to stop it, which takes it about a second and
// the handler's grace; one that waits for an answer or for its retry decision ends at once. It ends with the error
// job.Cancelled, unless it finishes before. asked is the worker that was asked, job.None if it has ended. ErrNotStarted,
// ErrFinal or ErrNotFound if that can't be. It may be repeated.
func (q *Queue) Stop(ctx context.Context, id int64) (asked string, err error) {
	asked = job.None
	can := func(j *job.Job) error {
		switch j.State() {
		case job.Final:
			return ErrFinal
		case job.Initial, job.Retry:
			return ErrNotStarted
		}
		return nil
	}
	isStopped := func(n int, j *job.Job, err error) bool {
		asked = job.None // an earlier try may have asked a worker that has stopped it since
		return isCancelled(n, j, err)
	}
	err = alone(q.many(ctx, operation{"stop", can, isStopped, func(ctx context.Context, tx *engine.Tx, _ int, j *job.Job) error {
		switch {
		case j.Flaw != nil:
			return q.refuseOne(ctx, tx, j)
		case j.Status.HasWorker():
			asked = j.WorkerID
			return tx.Write(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET stopping = 1 WHERE id = ?", id)
		}
		o := job.Outcome{Verdict: job.Stopped, Error: job.Cancelled, Result: j.Result, Output: j.Output, Ran: j.Ran(tx.Now)}
		entries, err := q.conclude(ctx, tx, rounds.Settled{Job: j, Outcome: o})
		if err != nil {
			return err
		}
		return record.Entries(ctx, tx, q.db, entries)
	}}, []int64{id}))
	return asked, err
}

// When says anew when a job should run, and with which priority. What is zero or nil stays as it is.
type When struct {
	At time.Time
	// In counts from now by the database's clock.
	In       *time.Duration
	Priority *int
}

// Reschedule says anew when a job that waits should run, and with which priority. Its windows hold all the same.
// ErrStarted, ErrFinal or ErrNotFound if that can't be. It may be repeated.
func (q *Queue) Reschedule(ctx context.Context, id int64, w When) error {
	return alone(q.many(ctx, operation{"reschedule", CanCancel, nil, func(ctx context.Context, tx *engine.Tx, _ int, j *job.Job) error {
		if j.Flaw != nil {
			return j.Flaw
		}
		when := j.ScheduledRunTime
		if !w.At.IsZero() {
			when = w.At
		}
		if w.In != nil {
			when = tx.Now.Add(*w.In)
		}
		when = rules.Opening(j.Windows, q.Location, when)
		status, wake := rules.Place(when, tx.Now)
		return tx.Write(ctx, "UPDATE "+q.table+" "+q.db.ByID+scheduledAnew+", priority = COALESCE(?, priority) WHERE id = ?"+notStarted,
			status, engine.At(wake), engine.At(when), engine.At(tx.Now), w.Priority, j.ID)
	}}, []int64{id}))
}

// scheduledAnew gives a job that waits another place and time. A row by plain SQL that no tick has taken in yet stays one. A worker
// that has the job locked finds its lock gone.
const scheduledAnew = " SET status = CASE WHEN status = 'submitted' THEN status ELSE ? END," +
	" wake_time = CASE WHEN status = 'submitted' THEN NULL ELSE ? END, scheduled_run_time = ?, update_time = ?," +
	" worker_id = 'NONE', lock_token = 'NONE'"
