package store_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// nodes opens a store on each node of a cluster.
func nodes(t *testing.T) (all []env) {
	t.Helper()
	for _, dsn := range dbtest.Galera(t) {
		all = append(all, openStore(t, dbtest.Open(t, "mysql", dsn, "emails"), options()))
	}
	return all
}

// synced waits until a node has what the others committed before.
func (s env) synced() {
	s.t.Helper()
	tx := s.appTx("SET wsrep_sync_wait = 1")
	var n int
	must[any](s.t)(nil, tx.QueryRowContext(s.t.Context(), "SELECT 1").Scan(&n))
	must[any](s.t)(nil, tx.Rollback())
}

// size is the number of nodes that a node sees in its cluster.
func (s env) size() (n int) {
	s.t.Helper()
	var name string
	must[any](s.t)(nil, s.db.SQL.QueryRowContext(s.t.Context(), "SHOW STATUS LIKE 'wsrep_cluster_size'").Scan(&name, &n))
	return n
}

// The steps between ids change when a node leaves and when it returns, whatever is going on.
func TestGaleraIDsWhileANodeIsAway(t *testing.T) {
	dbtest.Long(t, "takes as long as a cluster needs to do without a node")
	nodes := dbtest.OwnNodes(t) // other tests would miss an absent node
	first := openStore(t, dbtest.Open(t, "mysql", nodes[0].DSN, "emails"), options())
	var added []job.Added
	enqueue := func() {
		t.Helper()
		added = append(added, first.add(keyed(7, "")...)...)
		jobs := make([]job.Params, 120)
		for i := range jobs {
			jobs[i] = job.Params{Type: "send", Key: fmt.Sprint(len(added), "-", i)}
		}
		added = append(added, first.add(jobs...)...)
		first.exec("DELETE FROM shop_emails WHERE job_key LIKE 'k%'")
	}
	until := func(size int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); first.size() != size; enqueue() {
			if time.Now().After(deadline) {
				t.Fatalf("there are %d nodes, not %d", first.size(), size)
			}
		}
		for range 5 {
			enqueue()
		}
	}
	end := nodes[2].Isolate()
	until(2)
	end()
	until(3)
	found := map[int64]string{}
	must[any](t)(nil, first.Find(t.Context(), admin.Filter{}, func(j *job.Job) error {
		found[j.ID] = j.Key
		return nil
	}))
	for i, a := range added {
		key, ok := found[a.ID]
		require(t, (!ok || key == a.Key) && (ok || a.Key[0] == 'k'), "%d: id %d has the key %s, not %s", i, a.ID, key, a.Key)
	}
}

// If rows are refused because one key is taken, none reaches the other nodes.
func TestGaleraDuplicateAmongMany(t *testing.T) {
	all := nodes(t)
	first := all[0]
	there := first.add(job.Params{Type: "send", Key: "k070"})[0].ID
	tx := first.appTx("SET autocommit = 1")
	for i, a := range must[[]job.Added](t)(first.EnqueueTx(t.Context(), tx, keyed(200, "")...)) {
		ensure(t, a.Duplicate == (i == 70) && (!a.Duplicate || a.ID == there), "%d: %+v", i, a)
	}
	must[any](t)(nil, tx.Commit())
	for _, a := range first.add(keyed(300, "")...)[200:] {
		ensure(t, !a.Duplicate, "%+v", a)
	}
	for n, s := range all {
		s.synced()
		equal(t, must[admin.Counts](t)(s.Counts(t.Context())).Due, 300, "jobs of node %d", n+1)
	}
	equal(t, first.size(), 3, "nodes")
}

// Callers at all nodes enqueue the same keys: the second finds the first one's job, or replaces it.
func TestGaleraSameKeys(t *testing.T) {
	all := nodes(t)
	for _, on := range []job.OnDuplicate{job.ReplaceDuplicate, job.IgnoreDuplicate} {
		var wg sync.WaitGroup
		var mu sync.Mutex
		last := map[string]map[string]bool{}
		for n, s := range all {
			for c := range 2 {
				wg.Go(func() {
					for round := range 15 {
						jobs := make([]job.Params, 20)
						for i, k := range rand.Perm(30)[:20] {
							jobs[i] = job.Params{Type: "send", Key: fmt.Sprintf("%s-%d", on, k), Data: fmt.Sprintf("%d-%d-%d", n, c, round), OnDuplicate: on}
						}
						added, err := s.EnqueueMany(t.Context(), jobs)
						if err != nil {
							t.Errorf("%s %d: %v", on, n, err)
							continue
						}
						mu.Lock()
						for i, a := range added {
							if !a.Duplicate || a.Replaced {
								if last[a.Key] == nil {
									last[a.Key] = map[string]bool{}
								}
								last[a.Key][jobs[i].Data] = true
							}
						}
						mu.Unlock()
					}
				})
			}
		}
		wg.Wait()
		var before []string
		for n, s := range all {
			s.synced()
			var rows []string
			must[any](t)(nil, s.Find(t.Context(), admin.Filter{}, func(j *job.Job) error {
				rows = append(rows, fmt.Sprint(j.ID, " ", j.Key, " ", j.Data))
				ensure(t, last[j.Key][j.Data] || on != job.ReplaceDuplicate, "%d: %s has %s", n, j.Key, j.Data)
				return nil
			}))
			ensure(t, n == 0 || slices.Equal(rows, before), "node %d differs", n)
			before = rows
		}
	}
	equal(t, all[0].size(), 3, "nodes")
}

// A pause on one node means now on the others too, whether or not rounds take turns, and however late they hear of it: here a
// round has looked before, and its node has a large transaction to apply first.
func TestGaleraPauseMeansNow(t *testing.T) {
	for name, rate := range map[string]job.Rate{"rounds": {}, "turns": {Starts: 1_000_000, Per: time.Second}} {
		t.Run(name, func(t *testing.T) {
			o := options()
			o.Rate = rate
			all := dbtest.Galera(t)
			works := openStore(t, dbtest.Open(t, "mysql", all[0], "emails"), o)
			pauses := openStore(t, dbtest.Open(t, "mysql", all[1], "emails"), o)
			works.hire("w")
			works.add(keyed(20, "")...)
			pauses.exec("CREATE TABLE large (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, text TEXT)")
			for range 5 {
				r := works.newRound("w", 1)
				var paused sync.Once
				r.Stopped = func() error {
					paused.Do(func() {
						pauses.exec("INSERT INTO large (text) SELECT REPEAT('x', 500) FROM seq_1_to_20000")
						must[any](t)(nil, pauses.Pause(t.Context()))
					})
					return nil
				}
				equal(t, len(works.do(r).Started), 0, "started after a pause")
				must[any](t)(nil, pauses.Resume(t.Context()))
				works.synced()
			}
		})
	}
}
