package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/schema"
)

type node struct {
	addr string
	// err is why it could not be asked.
	err error
	// is has its variables and status about the cluster, as far as it has them.
	is map[string]string
	// ahead is how far its clock is ahead of this host's, plus or minus exact.
	ahead, exact time.Duration
}

func (n node) isIn() bool { return n.is["wsrep_on"] == "ON" }

func (p *patient) askNodes(ctx context.Context) ([]node, error) {
	if p.nodes != nil {
		return p.nodes, nil
	}
	addrs, alone, err := p.Config.Database.Servers()
	if err != nil {
		return nil, err
	}
	nodes := make([]node, len(addrs))
	var all sync.WaitGroup
	for i, addr := range addrs {
		all.Go(func() {
			nodes[i] = node{addr: addr, is: map[string]string{}}
			nodes[i].err = nodes[i].ask(ctx, p, alone[i])
		})
	}
	all.Wait()
	p.nodes = nodes
	return nodes, nil
}

// nodeWithin limits how long a node may take to answer, so that a silent node doesn't delay the others' findings.
const nodeWithin = 4 * time.Second

func (n *node) ask(ctx context.Context, p *patient, o schema.Options) error {
	ctx, cancel := context.WithTimeout(ctx, nodeWithin)
	defer cancel()
	db, err := schema.Open(ctx, o, p.db.Names)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	read := engine.Pairs(n.is)
	err = db.SQL.Read(ctx,
		engine.Query{SQL: "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('wsrep_on', 'wsrep_auto_increment_control', 'auto_increment_increment')", Scan: read},
		engine.Query{SQL: "SHOW STATUS WHERE Variable_name IN ('wsrep_cluster_status', 'wsrep_cluster_size', 'wsrep_cluster_state_uuid'," +
			" 'wsrep_local_state_comment')", Scan: read},
	)
	if err != nil {
		return fmt.Errorf("ask for its state: %w", err)
	}
	for range 3 { // the quickest answer is the most exact
		before := p.Now()
		now, err := db.SQL.Clock(ctx)
		if err != nil {
			return err
		}
		took := p.Now().Sub(before)
		if n.exact == 0 || took/2 < n.exact {
			n.ahead, n.exact = now.Sub(before.Add(took/2)), max(took/2, time.Microsecond)
		}
	}
	return nil
}

// lookAtNodes checks whether each server of the DSN can serve, and the state of their cluster.
func lookAtNodes(ctx context.Context, p *patient) Finding {
	nodes, err := p.askNodes(ctx)
	if err != nil {
		return trouble(err)
	}
	if len(nodes) == 1 && nodes[0].err == nil && !nodes[0].isIn() {
		return found(OK, "one server, and no cluster")
	}
	f := found(OK, "")
	clusters, size, serving := map[string]string{}, 0, 0
	for _, n := range nodes {
		if r, what, remedy := n.judge(); r != OK {
			f.add(r, what, remedy)
			continue
		}
		serving++
		clusters[n.is["wsrep_cluster_state_uuid"]] = n.addr
		size, _ = strconv.Atoi(n.is["wsrep_cluster_size"])
		if step, err := strconv.Atoi(n.is["auto_increment_increment"]); err == nil && step < size {
			f.add(Warning, fmt.Sprintf("%s numbers rows in steps of %d, and there are %d nodes: two may give the same id, and one of them must retry",
				n.addr, step, size), "SET GLOBAL wsrep_auto_increment_control = ON"+inConfiguration)
		}
	}
	if len(clusters) > 1 {
		f.add(Wrong, strings.Join(slices.Sorted(maps.Values(clusters)), ", ")+" are of different clusters", "name the nodes of one cluster in database.dsn")
	}
	if size == 1 || size == 2 {
		f.add(Warning, "if a node of the cluster fails, the other one stops serving", "run three nodes, or two and Galera's arbitrator (garbd)")
	}
	whole := fmt.Sprintf("nodes that database.dsn names: %d; that can serve: %d; in the cluster: %d", len(nodes), serving, size)
	if wait := p.variables["wsrep_sync_wait"]; wait != "" && wait != "0" {
		whole += "; wsrep_sync_wait is " + wait + ": each read waits for what the others have committed"
	}
	f.Found = joined(whole, f.Found)
	return f
}

// judge says whether the node can serve, else why not, and the remedy.
func (n node) judge() (r Result, what, remedy string) {
	switch {
	case n.err != nil:
		return Warning, n.addr + " can't serve: " + n.err.Error(), "repair " + n.addr + ", or remove it from database.dsn"
	case !n.isIn():
		return Wrong, n.addr + " is in no cluster: the other nodes don't get what is committed there", "remove " + n.addr + " from database.dsn"
	case n.is["wsrep_cluster_status"] != "Primary" || n.is["wsrep_local_state_comment"] != "Synced":
		return Warning, fmt.Sprintf("%s can't serve now: it is %s, in the %s part of its cluster", n.addr, n.is["wsrep_local_state_comment"],
			n.is["wsrep_cluster_status"]), "if it doesn't come back by itself, read the log of " + n.addr
	}
	return OK, "", ""
}

// lookAtNodeClocks compares the clocks of all servers of the DSN: each decides about its own writes.
func lookAtNodeClocks(ctx context.Context, p *patient) Finding {
	nodes, err := p.askNodes(ctx)
	if err != nil {
		return trouble(err)
	}
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n node) bool { return n.err != nil })
	if len(nodes) == 0 {
		return found(Unknown, "no server has answered")
	}
	if len(nodes) == 1 {
		return found(OK, "one server's clock decides")
	}
	first := slices.MinFunc(nodes, func(a, b node) int { return cmp.Compare(a.ahead, b.ahead) })
	last := slices.MaxFunc(nodes, func(a, b node) int { return cmp.Compare(a.ahead, b.ahead) })
	return judgeClocks(last, first, p.Config.Worker.LockFor)
}

// judgeClocks says what it means, for locks of this length, that one node's clock is ahead of another's.
func judgeClocks(ahead, behind node, lockFor time.Duration) Finding {
	apart, exact := ahead.ahead-behind.ahead, ahead.exact+behind.exact
	// A worker that can't renew its lock ends its handlers this long before the lock expires; else it renews after a
	// third of the lock.
	margin, left := min(time.Second, lockFor/10), lockFor*2/3
	what := fmt.Sprintf("the nodes' clocks are %s apart, give or take %s", texts.Duration(apart), texts.Duration(exact))
	const remedy = "have NTP set the clocks of all nodes (timedatectl set-ntp true)"
	between := fmt.Sprintf(": %s is ahead of %s, so jobs become due and locks expire %s sooner there", ahead.addr, behind.addr, texts.Duration(apart))
	switch {
	case apart-exact > left:
		return found(Wrong, what+between+fmt.Sprintf("; workers renew their locks (worker.lock_for) with %s left, so live workers are taken for dead",
			texts.Duration(left))).but(remedy)
	case apart-exact > margin:
		return found(Warning, what+between+fmt.Sprintf("; up to %s is harmless; up to %s, the jobs of a worker that can't renew its lock may"+
			" run twice for a moment", texts.Duration(margin), texts.Duration(left))).but(remedy)
	}
	return found(OK, what+fmt.Sprintf("; up to %s is harmless (worker.lock_for)", texts.Duration(margin)))
}
