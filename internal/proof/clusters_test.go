package proof

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
)

// cluster is a round on servers that replicate to each other.
type cluster struct {
	*round
	rng   *rand.Rand
	nodes []*dbtest.Node
	// dbs are the nodes themselves.
	dbs []*sql.DB
	// serves asks a node whether it writes: 1. whole asks it how many nodes it sees at work.
	serves, whole string
	// order is in which the checks look for a node.
	order []int
}

// galera harms one node after the other of a Galera cluster.
func galera(r *round) {
	nodes := dbtest.Nodes(r.t)
	dbtest.Equal(r.t, nodes)
	const status = "SELECT COUNT(*) FROM information_schema.GLOBAL_STATUS WHERE (VARIABLE_NAME, VARIABLE_VALUE) IN "
	c := r.clustered(nodes, status+"(('wsrep_cluster_status', 'Primary'), ('wsrep_ready', 'ON'), ('wsrep_local_state', '4')) HAVING COUNT(*) = 3",
		status+"(('wsrep_cluster_status', 'Primary'), ('wsrep_local_state', '4'), ('wsrep_cluster_size', '3'))")
	// The others exclude a node that is silent for 5 s.
	harms := []struct {
		name string
		most time.Duration
		do   func(*dbtest.Node) (end func())
	}{
		{"killed", 0, func(n *dbtest.Node) func() {
			n.Kill()
			return func() {}
		}},
		{"stopped", 12 * time.Second, (*dbtest.Node).Stop},
		{"cut off", 12 * time.Second, (*dbtest.Node).Isolate},
		{"slow", 6 * time.Second, func(n *dbtest.Node) func() {
			ctx, stop := context.WithCancel(context.Background())
			var slow sync.WaitGroup
			slow.Go(func() { n.Slow(ctx, 2+c.rng.IntN(10)) })
			return func() {
				stop()
				slow.Wait()
			}
		}},
		{"read-only", 6 * time.Second, (*dbtest.Node).ReadOnly},
	}
	c.suffer(17, func() {
		h, n := harms[0], c.rng.IntN(len(nodes))
		if c.rng.IntN(8) > 0 { // a killed node copies all data first
			h = harms[1+c.rng.IntN(len(harms)-1)]
		}
		c.harm(n, h.name, h.most, h.do)
		_, err := c.dbs[n].Exec("SET GLOBAL wsrep_provider_options = 'pc.weight=1'") // a node that starts again has the weight of .ci/with-galera
		dbtest.OK(r.t, err)
	})
}

// group takes the primary away from a MySQL group again and again.
func group(r *round) {
	nodes := dbtest.OwnGroup(r.t)
	c := r.clustered(nodes, "SELECT NOT @@GLOBAL.read_only",
		"SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE member_state = 'ONLINE'")
	c.suffer(10, func() {
		n := slices.IndexFunc(c.order, func(n int) bool { return c.ask(n, c.serves) == 1 })
		dbtest.Require(r.t, n >= 0, "the group has no primary")
		if n = c.order[n]; c.rng.IntN(2) == 0 {
			c.harm(n, "killed", 0, func(n *dbtest.Node) func() {
				n.Kill()
				return func() {}
			})
			return
		}
		c.harm(n, "stopped", 20*time.Second, (*dbtest.Node).Stop)
	})
}

// clustered makes the instance on these nodes. Commands reach them in different orders, and the checks read from one that serves.
func (r *round) clustered(nodes []*dbtest.Node, serves, whole string) *cluster {
	_ = mysql.SetLogger(log.New(io.Discard, "", 0)) // it would tell each lost connection
	c := &cluster{round: r, nodes: nodes, rng: r.random(10), serves: serves, whole: whole}
	c.order = c.rng.Perm(len(nodes))
	var dsns []string
	for _, n := range nodes {
		db := dbtest.Must(sql.Open("mysql", n.DSN+"?timeout=2s&readTimeout=2s"))(r.t)
		r.t.Cleanup(func() { _ = db.Close() })
		c.dbs, dsns = append(c.dbs, db), append(dsns, n.DSN)
	}
	r.source = dsns[0]
	r.begin()
	r.says = regexp.MustCompile("can't be reached|does not answer|another transaction|busy|lost its lock|read-only|behind the others")
	r.never = regexp.MustCompile("Error 1213|Error 1205|Deadlock found|Lock wait timeout")
	return c
}

// suffer lets clients and workers work while harm happens so often.
func (c *cluster) suffer(times int, harm func()) {
	a := c.acting()
	text := string(dbtest.Must(os.ReadFile(c.config))(c.t))
	for first := range c.nodes {
		var dsns []string
		for i := range c.nodes {
			dsns = append(dsns, c.nodes[(first+i)%len(c.nodes)].DSN)
		}
		way := fmt.Sprint(c.config, first)
		to := dbtest.Section("mysql", dbtest.AnyOf(c.t, dsns...))
		dbtest.OK(c.t, os.WriteFile(way, []byte(strings.Replace(text, dbtest.Section("mysql", c.source), to, 1)), 0o600))
		c.ways = append(c.ways, way)
	}
	c.db = sql.OpenDB(c)
	c.db.SetConnMaxLifetime(time.Second) // its node may be excluded, and would show old rows
	c.t.Cleanup(func() { _ = c.db.Close() })
	c.live(workload{ticks: 3, backlog: 30}, time.Minute, func(ctx context.Context) {
		end := a.begin(ctx)
		for n := 0; n < times && time.Now().Before(c.until); n++ {
			time.Sleep(time.Duration(c.rng.IntN(1500)) * time.Millisecond)
			harm()
		}
		end()
	})
	c.found = a.judge()
	later := 0
	for _, t := range c.ticks {
		if t.cmd.ProcessState.ExitCode() == 75 {
			later++
		}
	}
	c.t.Logf("%d of %d ticks ended with 75", later, len(c.ticks))
}

// harm harms a node for up to most, and waits until all nodes are back together.
func (c *cluster) harm(node int, what string, most time.Duration, do func(*dbtest.Node) (end func())) {
	last := time.Duration(c.rng.Int64N(int64(most) + 1))
	c.inject("node %d %s for %s", node+1, what, last.Round(time.Millisecond))
	began := time.Now()
	end := do(c.nodes[node])
	time.Sleep(last)
	end()
	ended := time.Now()
	for told, limit := false, ended.Add(2*time.Minute); ; time.Sleep(100 * time.Millisecond) {
		apart := slices.IndexFunc(c.order, func(n int) bool { return c.ask(n, c.whole) != len(c.nodes) })
		if apart < 0 {
			break
		}
		if !told && time.Since(ended) > patience {
			told = true
			c.tellLocks()
		}
		dbtest.Require(c.t, time.Now().Before(limit), "the nodes are not together two minutes after node %d was %s", node+1, what)
	}
	// A lock that the servers hold among themselves for longer than hipq waits is told to its caller.
	if time.Since(ended) > patience {
		c.stalls = append(c.stalls, span{began, time.Now()})
	}
	c.t.Logf("node %d %s for %s: together after %s", node+1, what, last.Round(time.Millisecond), time.Since(ended).Round(time.Millisecond))
}

// patience is how long the nodes take at most to be together again without a stall.
const patience = 10 * time.Second

// tellLocks logs what each node does, and which transactions hold locks there.
func (c *cluster) tellLocks() {
	for n, db := range c.dbs {
		for _, query := range []string{
			"SELECT CONCAT_WS(' ', id, user, command, time, state, LEFT(info, 200)) FROM information_schema.PROCESSLIST WHERE command <> 'Sleep'",
			"SELECT CONCAT_WS(' ', trx_mysql_thread_id, trx_state, trx_started, trx_wait_started, trx_rows_locked, LEFT(trx_query, 200)) FROM information_schema.INNODB_TRX",
		} {
			rows, err := dbtest.Rows(context.Background(), db, query)
			for _, row := range rows {
				c.t.Logf("node %d: %s", n+1, row[0].String)
			}
			if err != nil {
				c.t.Logf("node %d: %v", n+1, err)
			}
		}
	}
}

// ask asks a node for a number; -1 if it doesn't answer.
func (c *cluster) ask(node int, query string) (n int) {
	if err := c.dbs[node].QueryRow(query).Scan(&n); err != nil {
		return -1
	}
	return n
}

// Driver is the driver.Connector's.
func (c *cluster) Driver() driver.Driver { return mysql.MySQLDriver{} }

// Connect connects to the first node that serves.
func (c *cluster) Connect(ctx context.Context) (driver.Conn, error) {
	for _, n := range c.order {
		if c.ask(n, c.serves) > 0 {
			to, err := mysql.MySQLDriver{}.OpenConnector(c.nodes[n].DSN + "?timeout=2s&readTimeout=5s&rejectReadOnly=true")
			if err != nil {
				return nil, err
			}
			return to.Connect(ctx)
		}
	}
	return nil, errors.New("no node serves")
}

// servers kills the database server again and again, each time as soon as it serves and was at work for a moment.
func servers(r *round) {
	_ = mysql.SetLogger(log.New(io.Discard, "", 0)) // it would tell each lost connection
	node := dbtest.OwnNode(r.t)
	r.source = node.DSN
	r.begin()
	a, rng := r.acting(), r.random(10)
	r.live(workload{ticks: 3, backlog: 60}, time.Minute, func(ctx context.Context) {
		end := a.begin(ctx)
		for n := 0; n < 25 && time.Now().Before(r.until); n++ {
			time.Sleep(200*time.Millisecond + time.Duration(rng.IntN(1500))*time.Millisecond)
			r.inject("SIGKILL of the server")
			node.Kill()
			for down := time.Now(); r.db.Ping() != nil; time.Sleep(20 * time.Millisecond) {
				dbtest.Require(r.t, time.Since(down) < time.Minute, "the server is not back after a minute")
			}
		}
		end()
	})
	r.found = a.judge()
}
