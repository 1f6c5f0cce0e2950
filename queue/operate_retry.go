package queue

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

// ClosedError says that nothing is to be done about a final job any more.
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

// Retry enqueues a new job like a final one, for a final job never changes: same type, data, key, priority and so on, due at
// once. Each is linked to the other, and if the old one has failed, it is closed.
//
// A job that was retried, or dismissed, is retried only with again: else the error is a *ClosedError. One that was cancelled is
// retried without. So it may be repeated
// without again, and by several at once. ErrNotFinal or ErrNotFound if it can't be, job.ErrInvalid if it was never fit to be a
// job. If its key is taken by a job that is not final, that one's id comes back as a Duplicate, and nothing is changed.
func (q *Queue) Retry(ctx context.Context, id int64, again bool) (Added, error) {
	added, refused, err := q.RetryMany(ctx, []int64{id}, again)
	if err := alone(refused, err); err != nil {
		return Added{}, err
	}
	return added[0], nil
}

// RetryMany is Retry for several jobs, one after the other in one transaction, whose rows stay locked until all are done: for
// some hundreds at once. refused has for each why it could not be, nil if it was. After an error nothing was done.
func (q *Queue) RetryMany(ctx context.Context, ids []int64, again bool) (added []Added, refused []error, err error) {
	added = make([]Added, len(ids))
	can := func(j *job.Job) error { return CanRetry(j, again) }
	done := func(n int, j *job.Job, err error) bool {
		return err == nil && added[n].ID != 0 && added[n].ID == j.RetriedAs
	}
	refused, err = q.many(ctx, operation{"retry", can, done, func(ctx context.Context, tx *engine.Tx, n int, j *job.Job) (err error) {
		added[n], err = q.repeat(ctx, tx, j)
		return err
	}}, ids)
	return added, refused, err
}

// CanRetry says whether Retry would refuse a job as it is: ErrNotFinal, or a *ClosedError.
func CanRetry(j *job.Job, again bool) error {
	switch {
	case !j.Status.IsFinal():
		return ErrNotFinal
	case !again && (j.RetriedAs != 0 || j.IsDismissed()):
		return &ClosedError{j.RetriedAs}
	}
	return nil
}

// repeat adds a job like a final one, and links the two.
func (q *Queue) repeat(ctx context.Context, tx *engine.Tx, j *job.Job) (Added, error) {
	prepared, err := q.prepare([]job.New{like(j)})
	if err != nil {
		return Added{}, err
	}
	list, err := q.add(ctx, tx, prepared, false, "")
	if err != nil {
		return Added{}, err
	}
	added := list[0]
	if added.Duplicate {
		return added, nil
	}
	if err := tx.Write(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET retry_of = ? WHERE id = ?", j.ID, added.ID); err != nil {
		return Added{}, err
	}
	// its update_time stays, by which purge goes
	return added, tx.Write(ctx, "UPDATE "+q.table+" "+q.db.ByID+
		" SET retried_as = ?, status = CASE status WHEN 'failed' THEN 'closed' ELSE status END WHERE id = ?", added.ID, j.ID)
}

// like is a new job like one. What that has left to its type, for it was refused before it was taken in, is its type's.
func like(j *job.Job) job.New {
	return job.New{
		Type: j.Type, Data: j.Data, Key: j.Key, Priority: unless(j.Left.Priority, j.Priority), Timeout: j.Timeout,
		ThrottleFactor: unless(j.Left.ThrottleFactor, j.ThrottleFactor), Windows: unless(j.Left.Windows, j.Windows), ShardKey: j.ShardKey,
	}
}

// unless is a value, or nil if it is left open.
func unless[T any](left bool, value T) *T {
	if left {
		return nil
	}
	return &value
}

// Dismiss closes a failed job: nothing is to be done about it any more. It may be repeated. ErrNotFinal, ErrNotFailed or
// ErrNotFound if that can't be.
func (q *Queue) Dismiss(ctx context.Context, id int64) error {
	return alone(q.DismissMany(ctx, []int64{id}))
}

// DismissMany is Dismiss for several jobs in one transaction: for some hundreds at once. refused has for each why it could not
// be, nil if it was. After an error nothing was done.
func (q *Queue) DismissMany(ctx context.Context, ids []int64) (refused []error, err error) {
	return q.many(ctx, operation{"dismiss", CanDismiss, nil, func(ctx context.Context, tx *engine.Tx, _ int, j *job.Job) error {
		return tx.Write(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET status = 'closed' WHERE id = ? AND status = 'failed'", j.ID)
	}}, ids)
}

// CanDismiss says whether Dismiss would refuse a job as it is: ErrNotFinal, or ErrNotFailed.
func CanDismiss(j *job.Job) error {
	switch {
	case !j.Status.IsFinal():
		return ErrNotFinal
	case j.Status == job.StatusFinished:
		return ErrNotFailed
	}
	return nil
}
