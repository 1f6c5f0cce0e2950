package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// TestClocksApart: how far clocks may be apart depends on the locks' length and on the measurement's precision.
func TestClocksApart(t *testing.T) {
	at := func(ahead, exact time.Duration) node { return node{addr: "db", ahead: ahead, exact: exact} }
	const ms = time.Millisecond
	for _, c := range []struct {
		name          string
		ahead, behind node
		lockFor       time.Duration
		want          Result
		says, remedy  string
	}{
		{"together", at(3*ms, ms), at(-2*ms, ms), time.Minute, OK, "are 5 ms apart, give or take 2 ms; up to 1 s is harmless", ""},
		{"a second", at(0, ms), at(-time.Second, ms), time.Minute, OK, "1 s apart", ""},
		{"more", at(0, ms), at(-1100*ms, ms), time.Minute, Warning, "jobs become due and locks expire 1.1 s sooner", "NTP"},
		{"perhaps more", at(0, 200*ms), at(-1100*ms, ms), time.Minute, OK, "give or take 201 ms", ""},
		{"short locks", at(600*ms, ms), at(0, ms), 5 * time.Second, Warning, "up to 500 ms is harmless; up to 3.3 s, the jobs", "NTP"},
		{"longer than a lock is sure", at(41*time.Second, ms), at(0, ms), time.Minute, Wrong, "live workers are taken for dead", "NTP"},
	} {
		t.Run(c.name, func(t *testing.T) { want(t, judgeClocks(c.ahead, c.behind, c.lockFor), c.want, c.says, c.remedy) })
	}
}

// TestNodes: servers outside a cluster must not be named together; a node that is away is reported by the rest.
func TestNodes(t *testing.T) {
	first := dbtest.NewProxy(t)
	second := dbtest.ProxyTo(t, first.Direct)
	dbtest.Open(t, "mysql", first.Direct, "emails")
	look := func(dsn string) map[string]Finding { return examine(t.Context(), t, "mysql", dsn, Options{}) }
	found := look(first.Direct)
	want(t, found["node_clocks"], OK, "one server's clock decides", "")
	want(t, found["nodes"], OK, "", "")
	both := dbtest.AnyOf(t, first.Source, second.Source)
	found = look(both)
	want(t, found["node_clocks"], OK, "the nodes' clocks are", "")
	if cluster := strings.Contains(found["database"].Found, "Galera"); !cluster {
		want(t, found["nodes"], Wrong, "is in no cluster", "remove ")
	}
	first.Cut()
	found = look(both)
	want(t, found["database"], OK, "", "")
	want(t, found["node_clocks"], OK, "one server's clock decides", "")
	f := found["nodes"]
	dbtest.Ensure(t, f.Result != OK && strings.Contains(f.Found, "can't serve"), "%+v", f)
}

// TestGaleraNodes: a cluster's state is reported.
func TestGaleraNodes(t *testing.T) {
	dsns := dbtest.Galera(t)
	dbtest.Open(t, "mysql", dsns[0], "emails")
	found := examine(t.Context(), t, "mysql", dbtest.AnyOf(t, dsns...), Options{})
	want(t, found["nodes"], OK, "nodes that database.dsn names: 3; that can serve: 3; in the cluster: 3", "")
	want(t, found["node_clocks"], OK, "the nodes' clocks are", "")
	found = examine(t.Context(), t, "mysql", dsns[1]+"?wsrep_sync_wait=15", Options{})
	want(t, found["nodes"], OK, "that database.dsn names: 1; that can serve: 1; in the cluster: 3; wsrep_sync_wait is 15", "")

	cut := dbtest.ProxyTo(t, dsns[2])
	cut.Cut()
	found = examine(t.Context(), t, "mysql", dbtest.AnyOf(t, dbtest.ProxyTo(t, dsns[0]).Source, cut.Source), Options{})
	want(t, found["nodes"], Warning, "that can serve: 1; ", "repair ")
}
