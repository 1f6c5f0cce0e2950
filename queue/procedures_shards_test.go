package queue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/roster"
	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/internal/shards"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// startIn starts jobs of one shard by a round.
func (s store) startIn(worker string, shard, n int) []*job.Job {
	s.t.Helper()
	s.hire(worker)
	r := rounds.New(roster.Worker{ID: worker, Host: "h", PID: 1})
	r.Slots, r.Candidates = n, s.Rounds().Candidates(shard, []string{"send", "report"})
	return s.do(r).Started
}

// in is a shard key whose jobs are in a shard of so many.
func in(shard, n int) string {
	d := shards.Division{N: n}
	for i := 0; ; i++ {
		if key := fmt.Sprint("in", i); d.Of("send", "", key, nil) == shard {
			return key
		}
	}
}

// places are the places of the jobs in the table, by key.
func (s store) placesByKey() map[string]int {
	s.t.Helper()
	var rows []struct {
		Key   string `db:"job_key"`
		Shard int
	}
	must[any](s.t)(nil, s.db.SelectContext(s.t.Context(), &rows, "SELECT job_key, shard FROM shop_emails WHERE line <> 'new'"))
	found := map[string]int{}
	for _, r := range rows {
		found[r.Key] = r.Shard
	}
	return found
}

// wantWhole checks that the shards have the whole limit and the whole rate among them, and none more than it is to.
func (s store) wantWhole(limit, rate int) {
	s.t.Helper()
	var sums struct{ C, T, R, S int }
	must[any](s.t)(nil, s.db.GetContext(s.t.Context(), &sums,
		"SELECT SUM(capacity) AS c, SUM(target) AS t, SUM(rate_capacity) AS r, SUM(rate_target) AS s FROM shop_shards WHERE queue = 'emails'"))
	if sums.C != limit || sums.T != limit || sums.R != rate || sums.S != rate {
		s.t.Errorf("capacities and targets sum to %+v", sums)
	}
}

// Jobs that are submitted, or inserted by plain SQL, get the places that Go gives them.
func TestProceduresPlaces(t *testing.T) {
	keys := []string{"k", "k ", "ü", "😀", "NONE", "a", "b", "c", "d", "e"}
	for _, n := range []int{1, 8} {
		proceduresSuite(t, func(o *queue.Options) { o.Shards = n }, func(s store) {
			d, want := shards.Division{N: n}, map[string]int{}
			for _, key := range keys {
				s.one("job_submit", "emails", "send", key, nil, nil)
				s.one("job_submit", "emails", "send", key+"by", nil, `{"shard_key":"customer 7"}`)
				s.exec("INSERT INTO shop_emails (job_type, job_key) VALUES ('send', ?)", key+"plain")
				s.exec("INSERT INTO shop_emails (job_type, job_key, shard_key) VALUES ('send', ?, 'customer 7')", key+"plain by")
				for _, one := range []string{"", "plain"} {
					want[key+one] = d.Place(d.Of("send", key+one, "", nil))
				}
				for _, one := range []string{"by", "plain by"} {
					want[key+one] = d.Place(d.Of("send", key+one, "customer 7", nil))
				}
			}
			for len(s.call("job_grab", "w1", "emails", "send", 9)) > 0 {
			}
			for key, place := range s.placesByKey() {
				if place != want[key] {
					t.Errorf("%q is in %d, want %d", key, place, want[key])
				}
				delete(want, key)
			}
			if len(want) > 0 {
				t.Errorf("not found: %v", want)
			}
			if j := s.get(s.byKey("kby")); j.ShardKey != "customer 7" || j.Line != "locked" {
				t.Errorf("%+v", j)
			}
			s.wantRefusal(31002, "shard_key has 256 bytes", "job_submit", "emails", "send", "l", nil, `{"shard_key":"`+strings.Repeat("x", 256)+`"}`)
			s.wantRefusal(31002, "shard_key 7 is not a text", "job_submit", "emails", "send", "l", nil, `{"shard_key":7}`)
		})
	}
}

// Of a queue with groups a job is where its group is; where SQL can't tell that, hipq takes it in.
func TestProceduresPlacesOfGroups(t *testing.T) {
	proceduresSuite(t, func(o *queue.Options) {
		byRegion(9, map[string]int{"*": 2})(o)
		o.Shards = 8
	}, func(s store) {
		d := shards.Division{N: 8, Groups: s.ThrottleGroups}
		want := map[string]int{}
		for i, data := range []string{`{"to":{"region":"east"}}`, `{"to":{"region":"west"}}`, `{"to":{}}`, "no JSON", `{"to":{"region":"e","region":"f"}}`, `{"to":{"region":1e2}}`} {
			for _, key := range []string{"a", "b", "c"} {
				key = fmt.Sprint(key, i)
				if key[0] == 'c' {
					s.exec("INSERT INTO shop_emails (job_type, job_key, job_data, shard_key) VALUES ('send', ?, ?, ?)", key, data, "s")
				} else {
					s.one("job_submit", "emails", "send", key, data, `{"shard_key":"s"}`)
				}
				want[key] = d.Place(d.Of("send", key, "s", []byte(data)))
			}
		}
		for range 9 {
			s.call("job_grab", "w1", "emails", `["send","report"]`, 9)
		}
		var waiting int
		must[any](t)(nil, s.db.GetContext(t.Context(), &waiting, "SELECT COUNT(*) FROM shop_emails WHERE line = 'new'"))
		if waiting != 6 {
			t.Errorf("%d are left to hipq", waiting)
		}
		s.upkeep()
		found := s.placesByKey()
		for key, place := range want {
			if found[key] != place {
				t.Errorf("%s is in %d, want %d", key, found[key], place)
			}
		}
		s.wantHistory(s.byKey("a4"), "added/0")
	})
}

// A call grabs the jobs of one shard, and goes on to the next as long as there are none; in the caller's transaction it tries one.
func TestProceduresGrabShards(t *testing.T) {
	for _, limit := range []int{0, 80} {
		proceduresSuite(t, func(o *queue.Options) { o.Shards, o.ThrottleLimit = 8, limit }, func(s store) {
			for _, types := range []string{"send", `["send","report"]`} {
				s.exec("DELETE FROM shop_emails")
				var list []job.New
				for i := range 40 {
					list = append(list, job.New{Type: "send", Key: fmt.Sprint("k", i), ShardKey: in(i%5, 8), Priority: new(100 - i/5)})
				}
				s.add(append(list, job.New{Type: "other", ShardKey: in(6, 8)})...)
				s.exec("UPDATE shop_emails SET line = 'new', shard = 1000 WHERE job_key IN ('k0', 'k7')")
				s.exec("UPDATE shop_emails SET line = 'later', wake_time = '2026-01-01' WHERE job_key IN ('k1', 'k8')")
				firsts := map[string]bool{}
				for range 8 {
					var place string
					got := s.call("job_grab", "w1", "emails", types, 5)
					for i, r := range got {
						var at, key string
						must[any](t)(nil, s.db.QueryRowContext(t.Context(), "SELECT shard, job_key FROM shop_emails WHERE id = ?", r["id"]).Scan(&at, &key))
						if place == "" {
							place = at
						}
						if at != place {
							t.Errorf("%s is in %s, and the first in %s", key, at, place)
						}
						if i == 0 && !firsts[place] {
							firsts[place] = true
							if n := s.numberOf(key); n < 35 {
								t.Errorf("%s comes first in %s", key, place)
							}
						}
					}
					if len(got) == 0 {
						t.Error("nothing was grabbed, and there is more")
					}
				}
				for range 8 {
					s.call("job_grab", "w1", "emails", types, 5)
				}
				var left int
				must[any](t)(nil, s.db.GetContext(t.Context(), &left, "SELECT COUNT(*) FROM shop_emails WHERE line <> 'locked'"))
				if left != 1 {
					t.Errorf("%s: %d are left", types, left)
				}
			}
			s.exec("DELETE FROM shop_emails")
			s.add(job.New{Type: "send", ShardKey: in(3, 8)}, job.New{Type: "send", ShardKey: in(4, 8)})
			conn := s.conn()
			must[any](t)(conn.ExecContext(t.Context(), "START TRANSACTION"))
			if got := must[[]row](t)(tryOn(t.Context(), conn, "job_grab", "w1", "emails", "send", 9)); len(got) != 1 {
				t.Errorf("%v", got)
			}
			must[any](t)(conn.ExecContext(t.Context(), "ROLLBACK"))
		})
	}
}

func (s store) numberOf(key string) (n int) {
	s.t.Helper()
	must[int](s.t)(fmt.Sscanf(key, "k%d", &n))
	return n
}

// A shard borrows what is free of others, at once; what waits for others' jobs is written down, and hipq divides the limit by it.
func TestProceduresBorrow(t *testing.T) {
	proceduresSuite(t, func(o *queue.Options) { o.ThrottleLimit, o.Shards = 10, 8 }, func(s store) {
		few, many := in(2, 8), in(5, 8)
		for i := range 9 {
			s.add(job.New{Type: "send", Key: fmt.Sprint("m", i), ShardKey: many})
		}
		s.add(job.New{Type: "send", Key: "f0", ShardKey: few})
		got := s.grabbed("w1", 20)
		got2 := s.grabbed("w1", 20)
		if all := strings.Fields(got + " " + got2); len(all) != 10 {
			t.Fatalf("%v", all)
		}
		s.wantWhole(10, 0)
		// the limit is reached: nothing is started anywhere
		s.add(job.New{Type: "send", Key: "m9", ShardKey: many}, job.New{Type: "send", Key: "heavy", ShardKey: in(7, 8), ThrottleFactor: new(12)})
		for range 3 {
			if got := s.grabbed("w1", 20); got != "" {
				t.Error(got)
			}
		}
		s.wantWhole(10, 0)
		asking := func() bool { return must[rounds.Look](t)(s.Rounds().Look(t.Context(), []string{"send"})).Asking }
		if !asking() {
			t.Error("nobody is told of the demand")
		}
		s.upkeep()
		if asking() {
			t.Error("the demand is open still")
		}
		s.wantWhole(10, 0)
		// as they end, the heavy one, for which all is kept that is free, goes alone when it comes to it
		s.exec("UPDATE shop_emails SET line = 'finished', state = 'final' WHERE line = 'locked'")
		var seen []string
		for try := 0; len(seen) < 2 && try < 20; try++ {
			s.exec("UPDATE shop_shards SET demand = REPLACE(demand, '\"at\":', '\"at\":-')") // long ago
			if got := s.grabbed("w1", 20); got != "" {
				seen = append(seen, got)
				s.wantWhole(10, 0)
				if got := s.grabbed("w1", 20); got != "" && seen[len(seen)-1] == "heavy" {
					t.Errorf("%s beside the heavy one", got)
				}
				s.exec("UPDATE shop_emails SET line = 'finished', state = 'final' WHERE line = 'locked'")
			}
		}
		if slices.Sort(seen); !slices.Equal(seen, []string{"heavy", "m9"}) {
			t.Errorf("%v", seen)
		}
	})
}

// A rate is divided too: no shard starts more than its part, which it borrows.
func TestProceduresBorrowTheRate(t *testing.T) {
	proceduresSuite(t, func(o *queue.Options) { o.Rate, o.Shards = job.Rate{Starts: 6, Per: time.Hour}, 4 }, func(s store) {
		for i := range 9 {
			s.add(job.New{Type: "send", Key: fmt.Sprint(i), ShardKey: in(1, 4)})
		}
		started := 0
		for range 9 {
			for _, g := range s.call("job_grab", "w1", "emails", "send", 2) {
				if _, err := s.try("job_start", "w1", "emails", g["id"], g["token"]); err == nil {
					started++
				}
			}
			s.exec("UPDATE shop_shards SET demand = 'NONE'")
		}
		if started != 6 {
			t.Errorf("%d were started", started)
		}
		s.wantWhole(0, 6)
		s.add(job.New{Type: "send", Key: "elsewhere", ShardKey: in(3, 4)})
		if got := s.grabbed("w1", 9); got != "" {
			t.Error(got)
		}
		if n := len(s.startIn("h", 3, 2)); n != 0 {
			t.Errorf("a round starts %d", n)
		}
	})
}

// In the caller's transaction nothing is borrowed, for that would hold up the other shards until it ends; but it is asked for.
func TestProceduresAskInTransactions(t *testing.T) {
	proceduresSuite(t, func(o *queue.Options) { o.ThrottleLimit, o.Shards = 8, 4 }, func(s store) {
		for i := range 5 {
			s.add(job.New{Type: "send", Key: fmt.Sprint(i), ShardKey: in(1, 4)})
		}
		conn := s.conn()
		grab := func() int {
			must[any](t)(conn.ExecContext(t.Context(), "START TRANSACTION WITH CONSISTENT SNAPSHOT"))
			n := len(must[[]row](t)(tryOn(t.Context(), conn, "job_grab", "w1", "emails", "send", 9)))
			must[any](t)(conn.ExecContext(t.Context(), "COMMIT"))
			return n
		}
		if n := grab(); n != 2 {
			t.Errorf("%d", n)
		}
		s.wantWhole(8, 0)
		s.upkeep()
		if n := grab(); n != 3 {
			t.Errorf("%d", n)
		}
		s.wantWhole(8, 0)
	})
}

// A queue that is divided otherwise: what was placed before is started by nobody, until hipq has moved it.
func TestProceduresReshard(t *testing.T) {
	for _, rate := range []int{0, 9} {
		proceduresSuite(t, func(o *queue.Options) {
			o.Shards = 8
			if rate > 0 {
				o.Rate = job.Rate{Starts: rate, Per: time.Hour}
			}
		}, func(s store) {
			for i := range 3 {
				s.add(job.New{Type: "send", Key: fmt.Sprint(i)})
			}
			before := s.grab("w1")
			conn := s.conn()
			must[any](t)(conn.ExecContext(t.Context(), "START TRANSACTION WITH CONSISTENT SNAPSHOT")) // it sees the division of before
			o := options()
			o.Shards, o.Rate = 3, s.Rate
			q := must[*queue.Queue](t)(queue.New(s.db, o))
			s.exec("UPDATE shop_emails SET line = 'new' WHERE line = 'due'") // so that they are not moved
			must[int](t)(q.Reshard(t.Context()))
			must[any](t)(nil, q.Register(t.Context()))
			s.exec("UPDATE shop_emails SET line = 'due' WHERE line = 'new'")
			if got := must[[]row](t)(tryOn(t.Context(), conn, "job_grab", "w1", "emails", "send", 9)); len(got) != 0 && rate > 0 {
				t.Errorf("%v", got)
			}
			must[any](t)(conn.ExecContext(t.Context(), "ROLLBACK"))
			if got := s.grabbed("w1", 9); got != "" {
				t.Error(got)
			}
			// it was moved while it was locked
			s.one("job_start", "w1", "emails", before["id"], before["token"])
			s.one("job_complete", "w1", "emails", before["id"], before["token"], nil)
			moved := store{q, t, s.db}
			moved.upkeep()
			got := map[string]bool{}
			for range 6 {
				for _, key := range strings.Fields(s.grabbed("w1", 9)) {
					got[key] = true
				}
			}
			if len(got) != 2 {
				t.Errorf("%v", got)
			}
		})
	}
}

// Without its shards' rows a queue that takes turns starts nothing: there would be nothing to wait at.
func TestProceduresWithoutShards(t *testing.T) {
	for _, n := range []int{1, 8} {
		proceduresSuite(t, func(o *queue.Options) { o.ThrottleLimit, o.Shards = 8, n }, func(s store) {
			s.add(job.New{Type: "send", Key: "a"})
			s.exec("DELETE FROM shop_shards")
			if got := s.grabbed("w1", 9); got != "" {
				t.Error(got)
			}
			must[any](t)(nil, s.Register(t.Context()))
			if got := s.grabbed("w1", 9); got != "a" {
				t.Error(got)
			}
		})
	}
}
