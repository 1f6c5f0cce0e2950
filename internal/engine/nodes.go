package engine

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Node is one of several servers with the same data.
type Node struct {
	// Name is for messages.
	Name string
	// Connect makes a connection, or says why the node can't serve. moved says that the process used another node before,
	// whose latest commits this node may not have applied yet.
	Connect func(ctx context.Context, moved bool) (driver.Conn, error)
}

// nodes connects to the first node that serves. All connections of the process stay with it, because two nodes may have
// applied different commits. When that node refuses connections, the next one in order takes over, and connections to the old
// one aren't reused.
type nodes struct {
	driver.Connector // the first node's, only for its Driver
	list             []Node
	// begin is the index of the node to try first.
	begin int64
	// place starts at begin and counts moves; modulo the number of nodes it is the index of the current node.
	place atomic.Int64
}

// Nodes is a connector to the first node that serves, starting at index begin. first provides its Driver.
func Nodes(first driver.Connector, list []Node, begin int) driver.Connector {
	n := &nodes{Connector: first, list: list, begin: int64(begin)}
	n.place.Store(n.begin)
	return n
}

// NodesTried are the indexes of the nodes that the process tried. The last one is in use; those before didn't serve. It is
// nil with a single server.
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

func (n *nodes) Connect(ctx context.Context) (driver.Conn, error) {
	var failed error
	for range n.list {
		place := n.place.Load()
		node := n.list[place%int64(len(n.list))]
		conn, err := node.Connect(ctx, place > n.begin)
		switch {
		case err == nil && n.place.Load() == place:
			return nodeConn{conn.(fullConn), conn.(driver.NamedValueChecker), n, place}, nil
		case err == nil: // another goroutine found that the node doesn't serve
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

// probe leaves the node if it refuses a new connection. A node that lost the others does, but says nothing on old connections.
func (n *nodes) probe(ctx context.Context) {
	if conn, err := (preparing{Connector: n}).Connect(ctx); err == nil {
		_ = conn.Close()
	}
}

// watch probes the node each second until ctx ends, and calls moved when another one is in use.
func (n *nodes) watch(ctx context.Context, moved func()) {
	for place := n.place.Load(); n.place.Load() == place; n.probe(ctx) {
		if !sleep(ctx, time.Second) {
			return
		}
	}
	moved()
}

// nodeConn is a connection that stays valid while its node is the current one.
type nodeConn struct {
	fullConn
	driver.NamedValueChecker
	of    *nodes
	place int64
}

func (c nodeConn) IsValid() bool { return c.place == c.of.place.Load() && c.fullConn.IsValid() }

func (c nodeConn) ResetSession(ctx context.Context) error {
	if !c.IsValid() {
		return driver.ErrBadConn
	}
	return c.fullConn.ResetSession(ctx)
}

// QueryContext implements driver.QueryerContext. If the node fails during a query outside a transaction, the pool asks the
// next.
func (c nodeConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.fullConn.QueryContext(ctx, query, args)
	if errors.Is(err, mysql.ErrInvalidConn) && ctx.Err() == nil {
		err = driver.ErrBadConn
	}
	return rows, err
}
