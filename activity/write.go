package activity

import (
	"cmp"
	"context"
	"fmt"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/schema"
)

const (
	columns = "at, kind, state, queue, worker_id, host, pid, job_id, job_type, job_key, attempt, wait_ms, run_ms, error, output"
	// values follows the expression for the time.
	values = ",?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
	// maxRows keeps a statement below SQLite's 32,766 parameters, and short enough to parse well.
	maxRows = 500
)

// Write appends entries in the caller's transaction, with the transaction's time. Empty texts become None.
func Write(ctx context.Context, tx *engine.Tx, db *schema.DB, entries []Entry) error {
	at, stamp := tx.Stamp()
	for len(entries) > 0 {
		n, size := 0, 0
		var args []any
		for ; n < len(entries) && n < maxRows && size < db.SQL.Batch(); n++ {
			e := entries[n]
			args = append(append(args, stamp...), string(e.Kind), string(e.State), orNone(e.Queue), orNone(e.WorkerID), orNone(e.Host), e.PID,
				e.JobID, orNone(e.JobType), orNone(e.JobKey), e.Attempt, e.WaitMS, e.RunMS, orNone(e.Error), orNone(e.Output))
			size += len(e.Error) + len(e.Output)
		}
		if err := tx.Insert(ctx, engine.Insert{Table: db.Activity(), Columns: columns, Row: "(" + at + values, Args: args, N: n}); err != nil {
			return fmt.Errorf("record activity: %w", err)
		}
		entries = entries[n:]
	}
	return nil
}

// JobRows are the rows of jobs that made the same transition in the caller's transaction.
type JobRows struct {
	Table string
	IDs   []any
	// Wait and Run are expressions for wait_ms and run_ms; empty means 0.
	Wait, Run string
	Args      []any // the parameters of Wait and Run
}

// WriteRows appends an entry per row, made by the database, which is cheaper than sending entries. e has all fields but
// the time, and the job's id, type, key and attempt.
func WriteRows(ctx context.Context, tx *engine.Tx, db *schema.DB, e Entry, r JobRows) error {
	if len(r.IDs) == 0 {
		return nil
	}
	at, args := tx.Stamp()
	args = append(args, string(e.Kind), string(e.State), e.Queue, orNone(e.WorkerID), orNone(e.Host), e.PID)
	args = append(append(args, r.Args...), orNone(e.Output))
	statement := "INSERT" + db.SQL.OrFail + " INTO " + db.Activity() + " (at, kind, state, queue, worker_id, host, pid, job_id, job_type, job_key, attempt, wait_ms, run_ms, output)" +
		" SELECT " + at + ", ?, ?, ?, ?, ?, ?, id, job_type, job_key, attempt, " + cmp.Or(r.Wait, "0") + ", " + cmp.Or(r.Run, "0") + ", ? FROM " + r.Table + " " + db.SQL.ByID +
		" WHERE id IN " + engine.In(len(r.IDs))
	return texts.Wrap(tx.Write(ctx, statement, append(args, r.IDs...)...), "record activity")
}

func orNone(s string) string { return cmp.Or(s, None) }
