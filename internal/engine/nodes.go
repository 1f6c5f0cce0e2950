package engine

import (
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"sync/atomic"
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
	// place counts on with each move: modulo the number of nodes it is the place of the current one.
	place atomic.Int64
}

// Nodes is a connector to the first of these nodes that serves. driver has its Driver.
func Nodes(first driver.Connector, list []Node) driver.Connector {
	return &nodes{Connector: first, list: list}
}

// Connect implements driver.Connector.
func (n *nodes) Connect(ctx context.Context) (driver.Conn, error) {
	var failed error
	for range n.list {
		place := n.place.Load()
		node := n.list[place%int64(len(n.list))]
		conn, err := node.Connect(ctx, place > 0)
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

// CheckNamedValue implements driver.NamedValueChecker.
func (c nodeConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.fullConn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}
