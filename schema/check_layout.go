package schema

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
)

// Check checks that the tables of the instance and of these queues exist, with their indexes, and are up to date.
// Otherwise the error is ErrNotMigrated or ErrNewer, or QueueErrors, which wrap these, if only queues are affected. It takes one
// round trip, or two on an error, and may be repeated. Only Migrate compares the indexes' columns on MySQL and MariaDB.
func (db *DB) Check(ctx context.Context, queues []Queue) error {
	units, err := db.units(queues)
	if err != nil {
		return err
	}
	return db.check(ctx, units, db.probe)
}

// look is a query that notes which tables and indexes of these units exist: probe or present.
type look func(units []unit, there map[string]bool) engine.Query

func (db *DB) check(ctx context.Context, units []unit, look look) error {
	owners, there, err := db.find(ctx, units, look)
	if err != nil {
		if engine.Missing(err) != "" {
			return fmt.Errorf("%w: it has no hipq tables", ErrAbsent)
		}
		return fmt.Errorf("check the tables: %w", err)
	}
	unfit := QueueErrors{}
	for _, u := range units {
		err := db.checkUnit(u, owners, there)
		if err != nil {
			err = cmp.Or(db.denied(ctx, u, owners, there), err)
		}
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

// HighIDs returns the tables whose next id is in the upper half of the range. Jobs alone never reach it: somebody has
// set it. The catalogue shows it even if that row is gone.
func (db *DB) HighIDs(ctx context.Context, tables ...string) (high []string, err error) {
	query := "SELECT name FROM sqlite_sequence WHERE seq + 1 >= ? AND name IN "
	if db.SQL.Engine == engine.MySQL.Engine {
		query = "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND auto_increment >= ? AND table_name IN "
	}
	args := append([]any{int64(1) << 62}, engine.Args(tables)...)
	err = db.SQL.SelectContext(ctx, &high, query+engine.In(len(tables))+" ORDER BY 1", args...)
	return high, texts.Wrap(err, "read the tables' next ids")
}

// SayHighIDs returns what is wrong with tables of HighIDs, and the remedy.
func SayHighIDs(tables []string) (what, remedy string) {
	return "the next id of " + strings.Join(tables, ", ") + " is in the upper half of all possible ids: it was set by hand",
		`docs/reference/schema.md, "The highest id", has the remedy`
}

// Tables returns the tables of the instance and of these queues.
func (db *DB) Tables(queues []Queue) (names []string, err error) {
	units, err := db.units(queues)
	for _, u := range units {
		names = append(names, u.tables...)
	}
	return names, err
}

// find returns the recorded owners by table, and the tables and indexes that exist: see present.
func (db *DB) find(ctx context.Context, units []unit, look look) (owners map[string]owner, there map[string]bool, err error) {
	var tables []string
	for _, u := range units {
		tables = append(tables, u.tables...)
	}
	// a migration on another cluster node may make this fail
	err = engine.Patiently(ctx, engine.IsConflict, func() error {
		owners, there = map[string]owner{}, map[string]bool{}
		if db.SQL.Engine == engine.SQLite.Engine {
			look = db.present
		}
		err := db.SQL.Read(ctx, recorded(tables, owners), look(units, there))
		if _, refused := errors.AsType[*mysql.MySQLError](err); refused {
			clear(there)
			return db.SQL.Read(ctx, recorded(tables, owners), db.present(units, there))
		}
		return err
	})
	return owners, there, err
}

// recorded is the query for the recorded owners of these tables.
func recorded(tables []string, owners map[string]owner) engine.Query {
	return engine.Query{
		SQL:  "SELECT table_name, instance, queue, version, claim_order FROM " + ownersTable + " WHERE table_name IN " + engine.In(len(tables)),
		Args: engine.Args(tables),
		Scan: engine.EachRow(func(row *sql.Rows) error {
			var o owner
			err := row.Scan(&o.table, &o.instance, &o.queue, &o.version, &o.order)
			owners[o.table] = o
			return err
		}),
	}
}

// probe is a query that fails if one of the units' tables or indexes is missing. It notes all. On MariaDB, listing them takes 20
// times as long, because that opens each table. It can't see the columns of an index.
func (db *DB) probe(units []unit, there map[string]bool) engine.Query {
	var probes []string
	for _, u := range units {
		hints := map[string][]string{}
		for _, i := range db.indexes(u) {
			hints[i.table] = append(hints[i.table], i.name)
			there[i.create] = true
		}
		for _, t := range u.tables {
			hint := ""
			if len(hints[t]) > 0 {
				hint = " FORCE INDEX (" + strings.Join(hints[t], ", ") + ")"
			}
			probes = append(probes, "(SELECT 1 FROM "+t+hint+" LIMIT 0)")
			for _, name := range append(hints[t], t) {
				there[name] = true
			}
		}
	}
	return engine.Query{SQL: strings.Join(probes, " UNION ALL "), Scan: engine.Row()}
}

// present is the query for which of these units' tables, or views in their place, exist. It notes their names, and their indexes
// by name and by the statement that creates them.
func (db *DB) present(units []unit, there map[string]bool) engine.Query {
	var args []any
	for _, u := range units {
		args = append(args, engine.Args(u.tables)...)
	}
	in := " IN " + engine.In(len(args))
	query := "SELECT LOWER(name), COALESCE(sql, '') FROM sqlite_master WHERE type IN ('table', 'view', 'index') AND tbl_name COLLATE NOCASE" + in
	if db.SQL.Engine == engine.MySQL.Engine {
		query = "SELECT table_name, '' FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name" + in +
			" UNION ALL SELECT index_name, CONCAT('CREATE ', IF(non_unique, '', 'UNIQUE '), 'INDEX ', index_name, ' ON ', table_name," +
			" ' (', GROUP_CONCAT(column_name ORDER BY seq_in_index SEPARATOR ', '), ')') FROM information_schema.statistics" +
			" WHERE table_schema = DATABASE() AND table_name" + in + " GROUP BY table_name, index_name, non_unique"
		args = append(args, args...)
	}
	return engine.Query{SQL: query, Args: args, Scan: engine.EachRow(func(row *sql.Rows) error {
		var name, create string
		err := row.Scan(&name, &create)
		there[name], there[create] = true, true
		return err
	})}
}

func (db *DB) checkUnit(u unit, owners map[string]owner, there map[string]bool) error {
	steps := db.steps(u)
	for _, t := range u.tables {
		o := owners[t]
		ours := o.instance == db.instance && o.queue == u.queue
		switch {
		case ours && o.version > len(steps):
			return newer(t, o.version, len(steps))
		case !ours || !there[t]:
			return texts.Errorf(ErrNotMigrated, "the database has no table %s", t)
		case o.version < len(steps):
			return texts.Errorf(ErrNotMigrated, "table %s comes from an older hipq: it has version %d, and this hipq needs %d", t, o.version, len(steps))
		}
	}
	for _, i := range db.indexes(u) {
		switch {
		case !there[i.name]:
			return texts.Errorf(ErrNotMigrated, "table %s has no index %s", i.table, i.name)
		case !there[i.create]:
			return texts.Errorf(ErrNotMigrated, "index %s of table %s has other columns than this hipq needs", i.name, i.table)
		}
	}
	order := owners[u.tables[0]].order
	if u.kind == queueKind && u.order != OrderAny && u.order != order && (u.settled || order != changing) {
		return texts.Errorf(ErrNotMigrated, "table %s is not in the order of queue %s", u.tables[0], u.queue)
	}
	return nil
}

// denied returns why a table that was made is invisible: MySQL's catalogue hides tables to which a user has no right.
func (db *DB) denied(ctx context.Context, u unit, owners map[string]owner, there map[string]bool) error {
	for _, t := range u.tables {
		if there[t] || owners[t].instance != db.instance || owners[t].queue != u.queue || owners[t].version == 0 {
			continue
		}
		if _, err := db.SQL.ExecContext(ctx, "SELECT 1 FROM "+t+" LIMIT 0"); engine.IsDenied(err) {
			return fmt.Errorf("check the tables: %w", err)
		}
	}
	return nil
}

// QueueErrors says, by queue, why its tables can't be used as they are. The instance's own tables can.
type QueueErrors map[string]error

func (e QueueErrors) Error() string {
	return strings.Join(texts.Map(e.Unwrap(), error.Error), "; ")
}

// Unwrap returns the errors in the order of the queues' names.
func (e QueueErrors) Unwrap() []error {
	return texts.Map(slices.Sorted(maps.Keys(e)), func(name string) error { return e[name] })
}
