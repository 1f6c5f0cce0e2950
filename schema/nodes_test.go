package schema_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/schema"
)

func TestAddresses(t *testing.T) {
	for dsn, want := range map[string][]string{
		"u:p@tcp(db)/shop":                     {"db:3306"},
		"u:p@tcp(db:3307)/shop":                {"db:3307"},
		"u:p@tcp([::1]:3307)/shop":             {"[::1]:3307"},
		"u:p@tcp(a,b)/shop":                    {"a:3306", "b:3306"},
		"u:p@tcp(a,b:3307)/shop":               {"a:3306", "b:3307"},
		"u:p@tcp(a:3307, b:3308,c)/shop":       {"a:3307", "b:3308", "c:3306"},
		"u:p@tcp([::1]:3307,[::2],[::3])/shop": {"[::1]:3307", "[::2]:3306", "[::3]:3306"},
		"u:p@unix(/run/a.sock)/shop":           {"/run/a.sock"},
		"u:p@unix(/run/a.sock,/run/b.sock)/s":  {"/run/a.sock", "/run/b.sock"},
	} {
		got := schema.Addresses(t, dsn)
		dbtest.Ensure(t, slices.Equal(got, want), "%s: %q, want %q", dsn, got, want)
	}
}

// TestNodes: the first node that serves is used, and no other beside it.
func TestNodes(t *testing.T) {
	t.Parallel()
	first := dbtest.NewProxy(t)
	second := dbtest.ProxyTo(t, first.Direct)
	open := func() (*schema.DB, error) {
		db, err := schema.Open(t.Context(), schema.Options{Driver: "mysql", DSN: dbtest.AnyOf(t, first.Source, second.Source)}, schema.Named("shop"))
		if err == nil {
			t.Cleanup(func() { _ = db.Close() })
		}
		return db, err
	}
	db := dbtest.Must(open())(t)
	server := func() (id string) {
		t.Helper()
		dbtest.OK(t, db.SQL.GetContext(t.Context(), &id, "SELECT CONNECTION_ID()"))
		return id
	}
	at := server()
	now := server()
	dbtest.Ensure(t, now == at, "connection %s after %s", now, at)
	first.Cut()
	if _, err := db.SQL.ExecContext(t.Context(), "DO 1"); err != nil { // the pool makes another connection
		t.Error(err)
	}
	first.Mend()
	moved := server()
	now = server()
	dbtest.Ensure(t, moved != at && now == moved, "connection %s after %s: it has gone back", now, moved)
	second.Cut()
	server()

	time.AfterFunc(300*time.Millisecond, first.Cut) // in the middle of a query
	second.Mend()
	dbtest.OK(t, db.SQL.GetContext(t.Context(), &at, "SELECT SLEEP(1)"))
	second.Cut()
	first.Mend()

	first.Cut()
	second.Mend()
	first.Mend()
	first.Stall() // it accepts connections, and never answers
	dbtest.Must(open())(t)
	first.Resume()
	first.Cut()
	second.Cut()
	_, err := open()
	dbtest.Require(t, err != nil, "none of the nodes is there, and it opens")
	kind, _ := schema.Diagnose(err)
	dbtest.Ensure(t, kind == schema.TryLater, "%v is %v", err, kind)
	dbtest.Ensure(t, !errors.Is(err, schema.ErrConfig), "%v", err)
}

// TestNodeOfAHost: a host begins with the node of its name, and the nodes that it skipped are known.
func TestNodeOfAHost(t *testing.T) {
	first := dbtest.NewProxy(t)
	proxies := []*dbtest.Proxy{first, dbtest.ProxyTo(t, first.Direct), dbtest.ProxyTo(t, first.Direct)}
	o := schema.Options{Driver: "mysql"}
	for _, p := range proxies {
		cfg := dbtest.Must(mysql.ParseDSN(p.Source))(t)
		o.Nodes = append(o.Nodes, cfg.Addr)
		cfg.Addr = "127.0.0.1:1" // nodes replace it
		o.DSN = cfg.FormatDSN()
	}
	for n, p := range proxies {
		o.Host = hostAt(t, n, len(proxies))
		db := dbtest.Must(schema.Open(t.Context(), o, schema.Named("shop")))(t)
		if at, of := db.Nodes(); of != 3 || !slices.Equal(at, []int{n}) {
			t.Errorf("host %s is at %v of %d, want node %d", o.Host, at, of, n)
		}
		for passed := range 2 {
			proxies[(n+passed)%3].Cut()
			dbtest.Exec(t, db.SQL, "DO 1")
			if at, _ := db.Nodes(); len(at) != passed+2 || at[0] != n || at[passed+1] != (n+passed+1)%3 {
				t.Errorf("host %s is at %v when %d nodes are gone", o.Host, at, passed+1)
			}
		}
		p.Mend()
		proxies[(n+2)%3].Cut()
		dbtest.Exec(t, db.SQL, "DO 1")
		at, _ := db.Nodes()
		dbtest.Ensure(t, len(at) == 3 && at[2] == n, "host %s is at %v when only its first node is there", o.Host, at)
		proxies[(n+1)%3].Mend()
		proxies[(n+2)%3].Mend()
		_ = db.Close()
	}
}

// hostAt is the name of a host that begins with that node.
func hostAt(t *testing.T, node, of int) string {
	for i := range 1000 {
		if name := fmt.Sprintf("host%d", i); schema.NodeOf(name, of) == node {
			return name
		}
	}
	t.Fatalf("no host begins with node %d", node)
	return ""
}

func TestNodesThatCantBe(t *testing.T) {
	for _, c := range []struct {
		dsn   string
		nodes []string
		want  string
	}{
		{"u:s3cret@tcp(db)/shop", []string{"db1", ""}, "database.nodes[1]: must be a host, or HOST:PORT"},
		{"u:s3cret@tcp(db)/shop", []string{"db1:0"}, "database.nodes[0]: must be a host, or HOST:PORT"},
		{"u:s3cret@tcp(db)/shop", []string{"db1,db2"}, "database.nodes[0]: must be a host, or HOST:PORT"},
	} {
		err := schema.Options{Driver: "mysql", DSN: c.dsn, Nodes: c.nodes}.Check()
		dbtest.Ensure(t, errors.Is(err, schema.ErrConfig) && strings.HasSuffix(err.Error(), c.want) && !strings.Contains(err.Error(), "s3cret"),
			"%s and %q: %v", c.dsn, c.nodes, err)
	}
	for _, nodes := range [][]string{{"db1"}, {"db1:3307", "[::1]:3306", "[::1]"}} {
		dbtest.Same(t, (schema.Options{Driver: "mysql", DSN: "u:p@tcp(db)/shop", Nodes: nodes}).Check(), nil, "%q", nodes)
	}
}

// TestServersAreTheNodes: Servers returns the Nodes, if there are any.
func TestServersAreTheNodes(t *testing.T) {
	o := schema.Options{Driver: "mysql", DSN: "root@tcp(elsewhere:3306)/shop", Nodes: []string{"db1", "db2:3307"}}
	addrs, alone, err := o.Servers()
	dbtest.Require(t, err == nil && slices.Equal(addrs, []string{"db1:3306", "db2:3307"}), "%v: %v", addrs, err)
	for i, one := range alone {
		dbtest.Ensure(t, strings.Contains(one.DSN, "tcp("+addrs[i]+")") && one.Nodes == nil, "%s: %+v", addrs[i], one)
	}
}

// A primary that was replaced while it was stopped isn't used, although it doesn't know yet.
func TestGroupReplacedPrimary(t *testing.T) {
	if testing.Short() || os.Getenv("HIPQ_TEST_OWN") != "with-mysql" {
		t.Skip("takes as long as a MySQL group needs for a new primary")
	}
	nodes := dbtest.OwnGroup(t)
	var dsns []string
	for _, n := range nodes {
		dsns = append(dsns, n.DSN)
	}
	open := func(dsn string) (*schema.DB, error) {
		return schema.Open(t.Context(), schema.Options{Driver: "mysql", DSN: dsn}, schema.Named("shop"))
	}
	end := nodes[0].Stop()
	newPrimary := dbtest.AnyOf(t, dsns[1:]...)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		db, err := open(newPrimary)
		if err == nil {
			_ = db.SQL.Close()
			break
		}
		dbtest.Require(t, !time.Now().After(deadline), "no new primary after a minute: %v", err)
	}
	end()
	db := dbtest.Must(open(dbtest.AnyOf(t, dsns...) + "?group_replication_consistency='AFTER'"))(t)
	defer db.SQL.Close()
	var port int
	var level string
	dbtest.OK(t, db.SQL.QueryRowContext(t.Context(), "SELECT @@port, @@group_replication_consistency").Scan(&port, &level))
	dbtest.Ensure(t, !strings.Contains(dsns[0], fmt.Sprint(":", port, ")")), "the old primary was used")
	dbtest.Same(t, level, "AFTER", "consistency that the DSN sets")
}
