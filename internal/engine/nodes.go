package engine

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"
)

// Node is one of several servers that have the same data.
type Node struct {
	// Name is for people.
	Name string
	// Connect makes a connection, or says why the node can't serve. moved says that the process has worked with another node
	// before, whose latest commits this one may not have seen yet.
	Connect func(ctx context.Context, moved bool) (driver.Conn, error)
}

// nodes connects to the first of several nodes that serves, and stays with it, with all connections of the process: two nodes may
// not have seen the same commits. When that one takes no more connections, the next one in order does that serves, and
// those to the former are not used again.
type nodes struct {
	driver.Connector // the first's, for its Driver alone
	list             []Node
	// begin is the place of the one that is tried first. place counts on from there with each move: modulo the number of nodes it is
	// the place of the current one.
	begin int64
	place atomic.Int64
}

// Nodes is a connector to the first of these nodes that serves, from that at the place begin on. driver has its Driver.
func Nodes(first driver.Connector, list []Node, begin int) driver.Connector {
	n := &nodes{Connector: first, list: list, begin: int64(begin)}
	n.place.Store(n.begin)
	return n
}

// NodesTried are the places, in their list, of the nodes with which the process has tried to work: the last is that of the current
// one, those before it didn't serve. Nil if there is but one server.
func (db *DB) NodesTried() (places []int) {
	if db.nodes == nil {
		return nil
	}
	of := int64(len(db.nodes.list))
	for place := max(db.nodes.begin, db.nodes.place.Load()-of+1); place <= db.nodes.place.Load(); place++ {
		places = append(places, int(place%of))
	}
	return places
}

// Connect implements driver.Connector.
func (n *nodes) Connect(ctx context.Context) (driver.Conn, error) {
	var failed error
	for range n.list {
		place := n.place.Load()
		node := n.list[place%int64(len(n.list))]
		conn, err := node.Connect(ctx, place > n.begin)
		switch {
		case err == nil && n.place.Load() == place:
			return nodeConn{conn.(fullConn), n, place}, nil
		case err == nil: // others have found meanwhile that it doesn't serve
			_ = conn.Close()
			continue
		case ctx.Err() != nil: // that says nothing about the node
			return nil, err
		}
		if err = fmt.Errorf("%s: %w", node.Name, err); failed == nil {
			failed = err
		} else {
			failed = fmt.Errorf("%w; %w", failed, err)
		}
		n.place.CompareAndSwap(place, place+1)
	}
	return nil, cmp.Or(failed, driver.ErrBadConn)
}

// nodeConn is a connection to the current node, for as long as that is the current one.
type nodeConn struct {
	fullConn
	of    *nodes
	place int64
}

// IsValid implements driver.Validator.
func (c nodeConn) IsValid() bool { return c.place == c.of.place.Load() && c.fullConn.IsValid() }

// ResetSession implements driver.SessionResetter.
func (c nodeConn) ResetSession(ctx context.Context) error {
	if !c.IsValid() {
		return driver.ErrBadConn
	}
	return c.fullConn.ResetSession(ctx)
}

// QueryContext implements driver.QueryerContext. Where the node goes while it is asked, outside of a transaction, the pool asks the
// next one.
func (c nodeConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.fullConn.QueryContext(ctx, query, args)
	if errors.Is(err, mysql.ErrInvalidConn) && ctx.Err() == nil {
		err = driver.ErrBadConn
	}
	return rows, err
}

// CheckNamedValue implements driver.NamedValueChecker.
func (c nodeConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.fullConn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}
