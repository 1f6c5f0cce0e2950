package schema

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Check finds out whether the tables of the instance and of these queues are there and up to date, in one query, and one
// more for each queue that has an order of its own: ErrNotMigrated or ErrNewer if not; QueueErrors, which are that too, if
// only queues are concerned. A table that has another order than OrderLowest, where that is wanted, lacks the index that its
// queries name: they find out themselves.
func (db *DB) Check(ctx context.Context, queues []Queue) error {
	units, err := db.units(queues)
	if err != nil {
		return err
	}
	return db.check(ctx, units, false)
}

// CheckOrders is Check, and makes sure of the order of each table, also where that is to be OrderLowest: for queues of which
// only the database says that they are there. It asks once more for each.
func (db *DB) CheckOrders(ctx context.Context, queues []Queue) error {
	units, err := db.units(queues)
	if err != nil {
		return err
	}
	return db.check(ctx, units, true)
}

func (db *DB) check(ctx context.Context, units []unit, orders bool) error {
	var rows []owner
	const find = "SELECT table_name, instance, queue, version FROM " + ownersTable + " WHERE instance = ?"
	// a migration at another node of a cluster may refuse it
	err := patiently(ctx, isConflict, func() error { return db.SelectContext(ctx, &rows, find, db.instance) })
	if err != nil {
		if noSuchTable(err) {
			return fmt.Errorf("%w: it has no tables of hipq", ErrNotMigrated)
		}
		return fmt.Errorf("check the tables: %w", err)
	}
	version := map[string]int{}
	for _, o := range rows {
		version[o.Table+"/"+o.Queue] = o.Version
	}
	unfit := QueueErrors{}
	for _, u := range units {
		err := db.checkUnit(ctx, u, version, orders)
		trouble, _ := Diagnose(err)
		switch {
		case err == nil:
		case u.kind == queueKind && trouble == Misconfigured:
			unfit[u.queue] = err
		default:
			return err
		}
	}
	if len(unfit) > 0 {
		return unfit
	}
	return nil
}

func (db *DB) checkUnit(ctx context.Context, u unit, version map[string]int, orders bool) error {
	steps, err := db.steps(u)
	if err != nil {
		return err
	}
	for _, t := range u.tables {
		v, ok := version[t+"/"+u.queue]
		switch {
		case !ok:
			return fmt.Errorf("%w: it has no table %s", ErrNotMigrated, t)
		case v < len(steps):
			return fmt.Errorf("%w: table %s has version %d, needed is %d", ErrNotMigrated, t, v, len(steps))
		case v > len(steps):
			return fmt.Errorf("%w: table %s has version %d, known is %d", ErrNewer, t, v, len(steps))
		}
	}
	if u.kind != queueKind || u.order == OrderLowest && !orders {
		return nil
	}
	order, err := db.OrderOf(ctx, db, u.tables[0])
	if err == nil && order != u.order {
		err = fmt.Errorf("%w: table %s is not in the order of queue %s", ErrNotMigrated, u.tables[0], u.queue)
	}
	return err
}

// QueueErrors are the queues whose tables can't be used as they are, by name, and why. The instance's own tables can.
type QueueErrors map[string]error

func (e QueueErrors) Error() string {
	var reasons []string
	for _, err := range e.Unwrap() {
		reasons = append(reasons, err.Error())
	}
	return strings.Join(reasons, "; ")
}

// Unwrap gives the errors in the order of the queues' names.
func (e QueueErrors) Unwrap() (list []error) {
	for _, name := range slices.Sorted(maps.Keys(e)) {
		list = append(list, e[name])
	}
	return list
}
