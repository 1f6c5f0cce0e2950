package engine

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
)

// Tx is a transaction with the time of the database at its beginning (or since SetClock), which is the time of all that
// happens in it.
//
// A statement whose result isn't read is for Write: it goes to the server together with the next one that is waited for,
// or with the commit, so that a transaction costs few round trips. Statements are executed in the order of their calls.
type Tx struct {
	Now time.Time
	// MayBeDone says that an earlier try of the transaction may have been committed: its COMMIT was not answered.
	MayBeDone bool
	// SkipLocked is the clause that locks the rows that are read, passing over those that another transaction holds: on a
	// Galera cluster only once the transaction has waited for such a row without success, and is repeated.
	SkipLocked string
	on         executor
	now        string
	// keeps says that the connection keeps its statements prepared.
	keeps bool
	// together says that the server takes several statements at once.
	together bool
	// idStep is how far the ids of one multi-row insert lie apart on the connection; 0 before it was asked for.
	idStep int64
	// written is what waits to be sent: statements, with their parameters written into them.
	written []byte
}

// executor is what a transaction runs on: a connection of hipq's own, or the transaction of an application.
type executor interface {
	sqlx.QueryerContext
	sqlx.ExecerContext
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// writtenMax is how many bytes of statements wait to be sent, at most: well under the smallest
// max_allowed_packet that a server is likely to have.
const writtenMax = 4 << 20

// buffers are for what transactions write: most write as much as those before them.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// bufferMax is the size of the largest buffer that is kept.
const bufferMax = 256 << 10

// Join makes the application's own transaction one that hipq can work in, without the time until SetClock. Committing, and
// repeating, stay with the application.
func (db *DB) Join(tx *sql.Tx) *Tx {
	return &Tx{SkipLocked: db.skipLocked, on: &sqlx.Tx{Tx: tx, Mapper: db.mapped.Mapper}, now: db.NowSQL}
}

// SetClock makes the time of a transaction that of now, by the database's clock: for one that had to wait for others before
// anything happened in it.
func (db *DB) SetClock(ctx context.Context, tx *Tx) error {
	if err := tx.Read(ctx, Values(db.ClockOf(tx))); err != nil {
		return fmt.Errorf("read the database's clock: %w", err)
	}
	return nil
}

// Stamp is the transaction's time in a statement: an expression, and its parameters. In one without a clock it is that of
// the statement.
func (tx *Tx) Stamp() (expression string, args []any) {
	if tx.Now.IsZero() {
		return tx.now, nil
	}
	return "?", []any{Text(tx.Now)}
}

// ClockOf is the database's clock, which becomes the transaction's time.
func (db *DB) ClockOf(tx *Tx) Value { return Value{SQL: db.TimeText(db.NowSQL), Into: (*clock)(tx)} }

type clock Tx

// Scan implements sql.Scanner.
func (c *clock) Scan(src any) (err error) {
	var now sql.NullString
	if err = now.Scan(src); err == nil {
		c.Now, err = ParseTime(now.String)
	}
	return err
}

// Value is an expression, and where its value goes.
type Value struct {
	SQL  string
	Args []any
	Into any
}

// Values is one query for several values: the server sends the answer to each query by itself.
func Values(list ...Value) Query {
	var of []string
	var args, into []any
	for _, v := range list {
		of, args, into = append(of, v.SQL), append(args, v.Args...), append(into, v.Into)
	}
	return Query{SQL: "SELECT " + strings.Join(of, ", "), Args: args, Scan: Row(into...)}
}

// Query is a query and what reads its rows: all of them, by Next and Scan. Without Scan it is a statement, which has none.
type Query struct {
	SQL  string
	Args []any
	Scan func(*sql.Rows) error
}

// Row reads a row, if there is one.
func Row(into ...any) func(*sql.Rows) error {
	return EachRow(func(row *sql.Rows) error { return row.Scan(into...) })
}

// EachRow calls read with each row, until one gives an error.
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

// Pairs notes rows of a name and its value, as SHOW VARIABLES gives them, by the name in lower case.
func Pairs(into map[string]string) func(*sql.Rows) error {
	return EachRow(func(row *sql.Rows) error {
		var name, value string
		err := row.Scan(&name, &value)
		into[strings.ToLower(name)] = value
		return err
	})
}

// Read runs queries, one after the other: in one round trip where the server takes several statements at once.
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
	for _, q := range queries {
		if err := tx.append(q.SQL, q.Args); err != nil {
			return err
		}
	}
	rows, err := tx.on.QueryContext(ctx, tx.take())
	if err != nil {
		return err
	}
	return scan(rows, slices.DeleteFunc(queries, func(q Query) bool { return q.Scan == nil })...)
}

// querier is what ReadOn needs of a connection.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// ReadOn runs queries on a connection, each in a round trip of its own.
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

// Write executes a statement whose result isn't read, with the next statement or the commit at the latest. An error may
// come from there.
func (tx *Tx) Write(ctx context.Context, statement string, args ...any) error {
	if !tx.together {
		_, err := tx.on.ExecContext(ctx, statement, args...)
		return err
	}
	size := len(statement)
	for _, a := range args {
		if text, ok := a.(string); ok {
			size += len(text)
		}
	}
	if len(tx.written)+size > writtenMax {
		if err := tx.Flush(ctx); err != nil {
			return err
		}
	}
	return tx.append(statement, args)
}

// append puts a statement behind those that wait to be sent.
func (tx *Tx) append(statement string, args []any) error {
	b := tx.written
	if len(b) > 0 {
		b = append(b, ';')
	}
	b, err := inline(b, statement, args)
	if err == nil {
		tx.written = b
	}
	return err
}

// Flush sends what has been written, and waits for it: before something that others would have to wait for with it.
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

// with puts what waits to be sent before a statement. One that can't be written out is left to the driver, which refuses it.
func (tx *Tx) with(statement string, args []any) (string, []any) {
	if !tx.together {
		return statement, args
	}
	if err := tx.append(statement, args); err != nil {
		return statement, args
	}
	return tx.take(), nil
}

// ExecContext executes a statement, after those that wait to be sent.
func (tx *Tx) ExecContext(ctx context.Context, statement string, args ...any) (sql.Result, error) {
	statement, args = tx.with(statement, args)
	return tx.on.ExecContext(ctx, statement, args...)
}

// QueryContext implements Reader.
func (tx *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	query, args = tx.with(query, args)
	return tx.on.QueryContext(ctx, query, args...)
}

// QueryRowContext implements Reader.
func (tx *Tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	query, args = tx.with(query, args)
	return tx.on.QueryRowContext(ctx, query, args...)
}

// SelectContext implements Reader.
func (tx *Tx) SelectContext(ctx context.Context, dest any, query string, args ...any) error {
	query, args = tx.with(query, args)
	return sqlx.SelectContext(ctx, tx.on, dest, query, args...)
}

// GetContext implements Reader.
func (tx *Tx) GetContext(ctx context.Context, dest any, query string, args ...any) error {
	query, args = tx.with(query, args)
	return sqlx.GetContext(ctx, tx.on, dest, query, args...)
}
