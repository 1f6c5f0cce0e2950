package admin

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

// ClosedError says that a final job was retried or dismissed already.
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

// Retry enqueues new jobs like final ones, because a final job never changes: same type, data, key, priority and so on, due at
// once. Old and new job are linked, and a failed old one is closed. It takes some hundreds of jobs in one transaction.
//
// Unless again, a job that was retried, or dismissed, is refused with a *ClosedError, and one that finished with ErrFinished. So
// without again Retry may be repeated, and by several at once. Other reasons in Refused are ErrNotFinal, ErrNotFound, and job.ErrInvalid. If a job that is not final
// has the key, its id comes back as a Duplicate, and nothing changes. A refused job's Added says nothing.
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

// notFinal is ErrNotFinal with where the job stands.
func notFinal(j *job.Job) error {
	if j.State() == job.Retry {
		return fmt.Errorf("%w: it waits for its retry", ErrNotFinal)
	}
	return fmt.Errorf("%w: it is %s", ErrNotFinal, j.State())
}

// CanRetry says whether Retry would refuse a job as it is: ErrNotFinal, ErrFinished, or a *ClosedError.
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

// repeat adds a job like a final one, and links the two.
func (q *Queue) repeat(ctx context.Context, tx *engine.Tx, j *job.Job) (job.Added, error) {
	prepared, err := q.s.Prepare([]job.Params{like(j)})
	if err != nil {
		return job.Added{}, err
	}
	list, err := q.s.Add(ctx, tx, prepared, false, "")
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
	// update_time stays, because purge goes by it
	return added, tx.Write(ctx, "UPDATE "+q.s.Table()+" "+q.s.DB().SQL.ByID+
		" SET retried_as = ?, status = CASE status WHEN 'failed' THEN 'closed' ELSE status END WHERE id = ?", added.ID, j.ID)
}

// like is a new job like one. What a row by plain SQL left to its type is its type's.
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

// Dismiss closes failed jobs, some hundreds at once. It may be repeated. Refused: ErrNotFinal, ErrNotFailed, ErrNotFound.
func (q *Queue) Dismiss(ctx context.Context, ids ...int64) error {
	return q.operate(ctx, operation{"dismiss", CanDismiss, nil, func(ctx context.Context, tx *engine.Tx, _ int, j *job.Job) error {
		return tx.Write(ctx, "UPDATE "+q.s.Table()+" "+q.s.DB().SQL.ByID+" SET status = 'closed' WHERE id = ?", j.ID)
	}}, ids)
}

// CanDismiss says whether Dismiss would refuse a job as it is: ErrNotFinal, or ErrNotFailed.
func CanDismiss(j *job.Job) error {
	switch {
	case !j.Status.IsFinal():
		return notFinal(j)
	case j.Status == job.StatusFinished:
		return ErrNotFailed
	}
	return nil
}
