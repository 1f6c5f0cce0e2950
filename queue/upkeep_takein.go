package queue

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/roster"
	"github.com/hipq/hipq/schema"
)

// takeInMax is how many rows one transaction takes in.
const takeInMax = 500

// takeIn makes jobs of the rows that applications inserted by plain SQL: fills in what they left to the type, applies
// the windows, logs them as added.
func (q *Queue) takeIn(ctx context.Context, w roster.Worker) (more bool, err error) {
	var records []inserted
	var types typesIn
	err = q.db.Tx(ctx, func(tx *schema.Tx) error {
		records, types = nil, q.typesIn(tx)
		query := "SELECT " + insertedColumns + " FROM " + q.table + " " + q.pick() + " WHERE line = 'new' LIMIT ? " + tx.SkipLocked
		if err := tx.SelectContext(ctx, &records, query, takeInMax); err != nil {
			return err
		}
		entries := make([]activity.Entry, len(records))
		for i, r := range records {
			entry, err := q.takeInOne(ctx, tx, types, r)
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
	q.remember(types.seen)
	return len(records) == takeInMax, nil
}

// inserted is a row that an application inserted, without its data, which may be large.
type inserted struct {
	ID               int64       `db:"id"`
	Type             string      `db:"job_type"`
	Key              string      `db:"job_key"`
	DataBytes        int64       `db:"data_bytes"`
	Timeout          *int64      `db:"timeout"`
	Priority         *int        `db:"priority"`
	ThrottleFactor   *int        `db:"throttle_factor"`
	Windows          *string     `db:"time_windows"`
	ScheduledRunTime schema.Time `db:"scheduled_run_time"`
}

const insertedColumns = "id, job_type, job_key, OCTET_LENGTH(job_data) AS data_bytes, timeout, priority, throttle_factor, time_windows," +
	" scheduled_run_time"

// takeInNow takes in one row, which the caller has locked.
func (q *Queue) takeInNow(ctx context.Context, tx *schema.Tx, id int64) (activity.Entry, error) {
	var r inserted
	if err := tx.GetContext(ctx, &r, "SELECT "+insertedColumns+" FROM "+q.table+" WHERE id = ?", id); err != nil {
		return activity.Entry{}, fmt.Errorf("take in the row: %w", err)
	}
	return q.takeInOne(ctx, tx, q.typesIn(tx), r)
}

// check refuses what Enqueue would have refused.
func (r inserted) check() error {
	if r.DataBytes > job.MaxDataBytes {
		return fmt.Errorf("%w: job_data has %d bytes, allowed are %d", job.ErrInvalid, r.DataBytes, job.MaxDataBytes)
	}
	if r.Key == "" {
		return fmt.Errorf("%w: job_key is empty", job.ErrInvalid)
	}
	j := job.New{Type: r.Type, Key: r.Key, Priority: r.Priority, ThrottleFactor: r.ThrottleFactor, At: r.ScheduledRunTime.Time}
	if r.Timeout != nil {
		if *r.Timeout < 1 || *r.Timeout > job.MaxSeconds {
			return fmt.Errorf("%w: timeout %d is not a number of seconds from 1 to %d", job.ErrInvalid, *r.Timeout, job.MaxSeconds)
		}
		j.Timeout = time.Duration(*r.Timeout) * time.Second
	}
	return j.Check()
}

func (q *Queue) takeInOne(ctx context.Context, tx *schema.Tx, types typesIn, r inserted) (activity.Entry, error) {
	entry := activity.Entry{
		Kind: activity.Job, State: activity.Added, Queue: q.Name, JobID: r.ID, JobType: r.Type, JobKey: r.Key,
	}
	if err := r.check(); err != nil {
		return q.refuse(ctx, tx, entry, err)
	}
	t, err := types.get(ctx, r.Type)
	if err != nil {
		return entry, err
	}
	windows := t.Windows
	if r.Windows != nil {
		if windows, err = job.DecodeWindows(*r.Windows); err != nil {
			return q.refuse(ctx, tx, entry, err)
		}
	}
	at := job.Opening(windows, q.Location, r.ScheduledRunTime.Time)
	line, wake := job.Place(at, tx.Now)
	_, err = tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.ByID+
		" SET line = ?, wake_time = ?, scheduled_run_time = ?, timeout = COALESCE(timeout, ?), priority = COALESCE(priority, ?),"+
		" throttle_factor = COALESCE(throttle_factor, ?), time_windows = ?, update_time = ? WHERE id = ? AND line = 'new'",
		line, schema.At(wake), schema.At(at), int64(t.Timeout.Seconds()), t.Priority, t.ThrottleFactor, windows.Encode(), schema.At(tx.Now), r.ID)
	return entry, err
}

// refuse ends a row that can't become a job: it stays, final, with the reason.
func (q *Queue) refuse(ctx context.Context, tx *schema.Tx, entry activity.Entry, reason error) (activity.Entry, error) {
	entry.State, entry.Error = activity.Failed, strings.ToValidUTF8(reason.Error(), "\uFFFD")
	entry.JobType, entry.JobKey = strings.ToValidUTF8(entry.JobType, "\uFFFD"), strings.ToValidUTF8(entry.JobKey, "\uFFFD")
	_, err := tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.ByID+
		" SET state = 'final', line = 'failed', error = ?, timeout = COALESCE(timeout, 0), priority = COALESCE(priority, 0),"+
		" throttle_factor = COALESCE(throttle_factor, 0), time_windows = 'NONE', update_time = ? WHERE id = ? AND line = 'new'",
		entry.Error, schema.At(tx.Now), entry.JobID)
	if err != nil {
		return entry, err
	}
	return entry, q.discard(ctx, tx, job.LineFailed, []any{entry.JobID})
}
