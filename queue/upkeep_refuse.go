package queue

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/record"
	"github.com/hipq/hipq/queue/job"
)

// refuse ends jobs that have a flaw: their rows stay, final, each with its reason, and without what the table's constraints
// refuse. What they left to their types stays so. Nothing was attempted.
func (q *Queue) refuse(ctx context.Context, tx *engine.Tx, jobs []*job.Job) ([]activity.Entry, error) {
	entries := make([]activity.Entry, 0, len(jobs))
	orNow := func(t time.Time) engine.Time {
		if t.IsZero() {
			t = tx.Now
		}
		return engine.At(t)
	}
	orLeft := func(left bool, value any) any {
		if left {
			return nil
		}
		return value
	}
	for _, j := range jobs {
		reason := strings.ToValidUTF8(j.Flaw.Error(), "\uFFFD")
		err := tx.Write(ctx, "UPDATE "+q.table+" "+q.db.ByID+
			" SET status = 'failed', error = ?, timeout = ?, priority = ?, throttle_factor = ?, time_windows = ?, shard_key = ?,"+
			" throttle_group = 'NONE', attempt = ?, scheduled_run_time = ?, wake_time = NULL, start_time = ?, create_time = ?, update_time = ?,"+
			" worker_id = 'NONE', lock_token = 'NONE', attempt_token = ?, stopping = 0, wish = 'NONE', output = 'NONE' WHERE id = ?",
			reason, orLeft(j.Left.Timeout, int64(j.Timeout/time.Second)), orLeft(j.Left.Priority, j.Priority),
			orLeft(j.Left.ThrottleFactor, j.ThrottleFactor), orLeft(j.Left.Windows, j.Windows.Encode()), j.ShardKey,
			min(max(j.Attempt, 0), job.MaxAttempt), orNow(j.ScheduledRunTime), engine.At(j.StartTime), orNow(j.CreateTime), engine.At(tx.Now),
			j.AttemptToken, j.ID)
		if err != nil {
			return nil, fmt.Errorf("refuse job %d: %w", j.ID, err)
		}
		if err := q.discard(ctx, tx, job.StatusFailed, []any{j.ID}); err != nil {
			return nil, err
		}
		entry := q.entry(j, activity.Failed)
		entry.Attempt, entry.Error = 0, reason
		entries = append(entries, entry)
	}
	return entries, nil
}

// refuseOne is refuse for what an operator ends.
func (q *Queue) refuseOne(ctx context.Context, tx *engine.Tx, j *job.Job) error {
	entries, err := q.refuse(ctx, tx, []*job.Job{j})
	if err != nil {
		return err
	}
	return record.Entries(ctx, tx, q.db, entries)
}

// apart parts the jobs that have a flaw from the others.
func apart(jobs []*job.Job) (sound, flawed []*job.Job) {
	for _, j := range jobs {
		if j.Flaw != nil {
			flawed = append(flawed, j)
		} else {
			sound = append(sound, j)
		}
	}
	return sound, flawed
}
