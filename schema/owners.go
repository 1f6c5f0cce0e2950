package schema

import (
	"context"
	"fmt"
)

// owned gives the version of a unit's tables, and those of them that nobody owns yet. It refuses a unit one of whose
// tables is somebody else's.
func (m migration) owned(ctx context.Context, u unit) (version int, unowned []string, err error) {
	for i, table := range u.tables {
		// in this order: whoever makes a table has claimed it before
		there, err := m.exists(ctx, table)
		if err != nil {
			return 0, nil, err
		}
		o, err := m.ownerOf(ctx, u, table)
		switch {
		case err != nil:
			return 0, nil, err
		case o == nil && there:
			return 0, nil, fmt.Errorf("%w: there is a table %s that hipq did not make; choose another name, or another table template", ErrTableTaken, table)
		case o == nil:
			version, unowned = 0, append(unowned, table)
		case i == 0 || o.Version < version:
			version = o.Version
		}
	}
	return version, unowned, nil
}

// ownerOf gives the owner of a unit's table, nil if it has none yet. It refuses one that is somebody else's.
func (m migration) ownerOf(ctx context.Context, u unit, table string) (*owner, error) {
	var rows []owner
	const find = "SELECT table_name, instance, queue, version FROM " + ownersTable + " WHERE table_name = ?"
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
	if m.db.Name == sqliteDialect.Name {
		exists = "SELECT COUNT(*) FROM sqlite_master WHERE type IN ('table', 'view') AND name = ? COLLATE NOCASE"
	}
	var n int
	if err := m.read(ctx, func() error { return m.conn.GetContext(ctx, &n, exists, table) }); err != nil {
		return false, fmt.Errorf("look for table %s: %w", table, err)
	}
	return n > 0, nil
}

// claim records the owner of tables, before they are made. On another node of a cluster somebody else may do so at this very
// moment: then it looks again whose they are.
func (m migration) claim(ctx context.Context, u unit, tables []string) error {
	const claim = "INSERT INTO " + ownersTable + " (table_name, instance, queue, version) VALUES (?, ?, ?, 0)"
	for _, table := range tables {
		err := m.write(ctx, claim, table, m.db.instance, u.queue)
		if IsDuplicate(err) {
			_, err = m.ownerOf(ctx, u, table)
		}
		if err != nil {
			return fmt.Errorf("record the owner of %s: %w", table, err)
		}
	}
	return nil
}

type owner struct {
	Table    string `db:"table_name"`
	Instance string
	Queue    string
	Version  int
}

func (o owner) String() string {
	if o.Queue == noQueue {
		return "instance " + o.Instance
	}
	return "queue " + o.Queue + " of instance " + o.Instance
}
