package schema

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
)

// Queue is a queue that has a table.
type Queue struct {
	Name string
	// Order is the order in which its jobs are locked, if that is not by the lowest priority: OrderSchedule, OrderHighest
	// or OrderScheduleHighest. Its table has an index for it.
	Order string
}

// The orders that want an index of their own.
const (
	OrderSchedule        = "schedule"
	OrderHighest         = "highest"
	OrderScheduleHighest = "schedule_highest"
)

// orders are the columns behind line, part and job_type in the index of each order; the index is pick_ORDER.
var orders = map[string]string{
	OrderSchedule:        "scheduled_run_time, priority, id",
	OrderHighest:         "priority DESC, scheduled_run_time, id",
	OrderScheduleHighest: "scheduled_run_time, priority DESC, id",
}

func (u unit) orderIndex() string { return u.tables[0] + "$pick_" + u.order }

func (u unit) createOrderIndex() string {
	return "CREATE INDEX " + u.orderIndex() + " ON " + u.tables[0] + " (line, part, job_type, " + orders[u.order] + ")"
}

// hasIndex says whether a table has an index.
func (db *DB) hasIndex(ctx context.Context, from sqlx.QueryerContext, table, index string) (there bool, err error) {
	query := "SELECT EXISTS (SELECT 1 FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = ? AND index_name = ?)"
	if db.Name == sqliteDialect.Name {
		query = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND name = ?)"
	}
	if err := sqlx.GetContext(ctx, from, &there, query, table, index); err != nil {
		return false, fmt.Errorf("look for the index %s: %w", index, err)
	}
	return there, nil
}
