package store

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

// An attempt that is over ends, awaits an answer, or waits for a retry handler. The caller has locked the job's row and checked its
// state. There is no activity of it until it has ended: meanwhile the row keeps the outcome.

// KeepAnswer stores the answer about a job whose handler still runs: its worker keeps the job's key and weight until then.
func (q *Queue) KeepAnswer(ctx context.Context, tx *engine.Tx, j *job.Job, o job.Outcome) error {
	next := leftAs(job.StatusAnswered, j, o)
	if next.Result = cmp.Or(o.Result, job.None); o.Verdict == job.Finished {
		next.Error = job.None
	}
	return q.write(ctx, tx, j, next)
}

// Leave leaves a failed job to a retry handler: as deciding to one of its worker, as undecided to one of any worker.
func (q *Queue) Leave(ctx context.Context, tx *engine.Tx, j *job.Job, o job.Outcome, as job.Status) error {
	if j.Status == job.StatusDeciding { // the row has all of it, and update_time says when the attempt ended
		return tx.Write(ctx, "UPDATE "+q.table+" "+q.db.SQL.ByID+" SET status = ?, worker_id = ? WHERE id = ?", as, j.WorkerID, j.ID)
	}
	next := leftAs(as, j, o)
	if next.Override == job.None { // a lost attempt's row keeps when its worker was last seen
		next.Override = j.RetryOverride
	}
	return q.write(ctx, tx, j, next)
}

// leftAs is a job whose attempt has this outcome and hasn't ended yet.
func leftAs(status job.Status, j *job.Job, o job.Outcome) policy.Next {
	return policy.Next{
		Status: status, Error: o.Reason(), Output: o.Output, Override: o.RetryOverride(), Scheduled: j.ScheduledRunTime, Uncounted: j.Uncounted, Interrupts: j.Interrupts,
	}
}

// End ends the attempt: the retry handler's decision, or else the policy, says whether the job runs again.
func (q *Queue) End(ctx context.Context, tx *engine.Tx, j *job.Job, o job.Outcome, d Decided) (entry activity.Entry, next policy.Next, err error) {
	t, err := q.TypeOf(ctx, tx, j.Type)
	if err != nil {
		return entry, next, err
	}
	next = policy.Attempt{Job: j, Outcome: o, Decision: d.Decision, Policy: t.Retry, Zone: q.Location}.After(tx.Now, rand.Float64())
	if j.Status == job.StatusAnswered {
		next.Result = "" // the answer's stays
	}
	entry = q.Entry(j, activity.Finished)
	entry.RunMS, entry.Error, entry.Output = o.Ran.Milliseconds(), next.Error, o.Output
	switch {
	case !next.Status.IsFinal() && o.IsRelease():
		entry.State = activity.Released
	case !next.Status.IsFinal():
		entry.State = activity.Error
	case next.Status != job.StatusFinished:
		entry.State = activity.Failed
	}
	if d.Note != "" {
		entry.Error += " (" + d.Note + ")"
	}
	return entry, next, q.write(ctx, tx, j, next)
}

// async says whether answers from outside end the jobs of this type.
func (q *Queue) async(jobType string) bool {
	t, _ := q.Configured(jobType)
	return t.Async
}

// write updates a job. The caller has locked its row and checked its state.
func (q *Queue) write(ctx context.Context, tx *engine.Tx, j *job.Job, n policy.Next) error {
	set, args := "", []any{
		n.Status, n.Error, cmp.Or(n.Output, job.None), cmp.Or(n.Override, job.None), engine.At(n.Scheduled), engine.At(n.Wake), engine.At(tx.Now),
		n.Uncounted, n.Interrupts, j.Losses, j.WorkerID,
	}
	if n.Result != "" {
		set, args = ", result = ?", append(args, n.Result)
	}
	if n.Data != nil {
		// Set even if these options know no shards: a worker later moves the misplaced job. Its old group is void.
		place := q.Division().PlaceOf(j.Type, j.Key, j.ShardKey, []byte(*n.Data))
		set, args = set+", job_data = ?, throttle_group = 'NONE', shard = ?", append(args, *n.Data, place)
	}
	if n.Priority != nil {
		set, args = set+", priority = ?", append(args, *n.Priority)
	}
	err := tx.Write(ctx, "UPDATE "+q.table+" "+q.db.SQL.ByID+
		" SET status = ?, error = ?, output = ?, retry_override = ?, scheduled_run_time = ?, wake_time = ?, update_time = ?,"+
		" uncounted = ?, interrupted = ?, losses = ?, worker_id = ?"+set+
		" WHERE id = ? AND status NOT IN ('finished', 'failed', 'closed')", append(args, j.ID)...)
	switch {
	case err != nil:
	case n.Status == job.StatusAwaiting && q.ThrottleLimit > 0 && j.ThrottleFactor > 0: // it counts in the sum of its shard
		err = tx.Write(ctx, "UPDATE "+q.db.Shards()+" SET awaiting = awaiting + ? WHERE queue = ? AND shard = (SELECT shard FROM "+q.table+" WHERE id = ?)",
			j.ThrottleFactor, q.Name, j.ID)
	case (j.Status.Counts() || j.Status == job.StatusThrottled) && !n.Status.Counts():
		err = q.LetIn(ctx, tx, j) // others of its group may have waited behind it
	}
	if err == nil {
		err = q.Discard(ctx, tx, n.Status, []any{j.ID})
	}
	return texts.Wrap(err, "settle job %d", j.ID)
}

// Discard deletes jobs that have just become final, if the queue doesn't keep them. What a foreign key or a trigger of the
// application keeps stays as final.
func (q *Queue) Discard(ctx context.Context, tx *engine.Tx, status job.Status, ids []any) error {
	failed := status == job.StatusFailed || status == job.StatusClosed
	if len(ids) == 0 || (status != job.StatusFinished || q.KeepFinished >= 0) && (!failed || q.KeepFailed >= 0) {
		return nil
	}
	err := error(nil)
	if len(tx.Kept) == 0 {
		err = tx.Write(ctx, q.db.SQL.DeleteByID(q.table, len(ids), HasEnded(status)), ids...)
	} else {
		_, err = tx.DeleteEach(ctx, q.db.SQL.DeleteByID(q.table, 1, HasEnded(status)), ids, func(id any, why error) {
			q.db.Warn(fmt.Errorf("job %d of %s stays in its table, because the database refuses to delete it: %w", id, q.Name, why))
		})
	}
	return texts.Wrap(err, "discard jobs")
}

// HasEnded is the condition for a job of table t that has finished, or that has failed or is closed.
func HasEnded(status job.Status) string {
	if status == job.StatusFinished {
		return "t.status = 'finished'"
	}
	return "t.status IN ('failed', 'closed')"
}
