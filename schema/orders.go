package schema

import (
	"context"
	"fmt"
	"strings"
)

// Queue is a queue that has a table.
type Queue struct {
	Name string
	// Order is the order in which its jobs are locked; empty is OrderLowest.
	Order Order
}

// Order is an order in which jobs are locked. A table has one: its run_rank and the index that begins with it are made for
// it, so whoever adds jobs needn't know it.
type Order string

// The orders.
const (
	// OrderLowest: the lowest priority first, then the scheduled run time, then the id.
	OrderLowest Order = ""
	// OrderHighest: the highest priority first, then as in OrderLowest.
	OrderHighest Order = "highest"
	// OrderSchedule: the scheduled run time first, then the id, whatever the priorities.
	OrderSchedule Order = "schedule"
)

// ranks is what run_rank is, by order.
var ranks = map[Order]string{OrderLowest: "priority", OrderHighest: "-priority", OrderSchedule: "0"}

// Pick is the name of the index that has the jobs of each line in this order. None begins with another: MySQL takes the
// beginning of an index's name for the name.
func (o Order) Pick() string {
	if o == OrderLowest {
		return "pick"
	}
	return string(o)
}

// setOrder are the statements that give a table another order.
func (db *DB) setOrder(table string, from, to Order) []string {
	return cutStatements(strings.NewReplacer(
		"{jobs}", table, "{old}", table+"$"+from.Pick(), "{new}", table+"$"+to.Pick(), "{rank}", ranks[to], "{columns}", pickColumns,
	).Replace(db.Reorder))
}

// OrderOf gives the order that a queue's table has: ErrNotMigrated if it has none. It may be asked again.
func (db *DB) OrderOf(ctx context.Context, table string) (Order, error) {
	there := map[string]bool{}
	if err := db.Read(ctx, db.present([]string{table}, there)); err != nil {
		return "", fmt.Errorf("find out the order of %s: %w", table, err)
	}
	if order, ok := orderIn(there, table); ok {
		return order, nil
	}
	return "", unmigratedf("table %s has no index for its order", table)
}

// orderIn is the order of a table, by the names of the indexes that are there.
func orderIn(there map[string]bool, table string) (order Order, ok bool) {
	for o := range ranks {
		if there[table+"$"+o.Pick()] {
			return o, true
		}
	}
	return "", false
}
