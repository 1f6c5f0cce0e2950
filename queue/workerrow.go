package queue

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/schema"
)

// WorkerRow is a worker as its table has it.
type WorkerRow struct {
	ID   string
	Host string
	PID  int
	// State is working, finished, or error: it was found dead, or ended by an error.
	State     string
	StartTime schema.Time `db:"start_time"`
	Heartbeat schema.Time
	// LockUntil is until when all of its locks last, as long as it is working.
	LockUntil schema.Time `db:"lock_until"`
	EndTime   schema.Time `db:"end_time"`
}

// LastWorker is the worker of the instance that started last, or nil if there has been none.
func LastWorker(ctx context.Context, db *schema.DB) (*WorkerRow, error) {
	return workerRow(ctx, db, " ORDER BY start_time DESC LIMIT 1")
}

func workerRow(ctx context.Context, db *schema.DB, which string, args ...any) (*WorkerRow, error) {
	var rows []WorkerRow
	query := "SELECT id, host, pid, state, start_time, heartbeat, lock_until, end_time FROM " + db.Workers() + which
	if err := db.SelectContext(ctx, &rows, query, args...); err != nil {
		return nil, fmt.Errorf("find the worker: %w", err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	return &rows[0], nil
}
