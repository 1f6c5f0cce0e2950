package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
)

// Reasons why a final job isn't changed.
var (
	ErrNotFinal  = errors.New("the job is not final")
	ErrNotFailed = errors.New("the job has not failed")
	ErrFinished  = errors.New("the job finished")
)

// Cancel makes jobs final that wait for an attempt: closed, with the error job.Cancelled. It ingests rows from plain SQL
// first; an invalid row ends with its own error. It handles some hundreds of jobs in one transaction. Refused has the jobs
// that it can't cancel: ErrStarted, ErrFinal or ErrNotFound.
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
	entry.Error, entry.Output = job.Cancelled, q.note()
	if err := activity.Write(ctx, tx, q.s.DB(), append(entries, entry)); err != nil {
		return err
	}
	err := tx.Write(ctx, "UPDATE "+q.s.Table()+" "+q.s.DB().SQL.ByID+" SET status = 'closed', error = ?, wake_time = NULL,"+
		" worker_id = 'NONE', lock_token = 'NONE', update_time = ? WHERE id = ?", job.Cancelled, engine.At(tx.Now), j.ID)
	if err != nil {
		return err
	}
	if err := q.s.LetIn(ctx, tx, j); err != nil { // others of its group may have waited behind it
		return err
	}
	return q.s.Discard(ctx, tx, job.StatusClosed, []any{j.ID})
}

// CanCancel returns ErrStarted or ErrFinal if Cancel or Reschedule would refuse the job.
func CanCancel(j *job.Job) error {
	switch j.State() {
	case job.Final:
		return store.ErrFinal
	case job.Running, job.Error:
		return store.ErrStarted
	}
	return nil
}

// Stop ends a started job with the error job.Cancelled, unless it finishes first. If a worker has the job, asked is its ID,
// and it stops the job after about 1 s and the handler's grace. Otherwise the job ends at once, and asked is job.None. Errors
// are ErrNotStarted, ErrFinal and ErrNotFound. It may be repeated.
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
			if err := q.record(ctx, tx, j, activity.Stopping); err != nil {
				return err
			}
			return tx.Write(ctx, "UPDATE "+q.s.Table()+" "+q.s.DB().SQL.ByID+" SET stopping = 1 WHERE id = ?", id)
		}
		o := job.Outcome{Verdict: job.Stopped, Error: job.Cancelled, Result: j.Result, Output: j.Output, Ran: j.Outcome(tx.Now).Ran}
		entry, _, err := q.s.End(ctx, tx, j, o, store.Decided{})
		if err != nil {
			return err
		}
		return activity.Write(ctx, tx, q.s.DB(), []activity.Entry{entry})
	}}, []int64{id})
	return asked, err
}

// RescheduleOptions change a job's time and priority. Zero values change nothing.
type RescheduleOptions struct {
	// At is a time. A past one is now, or the job would seem to be due since then.
	At time.Time
	// In is a delay from now by the database's clock. A negative one is 0.
	In       *time.Duration
	Priority *int
}

// Check returns job.ErrInvalid for a time or a priority that no job may have.
func (o RescheduleOptions) Check() error {
	return job.Params{Type: "any", At: o.At, Priority: o.Priority}.Check()
}

// Reschedule changes a waiting job's time and priority; its windows still apply. Errors are job.ErrInvalid, ErrStarted,
// ErrFinal and ErrNotFound. It may be repeated.
func (q *Queue) Reschedule(ctx context.Context, id int64, w RescheduleOptions) error {
	if err := w.Check(); err != nil {
		return err
	}
	var when time.Time
	done := func(_ int, j *job.Job, err error) bool { // the job may have started since
		return err == nil && j.ScheduledRunTime.Equal(engine.At(when).Time) && (w.Priority == nil || j.Priority == *w.Priority)
	}
	return q.operate(ctx, operation{"reschedule", CanCancel, done, func(ctx context.Context, tx *engine.Tx, _ int, j *job.Job) error {
		if j.Invalid != nil {
			return j.Invalid
		}
		when = j.ScheduledRunTime
		if !w.At.IsZero() {
			if when = w.At; when.Before(tx.Now) {
				when = tx.Now
			}
		}
		if w.In != nil {
			when = tx.Now.Add(max(*w.In, 0))
		}
		when = policy.Opening(j.Windows, q.s.Location, when)
		status, wake := policy.StatusAt(when, tx.Now)
		err := q.s.LetIn(ctx, tx, j) // others of its group may have waited behind it
		if err == nil {
			err = q.record(ctx, tx, j, activity.Rescheduled)
		}
		if err != nil {
			return err
		}
		return tx.Write(ctx, "UPDATE "+q.s.Table()+" "+q.s.DB().SQL.ByID+store.ScheduledAnew+", priority = COALESCE(?, priority) WHERE id = ?",
			status, engine.At(wake), engine.At(when), engine.At(tx.Now), w.Priority, j.ID)
	}}, []int64{id})
}

// Pause stops workers from starting the queue's jobs. Running jobs go on, and jobs can be enqueued. It registers an
// unregistered queue, and may be repeated.
func (q *Queue) Pause(ctx context.Context) error { return q.pause(ctx, true) }

// Resume lets workers start the queue's jobs again. It may be repeated.
func (q *Queue) Resume(ctx context.Context) error { return q.pause(ctx, false) }

func (q *Queue) pause(ctx context.Context, paused bool) error {
	number, err := q.s.DivisionOf(ctx, q.s.DB().SQL)
	if err == nil && number == 0 {
		err = q.s.Register(ctx)
	}
	if err == nil {
		err = q.s.DB().SQL.Tx(ctx, func(tx *engine.Tx) error {
			was, err := engine.Changed(tx.ExecContext(ctx, "UPDATE "+q.s.DB().Queues()+" SET paused = ? WHERE queue = ? AND paused <> ?", paused, q.s.Name, paused))
			entry := activity.Entry{Kind: activity.Queue, State: map[bool]activity.State{true: activity.Paused, false: activity.Resumed}[paused], Queue: q.s.Name, Output: q.note()}
			if err == nil && was {
				err = activity.Write(ctx, tx, q.s.DB(), []activity.Entry{entry})
			}
			if err != nil || !paused {
				return err
			}
			// wait for rounds that have their turn and haven't seen the pause
			return q.s.TakeAllTurns(ctx, tx)
		})
	}
	if db := q.s.DB(); err == nil && paused && db.SQL.LocalLocks {
		// A round on another node that hasn't seen the pause writes its worker's row, without a turn: one of the two fails.
		err = db.SQL.Tx(ctx, func(tx *engine.Tx) error {
			return tx.Write(ctx, "UPDATE "+db.Workers()+" SET heartbeat = heartbeat + INTERVAL 1 MICROSECOND WHERE state = 'working'")
		})
	}
	return texts.Wrap(err, "pause or resume %s", q.s.Name)
}

// Paused says whether the queue is paused.
func (q *Queue) Paused(ctx context.Context) (paused bool, err error) {
	err = q.s.DB().SQL.GetContext(ctx, &paused, "SELECT "+q.s.PausedExpr(), q.s.Name)
	return paused, texts.Wrap(err, "find out whether %s is paused", q.s.Name)
}

// AddJob adds a job, as the application's queue does, and notes who did it.
func (q *Queue) AddJob(ctx context.Context, j job.Params) (added job.Added, err error) {
	list, err := q.s.Prepare([]job.Params{j})
	if err != nil {
		return added, err
	}
	all, err := q.s.AddInTx(ctx, list, q.note())
	if err != nil {
		return added, fmt.Errorf("enqueue in %s: %w", q.s.Name, err)
	}
	return all[0], nil
}

// DueAt is when a job that is added now would be due: at its time, or when its windows open next.
func (q *Queue) DueAt(ctx context.Context, j job.Params) (time.Time, error) {
	t, err := q.s.TypeOf(ctx, q.s.DB().SQL, j.Type)
	now, failed := q.s.DB().SQL.Clock(ctx)
	if err = cmp.Or(err, failed); err != nil {
		return time.Time{}, texts.Wrap(err, "find out when the job would be due")
	}
	if !j.At.IsZero() {
		now, j.In = j.At, 0
	}
	return policy.Opening(*cmp.Or(j.Windows, &t.Windows), q.s.Location, now.Add(j.In)), nil
}

type operation struct {
	verb string
	// can returns why the operation isn't possible.
	can func(*job.Job) error
	// done, if set, says whether the job is as an earlier try left it, whose commit is uncertain. It is asked only about jobs that
	// the try could change. err is the error of reading the job.
	done func(n int, j *job.Job, err error) bool
	// do operates on the n-th job, whose row is locked. It refuses a job before it writes.
	do func(ctx context.Context, tx *engine.Tx, n int, j *job.Job) error
}

// Refused says that an operation isn't possible for some jobs. It has an error or nil for each ID.
type Refused []error

func (r Refused) Error() string { return errors.Join(r...).Error() }

// Unwrap returns the reasons.
func (r Refused) Unwrap() []error { return r }

// operate changes all jobs in one transaction. After an error other than Refused it has changed none.
func (q *Queue) operate(ctx context.Context, o operation, ids []int64) error {
	refused, did := make(Refused, len(ids)), make([]bool, len(ids))
	err := q.s.DB().SQL.Tx(ctx, func(tx *engine.Tx) error {
		if !tx.MayBeDone {
			clear(did)
		}
		for n, id := range ids {
			refused[n] = nil
			j, err := q.s.Get(ctx, tx, id, q.s.DB().SQL.ForUpdate) // the lock makes concurrent changes wait, and see this one
			if did[n] && o.done != nil && o.done(n, j, err) {
				continue
			}
			if err == nil {
				err = o.can(j)
			}
			if err == nil {
				err = o.do(ctx, tx, n, j)
				did[n] = did[n] || err == nil
			}
			if err != nil && !IsRefusal(err) {
				return err
			} else if errors.Is(err, store.ErrNotFound) {
				refused[n] = err // names the job
			} else if err != nil {
				refused[n] = fmt.Errorf("%s job %d of %s: %w", o.verb, id, q.s.Name, err)
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("%s jobs of %s: %w", o.verb, q.s.Name, err)
	case slices.ContainsFunc(refused, func(err error) bool { return err != nil }):
		return refused
	}
	return nil
}

// isCancelled says whether a job, or the error of reading it, is the result of a cancellation.
func isCancelled(_ int, j *job.Job, err error) bool {
	return errors.Is(err, store.ErrNotFound) || err == nil && j.Status.IsFinal() && j.Error == job.Cancelled
}

// IsRefusal says whether err concerns a single job, so that others can still be changed.
func IsRefusal(err error) bool {
	return errors.As(err, new(*ClosedError)) || errors.Is(err, store.ErrStarted) || errors.Is(err, store.ErrFinal) || errors.Is(err, ErrNotFinal) ||
		errors.Is(err, ErrNotFailed) || errors.Is(err, ErrFinished) || errors.Is(err, store.ErrNotFound) || errors.Is(err, job.ErrInvalid)
}
