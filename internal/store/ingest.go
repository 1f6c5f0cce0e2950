package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
)

const ingestMax = 500

// ingest completes rows inserted by plain SQL, applies windows, and logs the jobs. It rejects invalid rows. more is true
// after a full batch. If it had to leave the whole batch, those rows wait for the next poll.
func (q *Queue) ingest(ctx context.Context, w workers.Worker) (more bool, err error) {
	more, err = q.ingestSome(ctx, w, true)
	if engine.IsLockTimeout(err) { // another transaction may hold what an invalid row needs
		more, err = q.ingestSome(ctx, w, false)
	}
	return more, texts.Wrap(err, "take in rows of %s", q.Name)
}

// ingestSome ingests one batch. It rejects invalid rows, or leaves them for later.
func (q *Queue) ingestSome(ctx context.Context, w workers.Worker, reject bool) (more bool, err error) {
	err = q.db.SQL.TxInParts(ctx, nil, func(tx *engine.Tx) error {
		var found []*job.Job
		if err := tx.Read(ctx, q.inserted(tx, &found)); err != nil {
			return err
		}
		valid, invalid := apart(found)
		more = len(found) == ingestMax && len(valid) > 0
		if err := q.findPlaces(ctx, tx, valid); err != nil {
			return err
		}
		var entries []activity.Entry
		for _, j := range valid {
			if err := q.IngestOne(ctx, tx, j); err != nil {
				return err
			}
			entries = append(entries, q.Entry(j, activity.Added))
		}
		if err := q.logAs(ctx, tx, w, entries); err != nil || !reject {
			return err
		}
		invalid, err := q.withFreeKeys(ctx, tx, invalid)
		if err != nil {
			return err
		}
		more = more || len(found) == ingestMax && len(invalid) > 0
		return q.Reject(ctx, tx, w, invalid...)
	})
	return more, err
}

// inserted is the query for rows inserted by plain SQL. It reads data, which may be large, only if texts may have any bytes.
func (q *Queue) inserted(tx *engine.Tx, found *[]*job.Job) engine.Query {
	of := allBut("job_data", "error", "result", "output")
	if q.db.SQL.AnyBytes {
		of = allBut("error", "result")
	}
	query := "SELECT " + q.listed(of) + ", OCTET_LENGTH(job_data) FROM " + q.table + " " + q.ClaimIndex() +
		" WHERE status = 'submitted' LIMIT ? " + tx.SkipLocked
	var size int
	read := q.reader(of, &size)
	return engine.Query{SQL: query, Args: []any{ingestMax}, Scan: engine.EachRow(func(row *sql.Rows) error {
		j, err := read(row)
		if err != nil {
			return err
		}
		if j.Data = job.None; j.Invalid == nil {
			j.Invalid = job.CheckSize(size)
		}
		*found = append(*found, j)
		return nil
	})}
}

// IngestOne makes a job of a row. It overwrites columns that only hipq may set.
func (q *Queue) IngestOne(ctx context.Context, tx *engine.Tx, j *job.Job) error {
	t, err := q.TypeOf(ctx, tx, j.Type)
	if err != nil {
		return err
	}
	if j.Left.Windows {
		j.Windows = t.Windows
	}
	at := policy.Opening(j.Windows, q.Location, j.ScheduledRunTime)
	j.Attempt = 0
	status, wake := policy.StatusAt(at, tx.Now)
	return tx.Write(ctx, "UPDATE "+q.table+" "+q.db.SQL.ByID+
		" SET status = ?, attempt = 0, shard = ?, wake_time = ?, scheduled_run_time = ?, timeout = COALESCE(timeout, ?), priority = COALESCE(priority, ?),"+
		" throttle_factor = COALESCE(throttle_factor, ?), time_windows = ?, throttle_group = 'NONE', error = 'NONE', result = 'NONE',"+
		" stopping = 0, uncounted = 0, interrupted = 0, losses = 0, update_time = ? WHERE id = ? AND status = 'submitted'",
		status, j.Place, engine.At(wake), engine.At(at), int64(t.Timeout.Seconds()), t.Priority, t.ThrottleFactor, j.Windows.Encode(), engine.At(tx.Now), j.ID)
}

// Reject fails jobs whose rows are invalid, and records each reason. The zero worker stands for an operator.
func (q *Queue) Reject(ctx context.Context, tx *engine.Tx, w workers.Worker, jobs ...*job.Job) error {
	entries := make([]activity.Entry, 0, len(jobs))
	for _, j := range jobs {
		reason := strings.ToValidUTF8(j.Invalid.Error(), "\uFFFD")
		err := tx.Write(ctx, "UPDATE "+q.table+" "+q.db.SQL.ByID+
			" SET status = 'failed', error = ?, wake_time = NULL, update_time = ?, worker_id = 'NONE', lock_token = 'NONE',"+
			" throttle_group = 'NONE', stopping = 0, retry_override = 'NONE', output = 'NONE' WHERE id = ?", reason, engine.At(tx.Now), j.ID)
		if err != nil {
			return fmt.Errorf("refuse job %d: %w", j.ID, err)
		}
		if err := q.Discard(ctx, tx, job.StatusFailed, []any{j.ID}); err != nil {
			return err
		}
		entry := q.Entry(j, activity.Failed)
		entry.Attempt, entry.RunMS, entry.Error = 0, activity.NoRun, reason
		entries = append(entries, entry)
	}
	return cmp.Or(q.LetIn(ctx, tx, jobs...), q.logAs(ctx, tx, w, entries))
}

func apart(jobs []*job.Job) (valid, invalid []*job.Job) {
	for _, j := range jobs {
		if j.Invalid != nil {
			invalid = append(invalid, j)
		} else {
			valid = append(valid, j)
		}
	}
	return valid, invalid
}
