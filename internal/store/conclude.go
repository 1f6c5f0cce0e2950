package store

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/queue/job"
)

// Conclude writes an attempt's outcome into its job, whose row is locked, and returns the activity. There is none while the
// work is done elsewhere or a retry handler must decide; until then the row keeps the output.
func (q *Queue) Conclude(ctx context.Context, tx *engine.Tx, s Settled) ([]activity.Entry, error) {
	j, o := s.Job, s.Outcome
	next := policy.Next{Status: s.Waits, Error: o.Reason(), Output: o.Output, Override: o.RetryOverride(), Scheduled: j.ScheduledRunTime, Interrupts: j.Interrupts}
	switch {
	case o.Verdict == job.Sent:
		next.Status, next.Error, next.Result, next.Wake = job.StatusAwaiting, job.None, OrNone(o.Result), j.StartTime.Add(j.Timeout)
		return nil, q.write(ctx, tx, j, next)
	case s.Waits == job.StatusAnswered:
		if next.Result = OrNone(o.Result); o.Verdict == job.Finished {
			next.Error = job.None
		}
		return nil, q.write(ctx, tx, j, next)
	case s.Waits != "" && o.Verdict.IsError() && !s.Asked:
		if j.Status == job.StatusDeciding { // the row has all of it, and update_time says when the attempt ended
			return nil, tx.Write(ctx, "UPDATE "+q.table+" "+q.db.SQL.ByID+" SET status = ?, worker_id = ? WHERE id = ?", s.Waits, j.WorkerID, j.ID)
		}
		if next.Override == job.None { // a lost attempt's row keeps when its worker was last seen
			next.Override = j.RetryOverride
		}
		return nil, q.write(ctx, tx, j, next)
	}
	t, err := q.TypeOf(ctx, tx, j.Type)
	if err != nil {
		return nil, err
	}
	next = policy.Attempt{Job: j, Outcome: o, Decision: s.Decision, Policy: t.Retry, Zone: q.Location}.After(tx.Now, rand.Float64())
	if j.Status == job.StatusAnswered {
		next.Result = "" // the answer's stays
	}
	entry := q.Entry(j, activity.Finished)
	entry.RunMS, entry.Error, entry.Output = o.Ran.Milliseconds(), next.Error, o.Output
	switch {
	case !next.Status.IsFinal():
		entry.State = activity.Error
	case next.Status != job.StatusFinished:
		entry.State = activity.Failed
	}
	if s.Note != "" {
		entry.Error += " (" + s.Note + ")"
	}
	return []activity.Entry{entry}, q.write(ctx, tx, j, next)
}

// async says whether answers from outside end the jobs of this type.
func (q *Queue) async(jobType string) bool { return q.configured[jobType].Async }

// write updates a job. The caller has locked its row and checked its state.
func (q *Queue) write(ctx context.Context, tx *engine.Tx, j *job.Job, n policy.Next) error {
	set, args := "", []any{
		n.Status, n.Error, OrNone(n.Output), OrNone(n.Override), engine.At(n.Scheduled), engine.At(n.Wake), engine.At(tx.Now),
		n.Interrupts, j.Losses, j.WorkerID,
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
		" interrupts = ?, losses = ?, worker_id = ?"+set+
		" WHERE id = ? AND status NOT IN ('finished', 'failed', 'closed')", append(args, j.ID)...)
	if err != nil {
		return fmt.Errorf("settle job %d: %w", j.ID, err)
	}
	return q.Discard(ctx, tx, n.Status, []any{j.ID})
}

// Discard deletes jobs that have just become final, if the queue doesn't keep them.
func (q *Queue) Discard(ctx context.Context, tx *engine.Tx, status job.Status, ids []any) error {
	failed := status == job.StatusFailed || status == job.StatusClosed
	if len(ids) == 0 || (status != job.StatusFinished || q.KeepFinished >= 0) && (!failed || q.KeepFailed >= 0) {
		return nil
	}
	if err := tx.Write(ctx, q.db.SQL.DeleteByID(q.table, len(ids), HasEnded(status)), ids...); err != nil {
		return fmt.Errorf("discard jobs: %w", err)
	}
	return nil
}

// OrNone returns None for an empty text.
func OrNone(s string) string { return cmp.Or(s, job.None) }

// HasEnded is the condition for a job of table t that has finished, or that has failed or is closed.
func HasEnded(status job.Status) string {
	if status == job.StatusFinished {
		return "t.status = 'finished'"
	}
	return "t.status IN ('failed', 'closed')"
}
