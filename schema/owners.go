package schema

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/hipq/hipq/internal/engine"
)

// state is how a migration finds the tables of a unit.
type state struct {
	// versions are those of the tables' layouts; 0 of one that is not there, and of one that was made in part.
	versions map[string]int
	// unowned are the tables that nobody owns yet; gone are those on record that somebody has dropped, or not restored.
	unowned, gone []string
	// order is that of a queue's table.
	order Order
}

func (s state) lowest() int { return slices.Min(slices.Collect(maps.Values(s.versions))) }

// owned finds out the state of a unit's tables. It refuses a unit one of whose tables is somebody else's, or newer.
func (m migration) owned(ctx context.Context, u unit) (state, error) {
	found, known := state{versions: map[string]int{}}, len(m.db.steps(u))
	for _, table := range u.tables {
		// in this order: whoever makes a table has claimed it before
		there, err := m.exists(ctx, table)
		if err != nil {
			return found, err
		}
		o, err := m.ownerOf(ctx, u, table)
		switch {
		case err != nil:
			return found, err
		case o == nil && there:
			return found, fmt.Errorf("%w: there is a table %s that hipq did not make; choose another name, or another table template", ErrTableTaken, table)
		case o == nil:
			found.versions[table], found.unowned = 0, append(found.unowned, table)
		case o.Version > known:
			return found, newer(table, o.Version, known)
		case !there:
			found.versions[table], found.gone = 0, append(found.gone, table)
		default:
			found.versions[table], found.order = o.Version, o.Order
		}
	}
	return found, nil
}

// ownerOf gives the owner of a unit's table, nil if it has none yet. It refuses one that is somebody else's.
func (m migration) ownerOf(ctx context.Context, u unit, table string) (*owner, error) {
	var rows []owner
	const find = "SELECT table_name, instance, queue, version, claim_order FROM " + ownersTable + " WHERE table_name = ?"
	if err := m.read(ctx, func() error { return m.conn.SelectContext(ctx, &rows, find, table) }); err != nil {
		return nil, fmt.Errorf("find the owner of %s: %w", table, err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	if o := rows[0]; o.Instance != m.db.instance || o.Queue != u.queue {
		return nil, fmt.Errorf("%w: %s is the table of %s; choose another name, or another table template", ErrTableTaken, table, o)
	}
	return &rows[0], nil
}

// exists says whether there is a table of this name, whoever made it.
func (m migration) exists(ctx context.Context, table string) (bool, error) {
	exists := "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?"
	if m.db.SQL.Engine == engine.SQLite.Engine {
		exists = "SELECT COUNT(*) FROM sqlite_master WHERE type IN ('table', 'view') AND name = ? COLLATE NOCASE"
	}
	var n int
	if err := m.read(ctx, func() error { return m.conn.GetContext(ctx, &n, exists, table) }); err != nil {
		return false, fmt.Errorf("look for table %s: %w", table, err)
	}
	return n > 0, nil
}

// claim records the owner of tables, before they are made, and that those which are gone have no layout: else one that is
// interrupted would leave a table that passes for whole. On another node of a cluster somebody else may do so at this very
// moment: then it looks again whose they are.
func (m migration) claim(ctx context.Context, u unit, found state) error {
	const claim = "INSERT INTO " + ownersTable + " (table_name, instance, queue, version) VALUES (?, ?, ?, 0)"
	for _, table := range found.unowned {
		err := m.write(ctx, claim, table, m.db.instance, u.queue)
		if engine.IsDuplicate(err) {
			_, err = m.ownerOf(ctx, u, table)
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
	Table    string `db:"table_name"`
	Instance string
	Queue    string
	Version  int
	Order    Order `db:"claim_order"`
}

func (o owner) String() string {
	if o.Queue == noQueue {
		return "instance " + o.Instance
	}
	return "queue " + o.Queue + " of instance " + o.Instance
}
