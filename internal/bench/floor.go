// Package bench measures hipq beside the raw SQL floor: the same rows written by bare batched statements in the same
// run. Absolute figures are the machine's; the ratios are hipq's.
package bench

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/hipq/hipq/schema"
)

// floor writes what hipq writes, with nothing around it: no checks, no choice, no struct.
type floor struct {
	db    *schema.DB
	table string
}

const floorBatch = 100

// enqueue inserts n jobs and their activity, a transaction each hundred.
func (f floor) enqueue(ctx context.Context, n int) error {
	job := "INSERT INTO " + f.table + " (job_type, job_data, job_key, line, timeout, priority, throttle_factor, time_windows, shard_key," +
		" scheduled_run_time, create_time, update_time) VALUES " + schema.Rows("(?,?,?,?,?,?,?,?,?,?,?,?)", floorBatch)
	const at = "2026-01-02 03:04:05.000000"
	for from := 0; from < n; from += floorBatch {
		args := make([]any, 0, floorBatch*12)
		for i := range floorBatch {
			args = append(args, "noop", data, fmt.Sprintf("019aa5f0-7c3b-7000-8000-%012d", from+i), "due", 86400, 100, 1, "NONE", "NONE", at, at, at)
		}
		err := f.tx(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, job, args...); err != nil {
				return err
			}
			return f.activity(ctx, tx, "added", from)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// drain locks, starts and finishes n jobs: three transactions each hundred.
func (f floor) drain(ctx context.Context, n int) error {
	where := " WHERE id IN " + schema.In(floorBatch)
	steps := []struct{ update, state string }{
		{"UPDATE " + f.table + " SET line = 'locked', worker_id = ?, lock_token = ?" + where, ""},
		{"UPDATE " + f.table + " SET state = 'running', attempt = attempt + 1, start_time = ?, update_time = ?" + where, "starting"},
		{"UPDATE " + f.table + " SET state = 'final', line = ?, update_time = ?" + where, "finished"},
	}
	const at = "2026-01-02 03:04:06.000000"
	const id = "019aa5f0-7c3b-7000-8000-000000000000"
	first := [][2]any{{id, id}, {at, at}, {"finished", at}}
	for from := 0; from < n; from += floorBatch {
		ids := make([]any, floorBatch)
		for i := range ids {
			ids[i] = from + i + 1
		}
		for i, s := range steps {
			err := f.tx(ctx, func(tx *sql.Tx) error {
				if i == 0 {
					// the lock has to read which jobs are due
					if err := f.due(ctx, tx); err != nil {
						return err
					}
				}
				if _, err := tx.ExecContext(ctx, s.update, append([]any{first[i][0], first[i][1]}, ids...)...); err != nil {
					return err
				}
				if s.state == "" {
					return nil
				}
				return f.activity(ctx, tx, s.state, from)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (f floor) due(ctx context.Context, tx *sql.Tx) error {
	rows, err := tx.QueryContext(ctx, "SELECT id FROM "+f.table+" WHERE line = 'due' AND job_type = 'noop' ORDER BY priority, scheduled_run_time, id LIMIT 100 "+f.db.SkipLocked)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (f floor) activity(ctx context.Context, tx *sql.Tx, state string, from int) error {
	query := "INSERT INTO " + f.db.Activity() + " (at, kind, state, queue, worker_id, host, pid, job_id, job_type, job_key, attempt, wait_ms, run_ms, error, output) VALUES " +
		schema.Rows("(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", floorBatch)
	args := make([]any, 0, floorBatch*15)
	const at = "2026-01-02 03:04:06.000000"
	const id = "019aa5f0-7c3b-7000-8000-000000000000"
	for i := range floorBatch {
		args = append(args, at, "job", state, "bench", id, "host", 4711, from+i+1, "noop", fmt.Sprintf("019aa5f0-7c3b-7000-8000-%012d", from+i), 1, 5, 0, "NONE", "NONE")
	}
	_, err := tx.ExecContext(ctx, query, args...)
	return err
}

func (f floor) tx(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

// data is a payload of an ordinary size.
var data = `{"to":"someone@example.org","subject":"` + strings.Repeat("x", 80) + `"}`
