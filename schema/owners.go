package schema

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
)

type state struct {
	// versions are the layout versions by table; 0 if the table is missing or incomplete.
	versions map[string]int
	// unowned are tables without an owner; gone are recorded tables that were dropped or not restored.
	unowned, gone []string
	// order is the claim order of a queue's table.
	order Order
}

func (s state) lowest() int { return slices.Min(slices.Collect(maps.Values(s.versions))) }

// owned returns the state of a unit's tables. It refuses a unit if another owns one of its tables, or one is newer.
func (m migration) owned(ctx context.Context, u unit) (state, error) {
	found, known := state{versions: map[string]int{}}, len(m.db.steps(u))
	var owners map[string]owner
	var there map[string]bool
	err := m.read(ctx, func() error {
		owners, there = map[string]owner{}, map[string]bool{}
		// in this order, because a table is claimed before it is made
		return engine.ReadOn(ctx, m.conn, m.db.present([]unit{u}, there), recorded(u.tables, owners))
	})
	if err != nil {
		return found, fmt.Errorf("find the owner of %s: %w", u.tables[0], err)
	}
	for _, table := range u.tables {
		o, recorded := owners[table]
		switch {
		case !recorded:
			if there[table] {
				if err := m.adopts(ctx, u, table); err != nil {
					return found, err
				}
			}
			found.versions[table], found.unowned = 0, append(found.unowned, table)
		case o.instance != m.db.instance || o.queue != u.queue:
			return found, fmt.Errorf("%w: %s is the table of %s; choose another name, or another table template", ErrTableTaken, table, o)
		case o.version > known:
			return found, newer(table, o.version, known)
		case !there[table]:
			found.versions[table], found.gone = 0, append(found.gone, table)
		default:
			found.versions[table], found.order = o.version, o.order
		}
	}
	return found, nil
}

// adopts returns nil for a table without an owner that is empty and has hipq's columns, as after a dump without data.
func (m migration) adopts(ctx context.Context, u unit, table string) (err error) {
	model := &DB{SQL: m.db.SQL, Names: Named("hipq_model")}
	units, err := model.units([]Queue{{Name: queueKind, Order: u.order}})
	if err != nil {
		return err
	}
	made := units[slices.IndexFunc(units, func(other unit) bool { return other.kind == u.kind })]
	names := texts.Map(made.tables, func(t string) string { return "DROP TABLE IF EXISTS " + t })
	err = m.exec(ctx, slices.Concat(append([][]string{names}, model.steps(made)...)...))
	defer func() { err = errors.Join(err, m.exec(context.WithoutCancel(ctx), names)) }()
	var rows int
	columns, wanted := []string{}, []string{}
	if err == nil {
		err = m.read(ctx, func() error {
			return m.conn.GetContext(ctx, &rows, "SELECT COUNT(*) FROM (SELECT 1 FROM "+table+" LIMIT 1) any_row")
		})
	}
	for name, list := range map[string]*[]string{table: &columns, made.tables[slices.Index(u.tables, table)]: &wanted} {
		if err == nil {
			err = m.read(ctx, func() error { return m.conn.SelectContext(ctx, list, m.db.SQL.ColumnsOf, name) })
		}
	}
	if err == nil && (rows > 0 || !slices.Equal(columns, wanted)) {
		err = fmt.Errorf("%w: there is a table %s that hipq did not make; choose another name, or another table template", ErrTableTaken, table)
	}
	return err
}

// claim records the owner of tables before they are made, and version 0 for those that are gone. Otherwise an interrupted
// run would leave an incomplete table that looks complete. Another cluster node may claim the same table at the same
// time, so a duplicate reads the owners again.
func (m migration) claim(ctx context.Context, u unit, found state) error {
	const claim = "INSERT INTO " + ownersTable + " (table_name, instance, queue, version) VALUES (?, ?, ?, 0)"
	for _, table := range found.unowned {
		err := m.write(ctx, claim, table, m.db.instance, u.queue)
		if engine.IsDuplicate(err) {
			_, err = m.owned(ctx, u)
		}
		if err != nil {
			return fmt.Errorf("record the owner of %s: %w", table, err)
		}
	}
	for _, table := range found.gone {
		if err := m.write(ctx, "UPDATE "+ownersTable+" SET version = 0, claim_order = '' WHERE table_name = ?", table); err != nil {
			return fmt.Errorf("record that table %s is gone: %w", table, err)
		}
	}
	return nil
}

type owner struct {
	table, instance, queue string
	version                int
	order                  Order
}

func (o owner) String() string {
	if o.queue == noQueue {
		return "instance " + o.instance
	}
	return "queue " + o.queue + " of instance " + o.instance
}

// Owned are the queues of each instance that has tables in the database, by the instance's name.
func (db *DB) Owned(ctx context.Context) (map[string][]string, error) {
	var rows []struct{ Instance, Queue string }
	if err := db.SQL.SelectContext(ctx, &rows, "SELECT DISTINCT instance, queue FROM "+ownersTable+" ORDER BY 1, 2"); err != nil {
		return nil, fmt.Errorf("read the owners of the tables: %w", err)
	}
	owned := map[string][]string{}
	for _, r := range rows {
		if owned[r.Instance] == nil {
			owned[r.Instance] = []string{}
		}
		if r.Queue != noQueue {
			owned[r.Instance] = append(owned[r.Instance], r.Queue)
		}
	}
	return owned, nil
}
