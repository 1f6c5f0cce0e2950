package schema

import (
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// NodeOf is the place, among so many Options.Nodes, of that with which a host begins. It depends on the host's name alone, so hosts
// are spread over the nodes, and each knows where the others are.
func NodeOf(host string, of int) int { return int(crc32.ChecksumIEEE([]byte(host))) % of }

// Nodes are the places, among the Options.Nodes, of that with which this process works, and of those before it that didn't serve; of
// is how many there are. It is 0 if there are none.
func (db *DB) Nodes() (places []int, of int) {
	if db.nodes < 2 {
		return nil, 0
	}
	return db.SQL.NodesTried(), db.nodes
}

// nodes are the addresses of Nodes, whose DSN is cfg.
func (o Options) nodes(cfg *mysql.Config) ([]string, error) {
	if cfg.Net == "unix" { // sockets
		return o.Nodes, nil
	}
	addrs := make([]string, len(o.Nodes))
	for i, node := range o.Nodes {
		if err := CheckNode(node); err != nil {
			return nil, fmt.Errorf("%w: database.nodes[%d]: %w", ErrConfig, i, err)
		}
		addrs[i] = withPort(node)
	}
	return addrs, nil
}

// withPort is an address with the port that MySQL has unless another is named.
func withPort(addr string) string {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return net.JoinHostPort(strings.Trim(addr, "[]"), "3306")
	}
	return addr
}

var errNode = errors.New("must be a host, or HOST:PORT")

// CheckNode says what is wrong with one of Options.Nodes.
func CheckNode(node string) error {
	host, port, err := net.SplitHostPort(withPort(node))
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 || host == "" || strings.ContainsAny(host, ", @/()?") {
		return errNode
	}
	return nil
}
