package doctor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/schema"
)

// unmade returns whether a queue's tables were never made, if this user may know. The check of the tables reports it.
func (p *patient) unmade(ctx context.Context) func(queue string) bool {
	owned, err := p.db.Owned(ctx)
	return func(queue string) bool { return err == nil && !slices.Contains(owned[p.Config.Name], queue) }
}

// lookAtRights checks whether this user has the rights for all commands but init.
func lookAtRights(ctx context.Context, p *patient) Finding {
	if p.isSQLite() {
		tx, err := p.db.SQL.BeginTx(ctx, nil) // IMMEDIATE: without the right to write, even this fails
		if err != nil {
			return trouble(fmt.Errorf("begin to write: %w", err))
		}
		_ = tx.Rollback()
		return found(OK, "this user may write the file")
	}
	unmade := p.unmade(ctx)
	made := slices.DeleteFunc(p.Config.QueueTables(), func(q schema.Queue) bool { return unmade(q.Name) })
	rights, err := schema.Grants(p.Config.Database, p.db.Names, made)
	if err != nil {
		return trouble(err)
	}
	var denied, grants []string
	for i, table := range rights.Tables {
		lacks, err := p.lacks(ctx, table)
		if err != nil {
			return trouble(err)
		}
		if len(lacks) > 0 {
			denied = append(denied, strings.Join(lacks, ", ")+" on "+table)
			grants = append(grants, rights.Worker[i])
		}
	}
	if len(denied) > 0 {
		return found(Wrong, "this user lacks "+strings.Join(denied, "; ")).but(strings.Join(grants, " "))
	}
	return found(OK, fmt.Sprintf("this user has the privileges that hipq needs on %d tables", len(rights.Tables)))
}

// lacks are this user's missing rights on a table. Explaining a statement needs the same rights as running it.
func (p *patient) lacks(ctx context.Context, table string) (rights []string, err error) {
	var column string
	const first = "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ? AND ordinal_position = 1"
	switch err := p.db.SQL.GetContext(ctx, &column, first, table); {
	case errors.Is(err, sql.ErrNoRows): // the table is missing, or invisible for this user
		column = "id"
	case err != nil:
		return nil, err
	}
	for _, right := range []struct{ name, statement string }{
		{"SELECT", "SELECT 1 FROM " + table},
		{"INSERT", "INSERT INTO " + table + " () VALUES ()"},
		{"UPDATE", "UPDATE " + table + " SET " + column + " = " + column + " WHERE 1 = 0"},
		{"DELETE", "DELETE FROM " + table + " WHERE 1 = 0"},
	} {
		_, err := p.db.SQL.ExecContext(ctx, p.db.SQL.Explain+right.statement)
		my, ok := errors.AsType[*mysql.MySQLError](err)
		switch {
		case ok && slices.Contains([]uint16{1044, 1142, 1143}, my.Number):
			rights = append(rights, right.name)
		case ok && my.Number != 1146: // a constraint, a default, a read-only server: no matter of rights
		case err != nil:
			return nil, err
		}
	}
	return rights, nil
}
