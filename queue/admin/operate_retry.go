package admin

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

// ClosedError says that a final job was already retried or dismissed.
type ClosedError struct {
	// RetriedAs is the latest job that repeats it; 0 if it was dismissed.
	RetriedAs int64
}

func (e *ClosedError) Error() string {
	if e.RetriedAs == 0 {
		return "the job was dismissed"
	}
	return fmt.Sprintf("the job was retried, as job %d", e.RetriedAs)
}

// Retry enqueues copies of final jobs, which never change themselves. Copies are due at once. Old and new job are linked, and
// a failed old job becomes closed. Retry handles some hundreds of jobs in one transaction.
//
// Unless again is true, Retry refuses retried or dismissed jobs with a *ClosedError, and finished ones with ErrFinished. So
// it may be repeated and called concurrently. Refused may also contain ErrNotFinal, ErrNotFound and job.ErrInvalid. If a live
// job has the key, Retry returns its ID as a Duplicate and changes nothing. Ignore the Added of refused jobs.
func (q *Queue) Retry(ctx context.Context, again bool, ids ...int64) (added []job.Added, err error) {
	added = make([]job.Added, len(ids))
	can := func(j *job.Job) error { return CanRetry(j, again) }
	done := func(n int, j *job.Job, err error) bool {
		return err == nil && added[n].ID != 0 && added[n].ID == j.RetriedAs
	}
	do := func(ctx context.Context, tx *engine.Tx, n int, j *job.Job) (err error) {
		added[n], err = q.repeat(ctx, tx, j)
		return err
	}
	return added, q.operate(ctx, operation{"retry", can, done, do}, ids)
}

func notFinal(j *job.Job) error {
	if j.State() == job.Retry {
		return fmt.Errorf("%w: it waits for its retry", ErrNotFinal)
	}
	return fmt.Errorf("%w: it is %s", ErrNotFinal, j.State())
}

// CanRetry returns ErrNotFinal, ErrFinished or a *ClosedError if Retry would refuse the job.
func CanRetry(j *job.Job, again bool) error {
	switch {
	case !j.Status.IsFinal():
		return notFinal(j)
	case !again && (j.RetriedAs != 0 || j.IsDismissed()):
		return &ClosedError{j.RetriedAs}
	case !again && j.Status == job.StatusFinished:
		return ErrFinished
	}
	return nil
}

// repeat adds a copy of a final job and links the two.
func (q *Queue) repeat(ctx context.Context, tx *engine.Tx, j *job.Job) (job.Added, error) {
	prepared, err := q.s.Prepare([]job.Params{like(j)})
	if err != nil {
		return job.Added{}, err
	}
	list, err := q.s.Add(ctx, tx, prepared, q.note())
	if err != nil {
		return job.Added{}, err
	}
	added := list[0]
	if added.Duplicate {
		return added, nil
	}
	if err := tx.Write(ctx, "UPDATE "+q.s.Table()+" "+q.s.DB().SQL.ByID+" SET retry_of = ? WHERE id = ?", j.ID, added.ID); err != nil {
		return job.Added{}, err
	}
	if err := q.record(ctx, tx, j, activity.Retried); err != nil {
		return job.Added{}, err
	}
	// keep update_time, because purge uses it
	return added, tx.Write(ctx, "UPDATE "+q.s.Table()+" "+q.s.DB().SQL.ByID+
		" SET retried_as = ?, status = CASE status WHEN 'failed' THEN 'closed' ELSE status END WHERE id = ?", added.ID, j.ID)
}

// like returns a copy of a job to enqueue. Fields left to its type stay so.
func like(j *job.Job) job.Params {
	n := job.Params{
		Type: j.Type, Data: j.Data, Key: j.Key, Priority: unless(j.Left.Priority, j.Priority), Timeout: j.Timeout,
		ThrottleFactor: unless(j.Left.ThrottleFactor, j.ThrottleFactor), Windows: unless(j.Left.Windows, j.Windows), ShardKey: j.ShardKey,
	}
	if n.Data == job.None {
		n.Data = ""
	}
	return n
}

func unless[T any](left bool, value T) *T {
	if left {
		return nil
	}
	return &value
}

// Dismiss closes some hundreds of failed jobs at once. It may be repeated. Refused: ErrNotFinal, ErrNotFailed, ErrNotFound.
func (q *Queue) Dismiss(ctx context.Context, ids ...int64) error {
	return q.operate(ctx, operation{"dismiss", CanDismiss, nil, func(ctx context.Context, tx *engine.Tx, _ int, j *job.Job) error {
		if j.Status == job.StatusClosed {
			return nil
		}
		if err := q.record(ctx, tx, j, activity.Dismissed); err != nil {
			return err
		}
		return tx.Write(ctx, "UPDATE "+q.s.Table()+" "+q.s.DB().SQL.ByID+" SET status = 'closed' WHERE id = ?", j.ID)
	}}, ids)
}

// CanDismiss returns ErrNotFinal or ErrNotFailed if Dismiss would refuse the job.
func CanDismiss(j *job.Job) error {
	switch {
	case !j.Status.IsFinal():
		return notFinal(j)
	case j.Status == job.StatusFinished:
		return ErrNotFailed
	}
	return nil
}
