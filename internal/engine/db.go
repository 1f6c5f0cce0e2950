// Package engine is what hipq needs of a database as such: transactions that are repeated, statements that go together, what
// the engines' errors mean, and what differs between the engines. It knows nothing of hipq's tables: see the package schema.
package engine

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
)

// DB is a database. It is safe for concurrent use.
type DB struct {
	*sql.DB
	Dialect
	// mapped is the same for those who read rows into structs.
	mapped *sqlx.DB
	// borrowed says that its connections are an application's: see Borrow.
	borrowed bool
	// nodes are those of which one serves; nil if there is but one server.
	nodes *nodes
	// writing holds the token of the one transaction that may write to SQLite. SQLite polls a locked file: if this DB's transactions did not
	// queue here, a busy writer would starve the others.
	writing chan struct{}
}

// New is the database to which a driver connects. It keeps all statements prepared where that costs no round trip.
func New(connector driver.Connector, d Dialect) *DB {
	db := On(sql.OpenDB(preparing{connector, !d.together}), d)
	db.nodes, _ = connector.(*nodes)
	return db
}

// On is the database of these connections.
func On(pool *sql.DB, d Dialect) *DB {
	return &DB{DB: pool, Dialect: d, mapped: sqlx.NewDb(pool, d.driver), writing: make(chan struct{}, 1)}
}

// GetContext reads one row, into a value or a struct: sql.ErrNoRows if there is none.
func (db *DB) GetContext(ctx context.Context, dest any, query string, args ...any) error {
	return db.mapped.GetContext(ctx, dest, query, args...)
}

// SelectContext reads all rows into a slice.
func (db *DB) SelectContext(ctx context.Context, dest any, query string, args ...any) error {
	return db.mapped.SelectContext(ctx, dest, query, args...)
}

// Each reads a query's rows into structs, one after the other, and calls f with each. It ends with f's first error.
func Each[T any](ctx context.Context, db *DB, query string, args []any, f func(T) error) error {
	rows, err := db.mapped.QueryxContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var row T
		if err := rows.StructScan(&row); err != nil {
			return err
		}
		if err := f(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Reader is what rows are read from: a DB, or a Tx.
type Reader interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	// GetContext reads one row, into a value or a struct: sql.ErrNoRows if there is none.
	GetContext(ctx context.Context, dest any, query string, args ...any) error
	// SelectContext reads all rows into a slice.
	SelectContext(ctx context.Context, dest any, query string, args ...any) error
}

// Clock reads the database's clock, in UTC. It is the only clock that decides: hosts' clocks may be wrong.
func (db *DB) Clock(ctx context.Context) (time.Time, error) {
	var now string
	if err := db.GetContext(ctx, &now, "SELECT "+db.TimeText(db.NowSQL)); err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return ParseTime(now)
}

// CatchUp waits until the node of a cluster that serves has what the others had committed before: who reads afterwards, on whatever
// connection, sees that. Elsewhere it does nothing.
func (db *DB) CatchUp(ctx context.Context) error {
	if db.catchUp == "" {
		return nil
	}
	if _, err := db.ExecContext(ctx, db.catchUp); err != nil {
		return fmt.Errorf("wait for what the other nodes have committed: %w", err)
	}
	return nil
}

// Read runs queries outside of a transaction, otherwise as Tx.Read does.
func (db *DB) Read(ctx context.Context, queries ...Query) error {
	if db.borrowed { // one connection for all of them
		conn, err := db.mapped.Connx(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		return ReadOn(ctx, conn, queries...)
	}
	return (&Tx{on: db.mapped, together: db.together}).Read(ctx, queries...)
}

// IsHeld says whether another transaction holds a row, where the engine locks rows and passes over those that are locked. That
// there is no such row any more looks alike. It locks the row for a moment itself. Who may not, is told nothing.
func (db *DB) IsHeld(ctx context.Context, table string, id int64) (bool, error) {
	if db.skipLocked == "" || db.waitsFirst {
		return false, nil
	}
	held := false
	err := db.TxUnclocked(ctx, func(tx *Tx) error {
		var found []int64
		err := tx.SelectContext(ctx, &found, "SELECT id FROM "+table+" "+db.ByID+" WHERE id = ? "+db.skipLocked, id)
		held = err == nil && len(found) == 0
		return err
	})
	if kind, _ := Diagnose(err); kind == Misconfigured || isReadOnly(err) {
		return false, nil
	}
	return held, err
}

// layout is how both engines hold a time: UTC, microseconds, always the same width. MySQL takes and gives it for a
// DATETIME(6); in SQLite, where it is text, a fixed width is what makes text order the order of time.
const layout = "2006-01-02 15:04:05.000000"

// Time is a time.Time as the tables hold it. The zero Time is NULL.
type Time struct{ time.Time }

// At wraps t for binding.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Microsecond)} }

// Text is t as the tables hold it.
func Text(t time.Time) string { return t.UTC().Format(layout) }

// Value implements driver.Valuer.
func (t Time) Value() (driver.Value, error) {
	if t.IsZero() {
		return nil, nil
	}
	return Text(t.Time), nil
}

// Scan implements sql.Scanner. What can't be read is the zero Time, as NULL is: one row that somebody has spoilt must not
// hide the others.
func (t *Time) Scan(src any) error {
	t.Time = time.Time{}
	switch v := src.(type) {
	case []byte:
		t.Time, _ = ParseTime(string(v))
	case string:
		t.Time, _ = ParseTime(v)
	}
	return nil
}

// ParseTime reads a time as the tables hold it, with any fraction: a row inserted by plain SQL may have none.
func ParseTime(text string) (time.Time, error) {
	t, err := time.Parse("2006-01-02 15:04:05.999999999", text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a time", text)
	}
	return t, nil
}
