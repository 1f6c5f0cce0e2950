// Package engine is hipq's access to a database as such: repeated transactions, batched statements, the meaning of errors,
// and the differences between the engines. Package schema knows hipq's tables; this package doesn't.
package engine

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/hipq/hipq/internal/texts"
)

// DB is a database. It is safe for concurrent use.
type DB struct {
	*sqlx.DB
	Dialect
	// Connector makes the connections; nil if they are an application's.
	Connector driver.Connector
	// lender is the application's pool if the connections are its own: see Borrow.
	lender *sql.DB
	// nodes are alternative servers; nil if there is only one server.
	nodes *nodes
	// writing holds the token of the transaction that may write to SQLite. SQLite polls a locked file, so without this queue
	// a busy writer would starve the others.
	writing chan struct{}
	// ended counts committed transactions.
	ended atomic.Int64
}

// MaxConns bounds the connections in use at once; 0 means no bound.
func (db *DB) MaxConns() int {
	if db.lender != nil {
		return db.lender.Stats().MaxOpenConnections
	}
	return db.Stats().MaxOpenConnections
}

// New returns the database to which a connector connects. It keeps statements prepared where preparing costs no round trip.
func New(connector driver.Connector, d Dialect) *DB {
	db := On(sql.OpenDB(preparing{connector, !d.together}), d)
	db.Connector = connector
	db.nodes, _ = connector.(*nodes)
	return db
}

// On returns the database of these connections.
func On(pool *sql.DB, d Dialect) *DB {
	return &DB{DB: sqlx.NewDb(pool, d.driver), Dialect: d, writing: make(chan struct{}, 1)}
}

// Each reads a query's rows into structs and calls f with each, one by one. It stops at f's first error.
func Each[T any](ctx context.Context, db *DB, query string, args []any, f func(T) error) error {
	rows, err := db.QueryxContext(ctx, query, args...)
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

// Reader is a source of rows: a DB or a Tx.
type Reader interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	// GetContext reads one row into a value or a struct. It fails with sql.ErrNoRows if there is none.
	GetContext(ctx context.Context, dest any, query string, args ...any) error
	// SelectContext reads all rows into a slice.
	SelectContext(ctx context.Context, dest any, query string, args ...any) error
}

// Clock reads the database's clock, in UTC. Only this clock decides, because hosts' clocks may be wrong.
func (db *DB) Clock(ctx context.Context) (time.Time, error) {
	var now string
	if err := db.GetContext(ctx, &now, "SELECT "+db.TimeText(db.NowSQL)); err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return ParseTime(now)
}

// ErrBehind means that a cluster node doesn't get what the others committed.
var ErrBehind = errors.New("the node is behind the others")

// CatchUp waits until the cluster node in use has applied what the others committed before. Later reads on any connection see
// it. Without a cluster it does nothing.
func (db *DB) CatchUp(ctx context.Context) error {
	if db.catchUp == "" {
		return nil
	}
	passes := func(err error) bool { return Retryable(err) || errors.Is(err, ErrBehind) }
	err := Patiently(ctx, passes, func() error {
		try, cancel := context.WithCancel(ctx)
		defer cancel()
		if db.nodes != nil {
			go db.nodes.watch(try, cancel)
		}
		_, err := db.ExecContext(try, db.catchUp)
		if db.nodes != nil && IsLockTimeout(err) {
			db.nodes.probe(ctx)
		}
		if IsLockTimeout(err) || err != nil && try.Err() != nil && ctx.Err() == nil {
			err = ErrBehind
		}
		return err
	})
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = ErrBehind
	}
	return texts.Wrap(err, "wait for what the other nodes have committed")
}

// Read runs queries outside a transaction, otherwise like Tx.Read.
func (db *DB) Read(ctx context.Context, queries ...Query) error {
	if db.lender != nil { // one connection for all of them
		conn, err := db.Connx(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		return ReadOn(ctx, conn, queries...)
	}
	return (&Tx{on: db.DB, together: db.together, packet: db.Packet}).Read(ctx, queries...)
}

// IsHeld says whether another transaction locks a row, if the engine can skip locked rows. A missing row also counts as held.
// It locks the row itself for a moment. Without the rights to lock, it returns false.
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

// layout is how both engines store a time: UTC, microseconds, fixed width. MySQL reads and prints a DATETIME(6) like this.
// SQLite stores text, and the fixed width makes it sort by time.
const layout = "2006-01-02 15:04:05.000000"

// Time is a time.Time as the tables store it. The zero Time is NULL.
type Time struct{ time.Time }

// At wraps t for binding.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Microsecond)} }

// Text is t as the tables store it.
func Text(t time.Time) string { return t.UTC().Format(layout) }

// Value implements driver.Valuer.
func (t Time) Value() (driver.Value, error) {
	if t.IsZero() {
		return nil, nil
	}
	return Text(t.Time), nil
}

// Scan implements sql.Scanner. An unreadable time is zero, like NULL, because one damaged row must not hide the others.
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

// ParseTime parses a time from a table, with any fraction: plain SQL may insert one without.
func ParseTime(text string) (time.Time, error) {
	t, err := time.Parse("2006-01-02 15:04:05.999999999", text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a time", text)
	}
	return t, nil
}
