package worker

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/schema"
)

// Record is a worker as its table has it.
type Record struct {
	ID   string
	Host string
	PID  int
	// State is working, finished, or error: it was found dead.
	State     string
	StartTime schema.Time `db:"start_time"`
	Heartbeat schema.Time
	EndTime   schema.Time `db:"end_time"`
}

// Last is the worker that started last, or nil if there has been none.
func Last(ctx context.Context, db *schema.DB) (*Record, error) {
	var rows []Record
	query := "SELECT id, host, pid, state, start_time, heartbeat, end_time FROM " + db.Workers() + " ORDER BY start_time DESC LIMIT 1"
	if err := db.SelectContext(ctx, &rows, query); err != nil {
		return nil, fmt.Errorf("find the last worker: %w", err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	return &rows[0], nil
}
