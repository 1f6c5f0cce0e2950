package schema

import (
	"fmt"
	"strings"
)

// Queue is a queue that has a table.
type Queue struct {
	Name string
	// Order is the order in which its jobs are claimed; empty is OrderLowest.
	Order Order
}

// Order is an order in which jobs are claimed. A table has one, for which its run_rank is made: so whoever adds jobs needn't know it.
type Order string

// The orders.
const (
	// OrderLowest: the lowest priority first, then the scheduled run time, then the id.
	OrderLowest Order = ""
	// OrderHighest: the highest priority first, then as in OrderLowest.
	OrderHighest Order = "highest"
	// OrderSchedule: the scheduled run time first, then the id, whatever the priorities.
	OrderSchedule Order = "schedule"
	// OrderAny is whichever it has, for who only reads.
	OrderAny Order = "any"
)

// ranks is what run_rank is, by order.
var ranks = map[Order]string{OrderLowest: "priority", OrderHighest: "-priority", OrderSchedule: "0"}

// ClaimIndex is the name of the index that has the jobs of each status in the order of their claims.
const ClaimIndex = "claim"

// setOrder are the statements that give a table another order. They may be repeated.
func (db *DB) setOrder(table string, to Order) []string {
	return append(cutStatements(strings.NewReplacer(
		"{jobs}", table, "{index}", table+"$"+ClaimIndex, "{rank}", ranks[to], "{columns}", claimColumns,
	).Replace(db.Reorder)), fmt.Sprintf("UPDATE "+ownersTable+" SET claim_order = '%s' WHERE table_name = '%s'", to, table))
}
