package schema

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
)

// Views are the names of each queue's read-only views, which follow its table's name and a $.
var Views = []string{"jobs", "failures"}

// ErrNoViews means that the user may not create the views. All else works without them.
var ErrNoViews = errors.New("the views are left out")

func (db *DB) views(queues []Queue) (list []object, err error) {
	units, err := db.units(queues)
	if err != nil {
		return nil, err
	}
	for _, u := range units {
		if u.kind != queueKind {
			continue
		}
		for _, name := range Views {
			v := object{name: u.tables[0] + "$" + name, owner: db.ownerOf(u)}
			text := db.inlined(textOf(sqlFiles, "sql/views/"+name+".sql"))
			// the optimizers look for a state by its statuses only if they may not scan the table; SQLite's CROSS JOIN keeps the order
			word, hint, join, create := "", "", "CROSS JOIN", "CREATE VIEW"
			if db.SQL.Engine == engine.MySQL.Engine {
				word, hint, join, create = "_ascii", "FORCE INDEX (PRIMARY, {jobs}$live, {jobs}$claim)", "JOIN", "CREATE OR REPLACE SQL SECURITY DEFINER VIEW"
			}
			text = strings.NewReplacer("CREATE VIEW", create, "{self}", v.name, "{word}", word, "{all indexes}", hint, "{join}", join).Replace(text)
			text = strings.TrimSpace(u.replace.Replace(text))
			v.mark = v.owner + fingerprint(text)
			v.create = strings.Replace(text, "{mark}", "'"+v.mark+"' <> ''", 1)
			list = append(list, v)
		}
	}
	return list, nil
}

// isBroken reports whether a view fails because its definer is gone or lacks rights, or because of its columns.
func (db *DB) isBroken(ctx context.Context, view string) bool {
	_, err := db.SQL.ExecContext(ctx, "SELECT 1 FROM "+view+" LIMIT 0")
	my, ok := errors.AsType[*mysql.MySQLError](err)
	return engine.IsDenied(err) || ok && (my.Number == erNoDefiner || my.Number == erViewInvalid)
}

// CheckViews looks at the views of these queues. old are those that this hipq would replace. unseen are missing, or the user has no
// right to see them. It may be repeated.
func (db *DB) CheckViews(ctx context.Context, queues []Queue) (seen int, old, unseen []string, err error) {
	list, err := db.views(queues)
	return db.checkObjects(ctx, viewKind, list, err)
}

// MakeViews creates or updates the views of these queues, whose tables must exist. It returns the names of those it made. The error
// is ErrNoViews if this user may not create them. It may be repeated and run concurrently: runs take turns.
func (db *DB) MakeViews(ctx context.Context, queues []Queue) (made []string, err error) {
	list, err := db.views(queues)
	if err == nil && len(list) > 0 {
		list, _, err = db.outdated(ctx, viewKind, list)
	}
	if err != nil || len(list) == 0 {
		return nil, err
	}
	m, end, err := db.migration(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end(err)) }()
	for _, v := range list { // again what another run has just made
		if db.SQL.Engine == engine.SQLite.Engine {
			err = m.write(ctx, "DROP VIEW IF EXISTS "+v.name)
		}
		if err == nil {
			err = m.write(ctx, v.create)
		}
		if engine.IsDenied(err) {
			return made, fmt.Errorf("%w: this user may not make them (it lacks CREATE VIEW, DROP or SHOW VIEW); run hipq init as a user that may: %w", ErrNoViews, err)
		} else if err != nil {
			return made, fmt.Errorf("make view %s: %w", v.name, err)
		}
		made = append(made, v.name)
	}
	return made, nil
}

// ViewsDDL returns all that MakeViews would run in a database without views.
func ViewsDDL(driver string, names Names, queues []Queue) (string, error) {
	list, err := unopened(driver, names).views(queues)
	return strings.Join(texts.Map(list, func(v object) string { return v.create + ";\n" }), "\n"), err
}
