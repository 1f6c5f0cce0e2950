package engine

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Session is what hipq sets on a connection that it borrows, and puts back before it returns the connection.
type Session struct {
	// Save reads, as one row, what Set changes: each column is called like its variable.
	Save, Set string
	// Restore makes the statement that puts back what Save has read.
	Restore func(names []string, values []driver.Value) (string, error)
	// Inline says that parameters are written into the statements, because otherwise each statement with parameters is prepared
	// first: that is two round trips more, and the rows come in another protocol.
	Inline bool
}

// Borrow is the database of an application's own connections, whatever their options and settings. It has none itself: each
// transaction and each read takes one from the application's pool, sets it up, and gives it back as it was.
func Borrow(pool *sql.DB, d Dialect, s Session) *DB {
	db := On(sql.OpenDB(borrowing{pool, s}), d.Apart())
	db.SetMaxIdleConns(-1)
	db.borrowed = true
	return db
}

// borrowing makes connections of those of a pool.
type borrowing struct {
	pool    *sql.DB
	session Session
}

// Driver implements driver.Connector.
func (b borrowing) Driver() driver.Driver { return b.pool.Driver() }

// ErrNotPlain means that an application's connections are not those of a driver that hipq knows.
var ErrNotPlain = errors.New("its connections are not the driver's own")

// Connect takes a connection from the pool. Who holds a sql.Conn has the driver's connection for as long as Raw runs: so that
// runs until the connection is given back.
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
		if !errors.Is(err, driver.ErrBadConn) { // which has closed it
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

// borrowedConn is a connection that hipq has from an application's pool.
type borrowedConn struct {
	*preparedConn
	session Session
	// restore is the statement that puts its settings back.
	restore string
	// open says that a transaction may be open that could not be rolled back.
	open bool
	// verdict gives it back: with driver.ErrBadConn the pool closes it. back gets what the pool says.
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
	// now: Close reads on, into the same bytes
	c.restore, err = c.session.Restore(rows.Columns(), values)
	if err = errors.Join(err, rows.Close()); err != nil {
		return fmt.Errorf("read the session's settings: %w", err)
	}
	if _, err := c.preparedConn.ExecContext(ctx, c.session.Set, nil); err != nil {
		return fmt.Errorf("set up the session: %w", err)
	}
	return nil
}

// restoreWithin is how long a server may take to put a session's settings back.
const restoreWithin = 5 * time.Second

// Close implements driver.Conn: it gives the connection back to the pool, as it was; what can't be put back is closed.
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

// giveBack gives the connection back. The pool has it when this returns.
func (c *borrowedConn) giveBack(verdict error) error {
	c.verdict <- verdict
	if err := <-c.back; !errors.Is(err, driver.ErrBadConn) {
		return err
	}
	return nil
}

// ResetSession implements driver.SessionResetter. The pool has done so.
func (c *borrowedConn) ResetSession(context.Context) error { return nil }

// ExecContext implements driver.ExecerContext.
func (c *borrowedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	query, args, err := c.inline(query, args)
	if err != nil {
		return nil, err
	}
	res, err := c.preparedConn.ExecContext(ctx, query, args)
	// that no transaction is open is an answer too
	c.open = c.open || query == "ROLLBACK" && err != nil && !IsAnswer(err)
	return res, err
}

// QueryContext implements driver.QueryerContext.
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
	values := make([]any, len(args))
	for i, a := range args {
		values[i] = a.Value
	}
	text, err := inline(nil, query, values)
	return string(text), nil, err
}

type plainRows struct{ driver.Rows }

// Columns has no tables before the names, as columnsWithAlias would have it.
func (r plainRows) Columns() []string {
	names := r.Rows.Columns()
	for i, name := range names {
		names[i] = name[strings.LastIndex(name, ".")+1:]
	}
	return names
}

// Next has times as text, as the tables have them, whatever zone parseTime and loc have taken them for.
func (r plainRows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	for i, v := range dest {
		if t, ok := v.(time.Time); ok {
			dest[i] = t.Format(layout)
		}
	}
	return err
}
