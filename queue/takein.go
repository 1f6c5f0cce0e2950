package queue

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/schema"
)

// takeInMax is how many rows one transaction takes in.
const takeInMax = 500

// takeIn makes jobs of the rows that applications inserted by plain SQL: fills in what they left to the type, applies
// the windows, logs them as added.
func (q *Queue) takeIn(ctx context.Context, w Worker) (more bool, err error) {
	var records []record
	err = q.db.Tx(ctx, func(tx *schema.Tx) error {
		records = nil
		query := "SELECT " + recordColumns + " FROM " + q.table + " " + q.index("pick") + " WHERE line = 'new' LIMIT ? " + q.db.SkipLocked
		if err := tx.SelectContext(ctx, &records, query, takeInMax); err != nil {
			return err
		}
		entries := make([]activity.Entry, len(records))
		for i, r := range records {
			entry, err := q.takeInOne(ctx, tx, r)
			if err != nil {
				return err
			}
			entries[i] = entry
			entries[i].WorkerID, entries[i].Host, entries[i].PID = w.ID, w.Host, w.PID
		}
		return q.log.Record(ctx, tx, entries)
	})
	if err != nil {
		return false, fmt.Errorf("take in rows of %s: %w", q.Name, err)
	}
	return len(records) == takeInMax, nil
}

func (q *Queue) takeInOne(ctx context.Context, tx *schema.Tx, r record) (activity.Entry, error) {
	entry := activity.Entry{
		Kind: activity.Job, State: activity.Added, Queue: q.Name, JobID: r.ID, JobType: r.Type, JobKey: r.Key,
	}
	if err := CheckType(r.Type); err != nil {
		return q.refuse(ctx, tx, entry, err)
	}
	t, err := q.jobType(ctx, tx, r.Type)
	if err != nil {
		return entry, err
	}
	windows := t.Windows
	if r.Windows != nil {
		if windows, err = DecodeWindows(*r.Windows); err != nil {
			return q.refuse(ctx, tx, entry, err)
		}
	}
	at := q.opening(windows, r.ScheduledRunTime.Time)
	line, wake := place(at, tx.Now)
	_, err = tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.ByID+
		" SET line = ?, wake_time = ?, scheduled_run_time = ?, timeout = COALESCE(timeout, ?), priority = COALESCE(priority, ?),"+
		" throttle_factor = COALESCE(throttle_factor, ?), time_windows = ?, update_time = ? WHERE id = ? AND line = 'new'",
		line, wake, schema.At(at), int64(t.Timeout.Seconds()), t.Priority, t.ThrottleFactor, windows.Encode(), schema.At(tx.Now), r.ID)
	return entry, err
}

// refuse ends a row that can't become a job: it stays, final, with the reason.
func (q *Queue) refuse(ctx context.Context, tx *schema.Tx, entry activity.Entry, reason error) (activity.Entry, error) {
	entry.State, entry.Error = activity.Failed, reason.Error()
	_, err := tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.ByID+
		" SET state = 'final', line = 'failed', error = ?, update_time = ? WHERE id = ? AND line = 'new'",
		entry.Error, schema.At(tx.Now), entry.JobID)
	return entry, err
}
