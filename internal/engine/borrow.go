package engine

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
)

// Session is what hipq sets on a borrowed connection, and restores before it returns the connection.
type Session struct {
	// Save reads, as one row, what Set changes. Each column has its variable's name.
	Save, Set string
	// Restore returns the statement that restores what Save read.
	Restore func(names []string, values []driver.Value) (string, error)
	// Inline writes parameters into the statements. Otherwise each statement with parameters is prepared first, which costs
	// two more round trips and another row protocol.
	Inline bool
}

// Borrow returns a database on an application's own connections, whatever their options. It keeps none: each transaction and
// each read takes one from the application's pool, sets it up, and returns it as it was.
func Borrow(pool *sql.DB, d Dialect, s Session) *DB {
	db := On(sql.OpenDB(borrowing{pool, s}), d.Apart())
	db.SetMaxIdleConns(-1)
	db.lender = pool
	return db
}

type borrowing struct {
	pool    *sql.DB
	session Session
}

func (b borrowing) Driver() driver.Driver { return b.pool.Driver() }

// ErrNotPlain means that an application's connections aren't those of a driver that hipq knows.
var ErrNotPlain = errors.New("its connections are not the driver's own")

// Connect takes a connection from the pool. A sql.Conn exposes the driver's connection only while Raw runs, so Raw runs until
// the connection is returned.
func (b borrowing) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := b.pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	c := &borrowedConn{session: b.session, verdict: make(chan error), back: make(chan error, 1)}
	got := make(chan any)
	go func() {
		err := conn.Raw(func(raw any) error {
			got <- raw
			return <-c.verdict
		})
		if !errors.Is(err, driver.ErrBadConn) { // the pool has closed it
			err = errors.Join(err, conn.Close())
		}
		c.back <- err
	}()
	select {
	case err := <-c.back:
		return nil, err
	case raw := <-got:
		plain, ok := raw.(fullConn)
		if !ok {
			return nil, errors.Join(fmt.Errorf("%w, but %T", ErrNotPlain, raw), c.giveBack(nil))
		}
		c.preparedConn = &preparedConn{fullConn: plain, prepared: map[string]driver.Stmt{}}
		if err := c.setUp(ctx); err != nil {
			_ = c.giveBack(driver.ErrBadConn)
			return nil, err
		}
		return c, nil
	}
}

type borrowedConn struct {
	*preparedConn
	session Session
	restore string
	// open says that a rollback failed, so a transaction may be open.
	open bool
	// verdict returns the connection; driver.ErrBadConn makes the pool close it. back gets the pool's reply.
	verdict, back chan error
}

func (c *borrowedConn) setUp(ctx context.Context) error {
	rows, err := c.preparedConn.QueryContext(ctx, c.session.Save, nil)
	if err != nil {
		return err
	}
	values := make([]driver.Value, len(rows.Columns()))
	if err := rows.Next(values); err != nil {
		return errors.Join(fmt.Errorf("read the session's settings: %w", err), rows.Close())
	}
	// Now, because Close reads on into the same bytes.
	c.restore, err = c.session.Restore(rows.Columns(), values)
	if err = errors.Join(err, rows.Close()); err != nil {
		return fmt.Errorf("read the session's settings: %w", err)
	}
	_, err = c.preparedConn.ExecContext(ctx, c.session.Set, nil)
	return texts.Wrap(err, "set up the session")
}

const restoreWithin = 5 * time.Second

// Close implements driver.Conn. It returns the connection to the pool as it was, or closes it if its settings can't be
// restored.
func (c *borrowedConn) Close() error {
	verdict := driver.ErrBadConn
	if !c.open && c.IsValid() {
		ctx, cancel := context.WithTimeout(context.Background(), restoreWithin)
		defer cancel()
		if _, err := c.preparedConn.ExecContext(ctx, c.restore, nil); err == nil {
			verdict = nil
		}
	}
	return c.giveBack(verdict)
}

// giveBack returns the connection. The pool has it when giveBack returns.
func (c *borrowedConn) giveBack(verdict error) error {
	c.verdict <- verdict
	if err := <-c.back; !errors.Is(err, driver.ErrBadConn) {
		return err
	}
	return nil
}

// ResetSession implements driver.SessionResetter. The pool has already reset the connection.
func (c *borrowedConn) ResetSession(context.Context) error { return nil }

func (c *borrowedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	query, args, err := c.inline(query, args)
	if err != nil {
		return nil, err
	}
	res, err := c.preparedConn.ExecContext(ctx, query, args)
	// The error that no transaction is open is an answer too.
	c.open = c.open || query == "ROLLBACK" && err != nil && !IsAnswer(err)
	return res, err
}

func (c *borrowedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	query, args, err := c.inline(query, args)
	if err != nil {
		return nil, err
	}
	rows, err := c.preparedConn.QueryContext(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return plainRows{rows}, nil
}

func (c *borrowedConn) inline(query string, args []driver.NamedValue) (string, []driver.NamedValue, error) {
	if !c.session.Inline || len(args) == 0 {
		return query, args, nil
	}
	text, err := inline(nil, query, texts.Map(args, func(a driver.NamedValue) any { return a.Value }))
	return string(text), nil, err
}

type plainRows struct{ driver.Rows }

// Columns removes the table names that columnsWithAlias adds.
func (r plainRows) Columns() []string {
	return texts.Map(r.Rows.Columns(), func(name string) string { return name[strings.LastIndex(name, ".")+1:] })
}

// Next returns times as text, as the tables store them, whatever zone parseTime and loc assumed.
func (r plainRows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	for i, v := range dest {
		if t, ok := v.(time.Time); ok {
			dest[i] = t.Format(layout)
		}
	}
	return err
}
