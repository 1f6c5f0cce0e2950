package schema

import (
	"context"
	"database/sql/driver"
)

// preparing makes connections that keep statements prepared, for to parse one anew each time may cost more than to execute
// it: all of them, or (where that costs a round trip) those of a context that keep made.
type preparing struct {
	driver.Connector
	all bool
}

// Connect implements driver.Connector.
func (c preparing) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &preparedConn{fullConn: conn.(fullConn), all: c.all, prepared: map[string]driver.Stmt{}}, nil
}

type keepKey struct{}

// keep makes a context whose statements are kept prepared.
func keep(ctx context.Context) context.Context { return context.WithValue(ctx, keepKey{}, true) }

func (c *preparedConn) keeps(ctx context.Context) bool { return c.all || ctx.Value(keepKey{}) != nil }

// fullConn is what the drivers' connections can do.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// preparedConn is a connection that keeps its statements. Like every driver.Conn it is used by one goroutine at a time.
type preparedConn struct {
	fullConn
	all      bool
	prepared map[string]driver.Stmt
}

// CheckNamedValue implements driver.NamedValueChecker.
func (c *preparedConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.fullConn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// preparedMax is how many statements a connection keeps.
const preparedMax = 200

// take gives the statement for a query, which nobody else uses until it is kept again: rows that are still being read
// need it to themselves.
func (c *preparedConn) take(ctx context.Context, query string) (driver.Stmt, error) {
	if s, ok := c.prepared[query]; ok {
		delete(c.prepared, query)
		return s, nil
	}
	return c.PrepareContext(ctx, query)
}

func (c *preparedConn) keep(query string, s driver.Stmt) error {
	if _, ok := c.prepared[query]; ok {
		return s.Close()
	}
	if len(c.prepared) >= preparedMax {
		for other, old := range c.prepared { // any will do
			delete(c.prepared, other)
			if err := old.Close(); err != nil {
				return err
			}
			break
		}
	}
	c.prepared[query] = s
	return nil
}

// ExecContext implements driver.ExecerContext.
func (c *preparedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if !c.keeps(ctx) {
		return c.fullConn.ExecContext(ctx, query, args)
	}
	s, err := c.take(ctx, query)
	if err != nil {
		return nil, err
	}
	res, err := s.(driver.StmtExecContext).ExecContext(ctx, args)
	if err != nil {
		_ = s.Close() // the error that matters is the first
		return nil, err
	}
	return res, c.keep(query, s)
}

// QueryContext implements driver.QueryerContext.
func (c *preparedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if !c.keeps(ctx) {
		return c.fullConn.QueryContext(ctx, query, args)
	}
	s, err := c.take(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := s.(driver.StmtQueryContext).QueryContext(ctx, args)
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return &keptRows{rows, func(failed error) error {
		if failed != nil {
			_ = s.Close()
			return failed
		}
		return c.keep(query, s)
	}}, nil
}

// Close implements driver.Conn.
func (c *preparedConn) Close() error {
	for _, s := range c.prepared {
		_ = s.Close() // the connection's own Close has the error that matters
	}
	return c.fullConn.Close()
}

// keptRows give their statement back when they are closed.
type keptRows struct {
	driver.Rows
	// giveBack gets the error of the rows; nil once it was called.
	giveBack func(failed error) error
}

// Close implements driver.Rows.
func (r *keptRows) Close() error {
	err := r.Rows.Close()
	if r.giveBack == nil {
		return err
	}
	giveBack := r.giveBack
	r.giveBack = nil
	return giveBack(err)
}
