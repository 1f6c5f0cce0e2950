package queue_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// nodes opens a store on each node of a cluster.
func nodes(t *testing.T) (all []store) {
	t.Helper()
	for _, dsn := range dbtest.Galera(t) {
		all = append(all, openStore(t, dbtest.Open(t, "mysql", dsn, "emails"), options()))
	}
	return all
}

// synced waits until a node has got what others have committed before.
func (s store) synced() {
	s.t.Helper()
	tx := s.appTx("SET wsrep_sync_wait = 1")
	var n int
	must[any](s.t)(nil, tx.QueryRowContext(s.t.Context(), "SELECT 1").Scan(&n))
	must[any](s.t)(nil, tx.Rollback())
}

// wantSize waits until a node sees so many in its cluster.
func (s store) wantSize(want string) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		var name, size string
		must[any](s.t)(nil, s.db.QueryRowContext(s.t.Context(), "SHOW STATUS LIKE 'wsrep_cluster_size'").Scan(&name, &size))
		if size == want {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("there are %s nodes, not %s", size, want)
		}
	}
}

// The steps in which rows are numbered change when a node goes and when it comes back, whatever is going on.
func TestGaleraIDsWhileANodeIsAway(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as a cluster needs to do without a node")
	}
	all := nodes(t)
	first, last := all[0], all[2]
	isolate := func(yes int) {
		last.exec(fmt.Sprintf("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=%d'", yes))
	}
	defer func() {
		isolate(0)
		first.wantSize("3")
	}()
	isolate(1)
	var added []queue.Added
	enqueue := func() {
		t.Helper()
		added = append(added, first.add(keyed(7, "")...)...)
		jobs := make([]job.New, 120)
		for i := range jobs {
			jobs[i] = job.New{Type: "send", Key: fmt.Sprint(len(added), "-", i)}
		}
		added = append(added, first.add(jobs...)...)
		first.exec("DELETE FROM shop_emails WHERE job_key LIKE 'k%'")
	}
	away := make(chan bool)
	go func() {
		first.wantSize("2")
		close(away)
	}()
	for waiting := true; waiting; {
		select {
		case <-away:
			waiting = false
		default:
		}
		enqueue()
	}
	for range 5 {
		enqueue()
	}
	found := map[int64]string{}
	must[any](t)(nil, first.Find(t.Context(), queue.Filter{}, func(j *job.Job) error {
		found[j.ID] = j.Key
		return nil
	}))
	for i, a := range added {
		if key, ok := found[a.ID]; ok && key != a.Key || !ok && a.Key[0] != 'k' {
			t.Fatalf("%d: id %d has the key %s, not %s", i, a.ID, key, a.Key)
		}
	}
}

// Of rows that are refused, because the key of one is taken, none gets to the other nodes.
func TestGaleraDuplicateAmongMany(t *testing.T) {
	all := nodes(t)
	first := all[0]
	there := first.add(job.New{Type: "send", Key: "k070"})[0].ID
	tx := first.appTx("SET autocommit = 1")
	for i, a := range must[[]queue.Added](t)(first.EnqueueTx(t.Context(), tx, keyed(200, "")...)) {
		if a.Duplicate != (i == 70) || a.Duplicate && a.ID != there {
			t.Errorf("%d: %+v", i, a)
		}
	}
	must[any](t)(nil, tx.Commit())
	for _, a := range first.add(keyed(300, "")...)[200:] {
		if a.Duplicate {
			t.Errorf("%+v", a)
		}
	}
	for n, s := range all {
		s.synced()
		if c := must[queue.Counts](t)(s.Counts(t.Context())); c.Due != 300 {
			t.Errorf("node %d has %d jobs", n+1, c.Due)
		}
	}
	first.wantSize("3")
}

// Callers at all nodes enqueue the same keys: the second finds the job of the first, or puts its own in that one's place.
func TestGaleraSameKeys(t *testing.T) {
	all := nodes(t)
	for _, on := range []job.OnDuplicate{job.ReplaceDuplicate, job.KeepDuplicate} {
		var wg sync.WaitGroup
		var mu sync.Mutex
		last := map[string]map[string]bool{}
		for n, s := range all {
			for c := range 2 {
				wg.Go(func() {
					for round := range 15 {
						jobs := make([]job.New, 20)
						for i, k := range rand.Perm(30)[:20] {
							jobs[i] = job.New{Type: "send", Key: fmt.Sprintf("%s-%d", on, k), Data: fmt.Sprintf("%d-%d-%d", n, c, round), OnDuplicate: on}
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
			must[any](t)(nil, s.Find(t.Context(), queue.Filter{}, func(j *job.Job) error {
				rows = append(rows, fmt.Sprint(j.ID, " ", j.Key, " ", j.Data))
				if !last[j.Key][j.Data] && on == job.ReplaceDuplicate {
					t.Errorf("%d: %s has %s", n, j.Key, j.Data)
				}
				return nil
			}))
			if n > 0 && !slices.Equal(rows, before) {
				t.Errorf("node %d differs", n)
			}
			before = rows
		}
	}
	all[0].wantSize("3")
}
