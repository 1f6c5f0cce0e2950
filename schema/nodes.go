package schema

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/texts"
)

const connectNodeWithin = 3 * time.Second

// addresses are the servers of a DSN: one, or several separated by commas, which the driver takes for one.
func addresses(cfg *mysql.Config) []string {
	text := cfg.Addr
	switch {
	case !strings.Contains(text, ","):
		return []string{text}
	case cfg.Net == "unix":
		return strings.Split(text, ",")
	}
	// the driver adds its port to an address that it can't parse
	if inner, ok := strings.CutSuffix(text, "]:3306"); ok && strings.HasPrefix(inner, "[") {
		text = inner[1:]
	}
	return texts.Map(strings.Split(text, ","), func(addr string) string { return withPort(strings.TrimSpace(addr)) })
}

// Servers returns the addresses of the Nodes, or of the DSN, in order, and the Options to open each alone.
func (o Options) Servers() (addrs []string, alone []Options, err error) {
	if _, err := o.connector(); err != nil { // its errors don't show the password
		return nil, nil, err
	}
	cfg, err := mysql.ParseDSN(o.DSN)
	if err != nil {
		return nil, nil, err
	}
	servers, err := o.servers(cfg)
	for _, of := range servers {
		one := o
		one.DSN, one.Nodes = of.FormatDSN(), nil
		addrs, alone = append(addrs, of.Addr), append(alone, one)
	}
	return addrs, alone, err
}

// connectNode connects to a node of a cluster if the node may commit and has all data. Of servers that replicate to
// each other, such as a group with one primary, it accepts the one that writes. After a move from another node, reads
// first wait for what the others have committed, so hipq finds its own earlier writes.
func (c session) connectNode(ctx context.Context, moved bool) (driver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectNodeWithin)
	defer cancel()
	conn, err := c.Connect(ctx)
	if err != nil {
		return nil, err
	}
	asked := conn.(driver.QueryerContext)
	is, err := pairs(ctx, asked, nodeStatus)
	switch {
	case err != nil:
	case is["wsrep_cluster_status"] == "" || is["wsrep_cluster_status"] == "Disconnected": // no Galera cluster
		is, err = pairs(ctx, asked, "SHOW VARIABLES WHERE Variable_name IN ('read_only', 'group_replication_consistency')")
		if is["read_only"] != "OFF" && err == nil {
			err = fmt.Errorf("the server is read-only: %w", driver.ErrBadConn)
		}
		if level := is["group_replication_consistency"]; level != "" && err == nil {
			err = heardByGroup(ctx, conn.(driver.ExecerContext), level)
		}
	case is["wsrep_cluster_status"] != "Primary" || is["wsrep_local_state"] != "4": // it joins, or sends its data to one that joins
		err = fmt.Errorf("the node is %s, its part of the cluster %s: %w", strings.ToLower(is["wsrep_local_state_comment"]),
			strings.ToLower(is["wsrep_cluster_status"]), driver.ErrBadConn)
	case moved:
		_, err = conn.(driver.ExecerContext).ExecContext(ctx, "SET wsrep_sync_wait = 1", nil)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// heardByGroup makes sure that the other members of a group answer. A primary that was stopped or cut off may have been
// replaced: until it learns this, it isn't read-only, and shows old rows. level is the session's consistency, which it
// restores. Outside a group it does nothing.
func heardByGroup(ctx context.Context, conn driver.ExecerContext, level string) error {
	_, err := conn.ExecContext(ctx, "SET group_replication_consistency = 'BEFORE'; SELECT 1 FROM (SELECT 1) AS waits;"+
		" SET group_replication_consistency = '"+level+"'", nil)
	if err != nil {
		return fmt.Errorf("the member doesn't hear from its group (%w): %w", err, driver.ErrBadConn)
	}
	return nil
}

// nodeStatus asks for a node's state in its cluster; a server outside a cluster returns nothing.
const nodeStatus = "SHOW STATUS WHERE Variable_name IN ('wsrep_cluster_status', 'wsrep_local_state', 'wsrep_local_state_comment')"

// pairs returns a query's rows of names and values, on a connection outside any pool.
func pairs(ctx context.Context, conn driver.QueryerContext, query string) (map[string]string, error) {
	rows, err := conn.QueryContext(ctx, query, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	is, row := map[string]string{}, make([]driver.Value, 2)
	for {
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return is, nil
		case err != nil:
			return nil, err
		}
		is[fmt.Sprintf("%s", row[0])] = fmt.Sprintf("%s", row[1])
	}
}

// NodeOf is the index, among so many Options.Nodes, of a host's first node. It depends only on the host's name, so
// hosts spread over the nodes, and each host knows where the others are.
func NodeOf(host string, of int) int { return int(crc32.ChecksumIEEE([]byte(host))) % of }

// Nodes are the indexes, in Options.Nodes, of this process's node and of those tried before it. of is the number of
// nodes; 0 with fewer than two.
func (db *DB) Nodes() (places []int, of int) {
	if db.nodes < 2 {
		return nil, 0
	}
	return db.SQL.NodesTried(), db.nodes
}

// servers are the configs for each of the Nodes, or of the addresses in the DSN, in order.
func (o Options) servers(cfg *mysql.Config) (all []*mysql.Config, err error) {
	addrs := addresses(cfg)
	if len(o.Nodes) > 0 {
		addrs = o.Nodes
	}
	for i, addr := range addrs {
		if len(o.Nodes) > 0 && cfg.Net != "unix" { // no socket
			if err := CheckNode(addr); err != nil {
				return nil, fmt.Errorf("%w: database.nodes[%d]: %w", ErrConfig, i, err)
			}
			addr = withPort(addr)
		}
		one := cfg.Clone()
		one.Addr = addr
		all = append(all, one)
	}
	return all, nil
}

func withPort(addr string) string {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return net.JoinHostPort(strings.Trim(addr, "[]"), "3306")
	}
	return addr
}

// CheckNode returns what is wrong with one of Options.Nodes.
func CheckNode(node string) error {
	host, port, err := net.SplitHostPort(withPort(node))
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 || host == "" || strings.ContainsAny(host, ", @/()?") {
		return errors.New("must be a host, or HOST:PORT")
	}
	return nil
}
