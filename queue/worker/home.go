package worker

import (
	"context"
	"slices"
	"time"

	"github.com/hipq/hipq/schema"
)

// A worker prefers the shards at home, so that those who start jobs of a shard seldom meet, above all on different nodes of a cluster.
// Which they are, each host finds out for itself: no shard is without a home for as long as a worker is at work, but that of a host
// that has just gone, and shards that are nobody's by Params.Shards. These get their share of the rounds of others.

// homeEvery is how often a worker finds out which shards are at home; homeFirst is when it does so for the second time, for workers
// that cron starts on several hosts begin together.
const (
	homeEvery = 10 * time.Second
	homeFirst = time.Second
)

// surroundings are what says which shards are at home: the host, and all that are at work; and of how many nodes which ones serve
// this process, if they are known by name.
type surroundings struct {
	host  string
	hosts []string
	nodes []int
	of    int
}

// home are the shards at home, of n.
func (at surroundings) home(n int) (home []int) {
	if !slices.Contains(at.hosts, at.host) {
		at.hosts = append(slices.Clone(at.hosts), at.host)
		slices.Sort(at.hosts)
	}
	rank := slices.Index(at.hosts, at.host)
	for shard := range n {
		mine := shard%len(at.hosts) == rank%n
		if at.of > 0 && at.anyAt(shard%at.of) {
			mine = slices.Contains(at.nodes, shard%at.of)
		}
		if mine {
			home = append(home, shard)
		}
	}
	return home
}

// anyAt says whether a host works with a node, or this one has passed it over: another's shards would be at home with nobody.
func (at surroundings) anyAt(node int) bool {
	return slices.Contains(at.nodes, node) || slices.ContainsFunc(at.hosts, func(host string) bool {
		return host != at.host && schema.NodeOf(host, at.of) == node
	})
}

// looksForHome says whether there are shards of which some may be at home and others not, and the worker has to find out which.
func (w *worker) looksForHome() bool {
	return len(w.Shards) == 0 && !w.only && slices.ContainsFunc(w.sources, func(s *source) bool { return len(s.shards) > 1 && s.gone == nil })
}

// comeHome finds out which shards are at home, before the first job is started. If it can't, the first look will.
func (w *worker) comeHome(ctx context.Context) {
	if !w.looksForHome() {
		return
	}
	if hosts, err := w.roster.Hosts(ctx); err == nil {
		w.settleIn(hosts)
		w.homeAt = time.Now().Add(homeFirst)
	}
}

// findHome finds it out again once in a while, beside the loop.
func (w *worker) findHome() {
	if w.homing || time.Now().Before(w.homeAt) || !w.looksForHome() {
		return
	}
	w.homing = true
	w.task(func() func() error {
		hosts, err := w.roster.Hosts(w.work)
		return func() error {
			w.homing = false
			if err == nil {
				w.settleIn(hosts)
				w.homeAt = time.Now().Add(homeEvery)
			}
			return w.trouble(err)
		}
	})
}

// settleIn takes note of which hosts are at work.
func (w *worker) settleIn(hosts []string) {
	at := surroundings{host: w.Host, hosts: hosts}
	at.nodes, at.of = w.db.Nodes()
	for _, s := range w.sources {
		s.moveTo(at.home(len(s.shards)))
	}
}

// moveTo makes these shards those at home. If none of them is the source's, it is at home in all.
func (s *source) moveTo(home []int) {
	slices.SortFunc(s.shards, func(a, b *shard) int { return a.number - b.number })
	var mine, others []*shard
	for _, one := range s.shards {
		if slices.Contains(home, one.number) {
			mine = append(mine, one)
		} else {
			others = append(others, one)
		}
	}
	if s.shards, s.home = slices.Concat(mine, others), len(mine); s.home == 0 {
		s.home = len(s.shards)
	}
}
