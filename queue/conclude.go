package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/rules"
	"github.com/hipq/hipq/queue/job"
)

// conclude says what an attempt's outcome makes of its job, and the activity that tells of it. d is a retry handler's
// decision; nil leaves it to the policy p.
func (q *Queue) conclude(j *job.Job, o job.Outcome, d *job.Decision, p job.RetryPolicy, now time.Time) (rules.Next, activity.Entry) {
	next := rules.After(j, o, d, p, q.Location, now, rand.Float64())
	entry := q.entry(j, activity.Finished)
	entry.RunMS, entry.Output = o.Ran.Milliseconds(), o.Output
	switch {
	case !next.Status.IsFinal():
		entry.State = activity.Error
	case next.Status != job.StatusFinished:
		entry.State = activity.Failed
	}
	if entry.State != activity.Finished {
		entry.Error = next.Error
	}
	return next, entry
}

func (q *Queue) policy(jobType string) job.RetryPolicy {
	if t, ok := q.configured[jobType]; ok {
		return t.Retry
	}
	return q.defaultType(jobType).Retry
}

// async says whether an answer from outside ends the jobs of a type.
func (q *Queue) async(jobType string) bool { return q.configured[jobType].Async }

// send leaves a job running, without a lock, for an answer from outside or its timeout. The output stays in its row until
// the attempt has its outcome, as it does while a retry handler is to decide.
func (q *Queue) send(ctx context.Context, tx *engine.Tx, j *job.Job, o job.Outcome) error {
	err := tx.Write(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET status = 'awaiting', result = ?, output = ?, wake_time = ?, update_time = ? WHERE id = ?",
		orNone(o.Result), orNone(o.Output), engine.At(j.StartTime.Add(j.Timeout)), engine.At(tx.Now), j.ID)
	if err != nil {
		return fmt.Errorf("leave job %d to its answer: %w", j.ID, err)
	}
	return nil
}

// rest leaves a job for a retry handler, in a status of the state error. wish is what is kept of the outcome besides its error.
func (q *Queue) rest(ctx context.Context, tx *engine.Tx, j *job.Job, o job.Outcome, wish string, status job.Status) error {
	err := tx.Write(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET status = ?, error = ?, wish = ?, output = ?,"+
		" losses = ?, worker_id = ?, wake_time = NULL, update_time = ? WHERE id = ?", status, o.Reason(), wish, orNone(o.Output), j.Losses, j.WorkerID, engine.At(tx.Now), j.ID)
	if err != nil {
		return fmt.Errorf("leave job %d to its retry handler: %w", j.ID, err)
	}
	return nil
}

// write writes down what a job becomes. Its row is locked, and what it was has been checked.
func (q *Queue) write(ctx context.Context, tx *engine.Tx, j *job.Job, n rules.Next) error {
	set, args := "", []any{n.Status, n.Error, n.Result, engine.At(n.Scheduled), engine.At(n.Wake), engine.At(tx.Now), n.Interrupts, j.Losses, j.WorkerID}
	if n.Data != nil {
		// also where these options know no shards: then it is misplaced until a worker moves it, and not in that of its former group
		place := q.division().PlaceOf(j.Type, j.Key, j.ShardKey, []byte(*n.Data))
		set, args = set+", job_data = ?, throttle_group = 'NONE', shard = ?", append(args, *n.Data, place)
	}
	if n.Priority != nil {
		set, args = set+", priority = ?", append(args, *n.Priority)
	}
	err := tx.Write(ctx, "UPDATE "+q.table+" "+q.db.ByID+
		" SET status = ?, error = ?, result = ?, scheduled_run_time = ?, wake_time = ?, update_time = ?, wish = 'NONE',"+
		" interrupts = ?, losses = ?, worker_id = ?, output = 'NONE'"+set+
		" WHERE id = ? AND status NOT IN ('finished', 'failed', 'closed')", append(args, j.ID)...)
	if err != nil {
		return fmt.Errorf("settle job %d: %w", j.ID, err)
	}
	return q.discard(ctx, tx, n.Status, []any{j.ID})
}

// discard deletes jobs that have just become final, if the queue doesn't keep such.
func (q *Queue) discard(ctx context.Context, tx *engine.Tx, status job.Status, ids []any) error {
	failed := status == job.StatusFailed || status == job.StatusClosed
	if len(ids) == 0 || (status != job.StatusFinished || q.KeepFinished >= 0) && (!failed || q.KeepFailed >= 0) {
		return nil
	}
	statement, args := q.deleteFinal(status, ids)
	if err := tx.Write(ctx, statement, args...); err != nil {
		return fmt.Errorf("discard jobs: %w", err)
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return job.None
	}
	return s
}
