package engine

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
)

// preparing makes connections that keep their statements prepared if keeps is set. That pays where preparing costs no round
// trip, and parsing may cost more than execution.
type preparing struct {
	driver.Connector
	keeps bool
}

func (c preparing) Connect(ctx context.Context) (_ driver.Conn, err error) {
	made := &preparedConn{keeps: c.keeps, prepared: map[string]driver.Stmt{}}
	defer made.watched(&err)
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	made.fullConn = conn.(fullConn)
	return made, nil
}

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

// preparedConn is a connection that keeps its statements. Like every driver.Conn, it serves one goroutine at a time.
type preparedConn struct {
	fullConn
	keeps    bool
	prepared map[string]driver.Stmt
	// spent says that the connection must not be used again. The driver panicked in the middle of something, or the server is
	// read-only or a node that lost its cluster. After a failover, a new connection may reach another server.
	spent bool
}

// ErrDriver means that the driver couldn't parse what the database, or another program at its address, replied.
var ErrDriver = errors.New("the database's answer makes no sense")

// watched turns a panic of the driver into an error, because a server's reply must not end the program. It also checks
// whether the connection is spent.
func (c *preparedConn) watched(err *error) {
	if value := recover(); value != nil {
		c.spent = true
		*err = fmt.Errorf("%w: %v", ErrDriver, value)
	}
	c.spent = c.spent || isReadOnly(*err) || isNoNode(*err)
}

func (c *preparedConn) IsValid() bool { return !c.spent && c.fullConn.IsValid() }

func (c *preparedConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.fullConn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

const preparedMax = 200

// take returns the query's statement for exclusive use until keep, because rows that are still being read occupy it.
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

func (c *preparedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (_ driver.Result, err error) {
	defer c.watched(&err)
	if !c.keeps {
		return c.fullConn.ExecContext(ctx, query, args)
	}
	s, err := c.take(ctx, query)
	if err != nil {
		return nil, err
	}
	res, err := s.(driver.StmtExecContext).ExecContext(ctx, args)
	if err != nil {
		_ = s.Close() // only the first error matters
		return nil, err
	}
	return res, c.keep(query, s)
}

func (c *preparedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (_ driver.Rows, err error) {
	defer c.watched(&err)
	if !c.keeps {
		rows, err := c.fullConn.QueryContext(ctx, query, args)
		if err != nil {
			return nil, err
		}
		return &connRows{rows, c, nil}, nil
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
	return &connRows{rows, c, func(failed error) error {
		if failed != nil {
			_ = s.Close()
			return failed
		}
		return c.keep(query, s)
	}}, nil
}

func (c *preparedConn) Close() error {
	for _, s := range c.prepared {
		_ = s.Close() // only the error of the connection's own Close matters
	}
	return c.fullConn.Close()
}

// connRows are the rows of a query. Closing them returns their statement, if any.
type connRows struct {
	driver.Rows
	conn *preparedConn
	// giveBack gets the rows' error; nil if there is nothing to give back, or after the call.
	giveBack func(failed error) error
}

func (r *connRows) Next(dest []driver.Value) (err error) {
	defer r.conn.watched(&err)
	return r.Rows.Next(dest)
}

func (r *connRows) HasNextResultSet() bool {
	more, ok := r.Rows.(driver.RowsNextResultSet)
	return ok && more.HasNextResultSet()
}

func (r *connRows) NextResultSet() (err error) {
	defer r.conn.watched(&err)
	if more, ok := r.Rows.(driver.RowsNextResultSet); ok {
		return more.NextResultSet()
	}
	return io.EOF
}

func (r *connRows) Close() error {
	err := r.Rows.Close()
	if r.giveBack == nil {
		return err
	}
	giveBack := r.giveBack
	r.giveBack = nil
	return giveBack(err)
}
