package schema

import (
	"context"
	"fmt"
	"strings"

	"github.com/hipq/hipq/internal/engine"
)

// dropFormer drops from a table what former layouts called by names that a file of SQL can't know, or may find gone: MySQL's
// ALTER TABLE knows no IF EXISTS. SQLite's table is made anew instead.
func (m migration) dropFormer(ctx context.Context, u unit) error {
	if m.db.Name == engine.SQLite.Name || u.kind != queueKind {
		return nil
	}
	table := u.tables[0]
	for _, old := range []string{"pick_schedule", "pick_highest", "pick_schedule_highest"} {
		if err := m.exec(ctx, []string{"DROP INDEX " + table + "$" + old + " ON " + table}); err != nil {
			return err
		}
	}
	// the servers named them: MariaDB CONSTRAINT_1, MySQL shop_emails_chk_1
	var former []string
	const find = "SELECT constraint_name FROM information_schema.table_constraints WHERE constraint_schema = DATABASE()" +
		" AND table_name = ? AND constraint_type = 'CHECK' AND (constraint_name REGEXP '^CONSTRAINT_[1-4]$' OR constraint_name REGEXP ?)"
	err := m.read(ctx, func() error { return m.conn.SelectContext(ctx, &former, find, table, "^"+table+"_chk_[1-4]$") })
	if err != nil {
		return fmt.Errorf("find the former constraints of %s: %w", table, err)
	}
	if len(former) == 0 {
		return nil
	}
	drops := make([]string, len(former))
	for i, name := range former {
		drops[i] = "/*M! DROP CONSTRAINT " + name + " */ /*!80016 DROP CHECK " + name + " */"
	}
	return m.exec(ctx, []string{"ALTER TABLE " + table + " " + strings.Join(drops, ", ")})
}
