package schema

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
)

//go:embed sql
var sqlFiles embed.FS

// stepFiles holds the migration steps; a test adds some.
var stepFiles fs.FS = sqlFiles

// noQueue is the queue in the list of owners for tables that belong to the whole instance.
const noQueue = "NONE"

const queueKind = "queue"

// unit has a version of its own: all tables of the instance, or the table of one queue.
type unit struct {
	kind  string // its files are <kind>_001.sql, <kind>_002.sql, …
	queue string
	order Order
	// settled refuses a table whose order is still changing.
	settled bool
	tables  []string
	replace *strings.Replacer
}

func (db *DB) units(queues []Queue) ([]unit, error) {
	var all []string
	replace := []string{"{owners}", ownersTable, "{instance}", db.instance, "{order}", ClaimOrder}
	for _, t := range instanceTables {
		all = append(all, db.table(db.instance, t))
		replace = append(replace, "{"+t+"}", db.table(db.instance, t))
	}
	units := []unit{{kind: "instance", queue: noQueue, tables: all, replace: strings.NewReplacer(replace...)}}
	for _, q := range queues {
		table, err := db.CheckQueue(q.Name)
		if err != nil {
			return nil, err
		}
		sign, ok := signs[q.Order]
		if !ok {
			return nil, fmt.Errorf("%w: queue %s has the unknown order %q", ErrConfig, q.Name, q.Order)
		}
		own := strings.NewReplacer(append(replace, "{jobs}", table, "{queue}", q.Name, "{sign}", fmt.Sprint(sign))...)
		units = append(units, unit{kind: queueKind, queue: q.Name, order: q.Order, tables: []string{table}, replace: own})
	}
	return units, nil
}

// steps are the statements of a unit's migrations: steps[0] leads to version 1.
func (db *DB) steps(u unit) [][]string {
	names, _ := fs.Glob(stepFiles, db.SQL.SQLDir+"/"+u.kind+"_*.sql") // sorted
	return texts.Map(names, func(name string) []string { return cutStatements(u.replace.Replace(textOf(stepFiles, name))) })
}

func (db *DB) owners() []string {
	return cutStatements(strings.ReplaceAll(textOf(sqlFiles, db.SQL.SQLDir+"/owners.sql"), "{owners}", ownersTable))
}

func textOf(files fs.FS, name string) string {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		panic(err) // the files are embedded
	}
	return string(text)
}

// cutStatements cuts a file where a line ends in a semicolon.
func cutStatements(text string) []string {
	var list []string
	for s := range strings.SplitSeq(text, ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			list = append(list, s)
		}
	}
	return list
}

// DDL returns all statements that Migrate would run in an empty database of this driver.
func DDL(driver string, names Names, queues []Queue) (string, error) {
	db := unopened(driver, names)
	units, err := db.units(queues)
	if err != nil {
		return "", err
	}
	all := db.owners()
	for _, u := range units {
		steps := db.steps(u)
		all = append(all, slices.Concat(steps...)...)
		for _, t := range u.tables {
			// names from the allow-list need no quoting
			all = append(all, fmt.Sprintf("INSERT INTO "+ownersTable+" (table_name, instance, queue, version, claim_order) VALUES ('%s', '%s', '%s', %d, '%s')",
				t, names.instance, u.queue, len(steps), u.order))
		}
	}
	return strings.Join(all, ";\n\n") + ";\n", nil
}

// Migrate creates or updates the tables of the instance and of these queues, and returns the tables it changed. It also
// recreates dropped tables and indexes, and indexes with other columns. It may be repeated and run concurrently: runs take turns. MySQL's DDL is not
// transactional, so an interrupted Migrate resumes at the step where it stopped; each step is repeatable. So two runs
// on different nodes of a Galera cluster, which don't see each other's locks, may do the same steps: DDL happens on all
// nodes at once, and the second run finds it done.
func (db *DB) Migrate(ctx context.Context, queues []Queue) (changed []string, err error) {
	units, err := db.units(queues)
	if err != nil {
		return nil, err
	}
	for i := range units {
		units[i].settled = true
	}
	if db.check(ctx, units, db.present) == nil {
		return nil, nil // needs no right to create tables
	}
	m, end, err := db.migration(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end(err)) }()
	if err := m.exec(ctx, db.owners()); err != nil {
		return nil, err
	}
	// claim all first, so that a refused claim leaves no tables behind
	states := make([]state, len(units))
	for i, u := range units {
		if states[i], err = m.owned(ctx, u); err != nil {
			return nil, err
		}
	}
	for i, u := range units {
		if err := m.claim(ctx, u, states[i]); err != nil {
			return nil, err
		}
	}
	for i, u := range units {
		done, err := m.migrate(ctx, u, states[i])
		if err != nil {
			return nil, err
		}
		changed = append(changed, done...)
	}
	return changed, nil
}

// migration takes a connection and the migration lock. end gives both back. To a server of its own DSN it makes a new
// connection, because the pool's break off a statement that takes long.
func (db *DB) migration(ctx context.Context) (m migration, end func(error) error, err error) {
	pool, closed := db.SQL, func() error { return nil }
	if pool.Engine == engine.MySQL.Engine && pool.Connector != nil {
		pool = engine.New(unlimited{pool.Connector}, engine.MySQL)
		closed = pool.Close
	}
	conn, err := pool.Connx(ctx)
	if err != nil {
		return m, nil, errors.Join(err, closed())
	}
	m = migration{db: db, conn: conn}
	over, err := m.begin(ctx, 20)
	if err != nil {
		return m, nil, errors.Join(fmt.Errorf("wait for another migration: %w", err), conn.Close(), closed())
	}
	return m, func(failed error) error { return errors.Join(over(failed), conn.Close(), closed()) }, nil
}

// migration is one run of Migrate or MakeProcedures, on one connection.
type migration struct {
	db   *DB
	conn *sqlx.Conn
}

// begin takes the migration lock. It gives up after so many waits of 3 s. SQLite's is the file's own, and the work under it is atomic.
func (m migration) begin(ctx context.Context, waits int) (end func(error) error, err error) {
	if m.db.SQL.Engine == engine.SQLite.Engine {
		err := m.write(ctx, "BEGIN IMMEDIATE")
		return func(failed error) error {
			var err error
			if failed == nil {
				if _, err = m.conn.ExecContext(ctx, "COMMIT"); err == nil {
					return nil
				}
			}
			// also if ctx ended before the commit: the pool must not get a connection that locks the file
			_, undone := m.conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
			return cmp.Or(err, undone)
		}, err
	}
	const name = "CONCAT('hipq.', LEFT(SHA2(DATABASE(), 256), 16))"
	if _, err := m.conn.ExecContext(ctx, setSession+patient); err != nil {
		return nil, err
	}
	for got, tries := 0, 1; got != 1; tries++ {
		if err := m.conn.GetContext(ctx, &got, "SELECT COALESCE(GET_LOCK("+name+", 3), 0)"); err != nil {
			return nil, err
		}
		var holder int64
		if got != 1 && (tries == 1 || tries >= waits) {
			if err := m.conn.GetContext(ctx, &holder, "SELECT COALESCE(IS_USED_LOCK("+name+"), 0)"); err != nil {
				return nil, err
			}
		}
		held := fmt.Errorf("%w: connection %d has the lock of hipq init; if SHOW PROCESSLIST shows another program there: KILL %d", ErrHeld, holder, holder)
		switch {
		case holder != 0 && tries >= waits:
			return nil, held
		case holder != 0:
			m.db.Warn(held)
		}
	}
	return func(error) error {
		_, err := m.conn.ExecContext(context.WithoutCancel(ctx), "SELECT RELEASE_LOCK("+name+")")
		if err == nil {
			_, err = m.conn.ExecContext(context.WithoutCancel(ctx), setSession+hurried)
		}
		return err
	}, nil
}

func (m migration) exec(ctx context.Context, list []string) error {
	for _, s := range list {
		// an interrupted run has done these already
		if err := m.write(ctx, s); err != nil && !engine.IsDone(err) {
			return fmt.Errorf("migrate: %w", err)
		}
	}
	return nil
}

// read retries do, and write a statement, on conflicts with another process or another node of a Galera cluster.
func (m migration) read(ctx context.Context, do func() error) error {
	return engine.Patiently(ctx, engine.IsConflict, do)
}

func (m migration) write(ctx context.Context, statement string, args ...any) error {
	conflicts := func(err error) bool { return engine.IsConflict(err) && !engine.IsLockTimeout(err) }
	for said := false; ; said = true {
		err := engine.Patiently(ctx, conflicts, func() error {
			_, err := m.conn.ExecContext(ctx, statement, args...)
			return err
		})
		if !engine.IsLockTimeout(err) {
			return err
		}
		if !said {
			m.db.Warn(fmt.Errorf("%w, and hipq waits: %.60s…%s", ErrHeld, strings.Join(strings.Fields(statement), " "), m.holders(ctx)))
		}
		select { // meanwhile others use the table
		case <-ctx.Done():
			return err
		case <-time.After(3 * time.Second):
		}
	}
}

// yield lets others write for a time, between statements that take long together. SQLite's migration goes on in a new transaction.
func (m migration) yield(ctx context.Context, d time.Duration) (err error) {
	if m.db.SQL.Engine == engine.SQLite.Engine {
		defer func() { err = cmp.Or(m.write(context.WithoutCancel(ctx), "BEGIN IMMEDIATE"), err) }()
		err = m.write(ctx, "COMMIT")
	}
	time.Sleep(d)
	return cmp.Or(err, ctx.Err())
}

// holders are the oldest transactions, one of which a statement waits for, if this user may know.
func (m migration) holders(ctx context.Context) (text string) {
	const query = "SELECT GROUP_CONCAT(IF(trx_mysql_thread_id = 0, 'an XA transaction without a connection (hipq doctor)'," +
		" CONCAT('connection ', trx_mysql_thread_id)), ' since ', trx_started ORDER BY trx_started SEPARATOR '; ')" +
		" FROM information_schema.innodb_trx WHERE trx_mysql_thread_id <> CONNECTION_ID()"
	var list sql.NullString
	if err := m.conn.GetContext(ctx, &list, query); err != nil || list.String == "" {
		return ""
	}
	return "; open transactions: " + list.String
}

// migrate brings one unit up to date, and returns the tables it changed.
func (m migration) migrate(ctx context.Context, u unit, found state) (changed []string, err error) {
	steps := m.db.steps(u)
	for v := found.lowest(); v < len(steps); v++ {
		if err := m.exec(ctx, steps[v]); err != nil {
			return nil, err
		}
		for _, t := range u.tables {
			// never lower a version that another run has raised
			if err := m.write(ctx, "UPDATE "+ownersTable+" SET version = ? WHERE table_name = ? AND version < ?", v+1, t, v+1); err != nil {
				return nil, fmt.Errorf("record the version of %s: %w", t, err)
			}
		}
	}
	mended, err := m.mendIndexes(ctx, u)
	if err == nil && u.order != OrderAny && u.order != found.order {
		mended, err = append(mended, u.tables[0]), m.reorder(ctx, u)
	}
	for _, t := range u.tables {
		if found.versions[t] < len(steps) || slices.Contains(mended, t) {
			changed = append(changed, t)
		}
	}
	return changed, err
}

// mendIndexes creates a unit's indexes that are missing or have other columns, and returns the tables it changed.
func (m migration) mendIndexes(ctx context.Context, u unit) (mended []string, err error) {
	there := map[string]bool{}
	err = m.read(ctx, func() error { return engine.ReadOn(ctx, m.conn, m.db.present([]unit{u}, there)) })
	if err != nil {
		return nil, fmt.Errorf("look for the indexes of %s: %w", u.tables[0], err)
	}
	for _, i := range m.db.indexes(u) {
		if there[i.create] {
			continue
		}
		statements := []string{i.create}
		if there[i.name] {
			statements = m.db.replaceIndex(i)
		}
		if err := m.exec(ctx, statements); err != nil {
			if engine.IsDuplicate(err) {
				err = fmt.Errorf("%w: only one job of the same type and key may be live; cancel or delete the others: %w", ErrConfig, err)
			}
			return nil, err
		}
		mended = append(mended, i.table)
	}
	return mended, nil
}
