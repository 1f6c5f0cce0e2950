package engine

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/hipq/hipq/internal/texts"
)

// Tx is a transaction. All that happens in it has the database's time at its beginning, or since SetClock.
//
// Use Write for statements whose results you don't need: it sends each with the next statement or the commit, which saves
// round trips. Statements run in the order of the calls.
type Tx struct {
	Now time.Time
	// MayBeDone says that an earlier try of the transaction may have been committed: its COMMIT got no reply.
	MayBeDone bool
	// Kept are the errors of earlier tries in which a foreign key or a trigger kept a row: delete one by one, with DeleteEach.
	Kept []error
	// SkipLocked is the clause that locks the rows read and skips rows that another transaction locks. On a Galera cluster it
	// skips only when the transaction is repeated after a lock timeout.
	SkipLocked string
	on         executor
	now        string
	// keeps says that the connection keeps its statements prepared.
	keeps bool
	// together says that the server accepts several statements at once.
	together bool
	// foreign says that the session is an application's, on a server, so it may have any character set.
	foreign bool
	// packet is Dialect.Packet.
	packet int
	// idStep is the distance between the ids of one multi-row insert on the connection; 0 until it is read.
	idStep int64
	// written holds statements to send, with their parameters inlined.
	written []byte
}

// executor runs a transaction's statements: one of hipq's own connections, or an application's transaction.
type executor interface {
	sqlx.QueryerContext
	sqlx.ExecerContext
}

const writtenMax = 4 << 20

// buffers hold what transactions write: most write as much as the ones before.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

const bufferMax = 256 << 10

// Join lets hipq work in an application's transaction, without its time until SetClock. The application commits and repeats
// it.
func (db *DB) Join(tx *sql.Tx) *Tx {
	return &Tx{SkipLocked: db.skipLocked, on: &sqlx.Tx{Tx: tx, Mapper: db.Mapper}, now: db.NowSQL, foreign: db.Engine == MySQL.Engine}
}

// SetClock sets the transaction's time to now, by the database's clock: for a transaction that first waited for others.
func (db *DB) SetClock(ctx context.Context, tx *Tx) error {
	return texts.Wrap(tx.Read(ctx, Values(db.ClockOf(tx))), "read the database's clock")
}

// Stamp is the transaction's time as an expression and its parameters. Without a clock it is the statement's time.
func (tx *Tx) Stamp() (expression string, args []any) {
	if tx.Now.IsZero() {
		return tx.now, nil
	}
	return "?", []any{Text(tx.Now)}
}

// ClockOf reads the database's clock and makes it the transaction's time.
func (db *DB) ClockOf(tx *Tx) Value { return Value{SQL: db.TimeText(db.NowSQL), Into: (*clock)(tx)} }

type clock Tx

func (c *clock) Scan(src any) (err error) {
	var now sql.NullString
	if err = now.Scan(src); err == nil {
		c.Now, err = ParseTime(now.String)
	}
	return err
}

// Value is an expression and the destination of its value.
type Value struct {
	SQL  string
	Args []any
	Into any
}

// Values combines several values into one query, because the server replies to each query separately.
func Values(list ...Value) Query {
	var of []string
	var args, into []any
	for _, v := range list {
		of, args, into = append(of, v.SQL), append(args, v.Args...), append(into, v.Into)
	}
	return Query{SQL: "SELECT " + strings.Join(of, ", "), Args: args, Scan: Row(into...)}
}

// Query is a query and the function that reads all its rows. A statement without rows has no Scan.
type Query struct {
	SQL  string
	Args []any
	Scan func(*sql.Rows) error
}

// Row reads one row, if there is any.
func Row(into ...any) func(*sql.Rows) error { return Into(func() {}, into...) }

// Into reads each row into the variables, and then calls f.
func Into(f func(), into ...any) func(*sql.Rows) error {
	return EachRow(func(row *sql.Rows) error {
		err := row.Scan(into...)
		if err == nil {
			f()
		}
		return err
	})
}

// EachRow calls read with each row, until it fails.
func EachRow(read func(row *sql.Rows) error) func(*sql.Rows) error {
	return func(rows *sql.Rows) error {
		for rows.Next() {
			if err := read(rows); err != nil {
				return err
			}
		}
		return nil
	}
}

// Pairs collects rows of name and value, such as those of SHOW VARIABLES, by lower-case name.
func Pairs(into map[string]string) func(*sql.Rows) error {
	return EachRow(func(row *sql.Rows) error {
		var name, value string
		err := row.Scan(&name, &value)
		into[strings.ToLower(name)] = value
		return err
	})
}

// Read runs queries in order, in one round trip if the server accepts several statements at once.
func (tx *Tx) Read(ctx context.Context, queries ...Query) error {
	if !tx.together {
		for _, q := range queries {
			var err error
			if q.Scan == nil {
				err = tx.Write(ctx, q.SQL, q.Args...)
			} else {
				err = ReadOn(ctx, tx, q)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := tx.append(ctx, queries...); err != nil {
		return err
	}
	rows, err := tx.on.QueryContext(ctx, tx.take())
	if err != nil {
		return err
	}
	return scan(rows, slices.DeleteFunc(queries, func(q Query) bool { return q.Scan == nil })...)
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// ReadOn runs queries on a connection, each in its own round trip.
func ReadOn(ctx context.Context, conn querier, queries ...Query) error {
	for _, q := range queries {
		rows, err := conn.QueryContext(ctx, q.SQL, q.Args...)
		if err == nil {
			err = scan(rows, q)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func scan(rows *sql.Rows, queries ...Query) error {
	defer func() { _ = rows.Close() }()
	for i, q := range queries {
		if i > 0 && !rows.NextResultSet() {
			return cmp.Or(rows.Err(), io.ErrUnexpectedEOF)
		}
		if err := q.Scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Write executes a statement whose result isn't needed, at the latest with the next statement or the commit. Its error may
// surface only there.
func (tx *Tx) Write(ctx context.Context, statement string, args ...any) error {
	if !tx.together {
		_, err := tx.ExecContext(ctx, statement, args...)
		return err
	}
	return tx.append(ctx, Query{SQL: statement, Args: args})
}

// append adds statements to those that wait to be sent, which it first sends if all together are too large.
func (tx *Tx) append(ctx context.Context, statements ...Query) (err error) {
	b, before := tx.written, len(tx.written)
	for _, s := range statements {
		if len(b) > 0 {
			b = append(b, ';')
		}
		if b, err = inline(b, s.SQL, s.Args); err != nil {
			return err
		}
	}
	if err = tx.fits(len(b) - before); err == nil && before > 0 && len(b) > cmp.Or(min(writtenMax, tx.packet), writtenMax) {
		_, err = tx.on.ExecContext(ctx, string(b[:before]))
		b = append(b[:0], b[before+1:]...)
	}
	if err == nil {
		tx.written = b
	}
	return err
}

// fits returns an ErrTooLarge if the server takes no statement of this size.
func (tx *Tx) fits(size int) error {
	if tx.packet > 0 && size > tx.packet {
		return fmt.Errorf("%w: it has %d bytes, and the server's max_allowed_packet is %d", ErrTooLarge, size, tx.packet)
	}
	return nil
}

// Flush sends the pending statements and waits for them. Call it before a step that would block others for longer.
func (tx *Tx) Flush(ctx context.Context) error {
	if len(tx.written) == 0 {
		return nil
	}
	_, err := tx.on.ExecContext(ctx, tx.take())
	return err
}

func (tx *Tx) take() string {
	text := string(tx.written)
	tx.written = tx.written[:0]
	return text
}

// with prepends the pending statements. The driver gets, and refuses, a statement whose parameters can't be inlined.
func (tx *Tx) with(ctx context.Context, statement string, args []any) (string, []any, error) {
	if tx.foreign {
		statement, args = inASCII(statement, args)
		return statement, args, nil
	}
	if !tx.together {
		return statement, args, tx.fitsInlined(statement, args)
	}
	err := tx.append(ctx, Query{SQL: statement, Args: args})
	if errors.Is(err, driver.ErrSkip) {
		return statement, args, nil
	}
	return tx.take(), nil, err
}

// fitsInlined is fits for a statement that the driver will send with its parameters inlined.
func (tx *Tx) fitsInlined(statement string, args []any) error {
	size := len(statement)
	for _, a := range args {
		if text, ok := a.(string); ok {
			size += 2 * len(text)
		}
	}
	if tx.fits(size) == nil {
		return nil
	}
	text, _ := inline(nil, statement, args) // otherwise the driver refuses it
	return tx.fits(len(text))
}

// ExecContext executes a statement after the pending ones.
func (tx *Tx) ExecContext(ctx context.Context, statement string, args ...any) (sql.Result, error) {
	statement, args, err := tx.with(ctx, statement, args)
	if err != nil {
		return nil, err
	}
	return tx.on.ExecContext(ctx, statement, args...)
}

// QueryContext implements Reader.
func (tx *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	query, args, err := tx.with(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return tx.on.QueryContext(ctx, query, args...)
}

// SelectContext implements Reader.
func (tx *Tx) SelectContext(ctx context.Context, dest any, query string, args ...any) error {
	query, args, err := tx.with(ctx, query, args)
	if err != nil {
		return err
	}
	return sqlx.SelectContext(ctx, tx.on, dest, query, args...)
}

// GetContext implements Reader.
func (tx *Tx) GetContext(ctx context.Context, dest any, query string, args ...any) error {
	query, args, err := tx.with(ctx, query, args)
	if err != nil {
		return err
	}
	return sqlx.GetContext(ctx, tx.on, dest, query, args...)
}
