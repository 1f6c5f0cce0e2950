package dbtest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Node is a server that a test manipulates.
type Node struct {
	// DSN is the test's database on it.
	DSN string
	t   testing.TB
	db  *sql.DB
}

// Nodes creates a database on the cluster, like Galera, and returns the nodes.
func Nodes(t testing.TB) (all []*Node) {
	t.Helper()
	return nodesOf(t, Galera(t))
}

// OwnNodes starts a cluster for one test that takes nodes away, creates a database there, and returns the nodes. It skips the
// test without a cluster, like Galera.
func OwnNodes(t testing.TB) (all []*Node) {
	t.Helper()
	if os.Getenv(galeraVar) == "" {
		return Nodes(t) // it says why there is none
	}
	return nodesOf(t, onNodes(t, strings.Fields(own(t, "with-galera", galeraVar, nil))))
}

// OwnNode starts a server for one test that kills it, and creates a database there. Unlike OwnMySQL's, this server restarts
// after the kill and still has what it acknowledged.
func OwnNode(t testing.TB, options ...string) *Node {
	t.Helper()
	if os.Getenv(dsnVar) == "" {
		MySQL(t) // it says why there is none
	}
	// A large pool would only make each start longer.
	args := []string{"--durable", "--keep", "--server=--innodb-buffer-pool-size=64M"}
	for _, o := range options {
		args = append(args, "--server="+o)
	}
	server := ownServer(t, nil, args...)
	return nodesOf(t, []string{create(t, server)})[0]
}

// OwnGroup starts a MySQL group for one test that takes members away, creates a database there, and returns the members. The
// first is the primary.
func OwnGroup(t testing.TB) (all []*Node) {
	t.Helper()
	if os.Getenv(dsnVar) == "" {
		MySQL(t) // it says why there is none
	}
	dsns := strings.Fields(own(t, "with-group", groupVar, nil))
	name := nameIn(create(t, dsns[0]))
	for i := range dsns {
		dsns[i] = withDatabase(t, dsns[i], name)
	}
	return nodesOf(t, dsns)
}

func nodesOf(t testing.TB, dsns []string) (all []*Node) {
	t.Helper()
	for _, dsn := range dsns {
		db := Must(sql.Open("mysql", dsn+"?timeout=2s&readTimeout=5s"))(t)
		t.Cleanup(func() { _ = db.Close() })
		all = append(all, &Node{DSN: dsn, t: t, db: db})
	}
	return all
}

// Equal lets any two nodes form the Primary component, for a test that is alone on the cluster. When the test ends, it waits
// until all nodes are back together.
func Equal(t testing.TB, all []*Node) {
	t.Helper()
	// .ci/with-galera lets the first outweigh the others
	_, options, _ := strings.Cut(all[0].variable("wsrep_provider_options"), "pc.weight = ")
	weight, _, _ := strings.Cut(options, ";")
	all[0].provide("pc.weight=1")
	t.Cleanup(func() {
		together(t, all)
		all[0].provide("pc.weight=" + weight)
	})
}

// together waits until each node sees all of them in its cluster and is synced.
func together(t testing.TB, all []*Node) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		apart := ""
		for i, n := range all {
			if is := n.standing(); is != fmt.Sprintf("Primary, Synced, %d nodes", len(all)) {
				apart += fmt.Sprintf("\nnode %d: %s", i+1, is)
			}
		}
		if apart == "" {
			return
		}
		Require(t, !time.Now().After(deadline), "the nodes don't come together again:%s", apart)
	}
}

// standing describes a node's component, its state there, and the number of nodes.
func (n *Node) standing() string {
	is, err := Pairs(context.Background(), n.db, "SHOW STATUS WHERE Variable_name IN ('wsrep_cluster_status', 'wsrep_local_state_comment', 'wsrep_cluster_size')")
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s, %s, %s nodes", is["wsrep_cluster_status"], is["wsrep_local_state_comment"], is["wsrep_cluster_size"])
}

func (n *Node) variable(which string) string {
	n.t.Helper()
	return Must(Pairs(context.Background(), n.db, "SHOW VARIABLES LIKE '"+which+"'"))(n.t)[which]
}

// provide changes a setting of this node's replication library.
func (n *Node) provide(setting string) {
	n.t.Helper()
	if _, err := n.db.Exec("SET GLOBAL wsrep_provider_options = '" + setting + "'"); err != nil {
		n.t.Error(err)
	}
}

// Isolate cuts the node off from the others, but not from its clients. end undoes it.
func (n *Node) Isolate() (end func()) {
	n.t.Helper()
	n.provide("gmcast.isolate=1")
	return func() { n.provide("gmcast.isolate=0") }
}

// Kill kills the node's process. The program in .ci that has started it restarts it.
func (n *Node) Kill() {
	n.t.Helper()
	n.signal(n.pid(), syscall.SIGKILL)
}

// Stop stops the node's process: it accepts connections but answers nothing. end undoes it.
func (n *Node) Stop() (end func()) {
	n.t.Helper()
	pid := n.pid()
	n.signal(pid, syscall.SIGSTOP)
	return func() { n.signal(pid, syscall.SIGCONT) }
}

// Slow lets the node's process run for 1/part of the time, in turns under a second, until ctx ends.
func (n *Node) Slow(ctx context.Context, part int) {
	n.t.Helper()
	const runs = 30 * time.Millisecond
	for pid := n.pid(); ctx.Err() == nil; time.Sleep(runs) {
		n.signal(pid, syscall.SIGSTOP)
		time.Sleep(time.Duration(part-1) * runs)
		n.signal(pid, syscall.SIGCONT)
	}
}

// ReadOnly blocks all writes on the node, even replicated ones. end undoes it.
func (n *Node) ReadOnly() (end func()) {
	n.t.Helper()
	ctx := context.Background()
	conn, err := n.db.Conn(ctx)
	if err == nil {
		_, err = conn.ExecContext(ctx, "FLUSH TABLES WITH READ LOCK")
	}
	OK(n.t, err)
	return func() {
		if _, err := conn.ExecContext(ctx, "UNLOCK TABLES"); err != nil {
			n.t.Error(err)
		}
		_ = conn.Close()
	}
}

func (n *Node) pid() int {
	n.t.Helper()
	text := Must(os.ReadFile(n.variable("pid_file")))(n.t)
	pid := Must(strconv.Atoi(strings.TrimSpace(string(text))))(n.t)
	return pid
}

func (n *Node) signal(pid int, s syscall.Signal) {
	n.t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		n.t.Error(err)
	}
}
