package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// orderOf returns the order in which a worker starts the due jobs, some at a time.
func (s env) orderOf(worker string) (list []int64) {
	s.t.Helper()
	s.hire(worker)
	candidates := s.candidates("send", "report")
	for {
		started := s.places(s.doWith(candidates, worker, 2).Started)
		if len(started) == 0 {
			return list
		}
		list = append(list, started...)
	}
}

// jumble adds jobs of two types that sort differently in each order.
func (s env) jumble() {
	s.t.Helper()
	now := must[time.Time](s.t)(s.db.SQL.Clock(s.t.Context())).Add(-time.Hour)
	for _, j := range []struct{ priority, minute int }{{30, 1}, {20, 3}, {10, 3}, {30, 2}, {20, 0}, {-10, 2}, {30, 4}} {
		name := []string{"send", "report"}[j.minute%2]
		s.add(job.Params{Type: name, Priority: new(j.priority), At: now.Add(time.Duration(j.minute) * time.Minute)})
	}
}

var orders = []struct {
	name     string
	order    job.Order
	priority job.PriorityOrder
	want     []int64
}{
	{"priority", job.ByPriority, job.LowestFirst, []int64{6, 3, 5, 2, 1, 4, 7}},
	{"highest", job.ByPriority, job.HighestFirst, []int64{1, 4, 7, 5, 2, 3, 6}},
	{"schedule", job.BySchedule, job.LowestFirst, []int64{5, 1, 4, 6, 2, 3, 7}},
	{"schedule highest", job.BySchedule, job.HighestFirst, []int64{5, 1, 4, 6, 2, 3, 7}},
}

// A queue with a changed order starts existing jobs in the new one.
func TestOrderMayChange(t *testing.T) {
	suite(t, func(s env) {
		s.jumble()
		for _, c := range slices.Concat(orders, orders[:1]) {
			o := options()
			o.Order, o.PriorityOrder = c.order, c.priority
			must[[]string](s.t)(s.db.Migrate(s.t.Context(), []schema.Queue{o.Table()}))
			changed := openStore(s.t, s.db, o)
			equal(s.t, changed.orderOf("w1"), c.want, "%s: started", c.name)
			s.exec("UPDATE shop_emails SET status = 'available', attempt = 0, worker_id = 'NONE', lock_token = 'NONE'")
			ahead := must[admin.Why](s.t)(changed.Why(s.t.Context(), s.nth(2), admin.Asker{})).Ahead
			want := slices.Index(c.want, 2)
			ensure(s.t, ahead == int64(want), "%s: %d are ahead of job 2, want %d", c.name, ahead, want)
		}
	})
}

// A table with another order is detected before anything else, with the remedy.
func TestOrderIsChecked(t *testing.T) {
	suite(t, func(s env) {
		o := options()
		o.Order = job.BySchedule
		err := s.db.Check(t.Context(), []schema.Queue{o.Table()})
		kind, hint := schema.Diagnose(err)
		ensure(t, kind == schema.Misconfigured && hint == "run hipq init" && strings.Contains(err.Error(), "emails"), "%v (%s)", err, hint)
		changed := must[[]string](t)(s.db.Migrate(t.Context(), []schema.Queue{o.Table()}))
		equal(t, changed, []string{"shop_emails"}, "changed")
		must[any](t)(nil, s.db.Check(t.Context(), []schema.Queue{o.Table()}))
	})
}

// A worker continues in the table's new order after that was changed.
func TestTableOfAnotherOrder(t *testing.T) {
	suite(t, func(s env) {
		s.add(job.Params{Type: "send", Priority: new(1)}, job.Params{Type: "send", Priority: new(3)}, job.Params{Type: "send", Priority: new(2)})
		o := options()
		o.PriorityOrder = job.HighestFirst
		must[[]string](t)(s.db.Migrate(t.Context(), []schema.Queue{o.Table()}))
		for _, n := range []int{2, 3, 1} {
			equal(t, ids(s.start("w", 1)), []int64{s.nth(n)}, "started")
		}
	})
}

// The upkeep is the same in any order.
func TestUpkeepInAnyOrder(t *testing.T) {
	suiteWith(t, func(o *queue.Options) { o.Order = job.BySchedule }, func(s env) {
		s.add(job.Params{Type: "send"}, job.Params{Type: "send", In: time.Hour}, job.Params{Type: "send"}, job.Params{Type: "send"})
		s.exec("UPDATE shop_emails SET status = 'throttled' WHERE id = ?", s.nth(1)) // and its groups were removed
		s.exec("UPDATE shop_emails SET wake_time = '2026-01-01 00:00:00.000000' WHERE id = ?", s.nth(2))
		s.exec("INSERT INTO shop_emails (job_type, job_data) VALUES ('send', 'plain')")
		s.lockOutside("gone", s.nth(3))
		s.upkeep()
		for n := range 5 {
			s.wantState(s.nth(n+1), job.Initial, job.StatusAvailable, 0)
		}
		must[admin.Counts](t)(s.Counts(t.Context()))
		must[admin.Why](t)(s.Why(t.Context(), s.nth(4), admin.Asker{}))
	})
}

// A retry that becomes due is before the jobs that a worker has read ahead. It starts at the latest once those are started.
func TestDueBeforeWhatWasRead(t *testing.T) {
	suite(t, func(s env) {
		s.hire("w")
		s.add(job.Params{Type: "send"}, job.Params{Type: "send"}, job.Params{Type: "send"})
		candidates := s.candidates("send")
		equal(t, s.places(s.doWith(candidates, "w", 1).Started), []int64{1}, "started")
		s.add(job.Params{Type: "send", Priority: new(-1)})
		candidates.News()
		done := s.doWith(candidates, "w", 2)
		equal(t, s.places(done.Started), []int64{2, 3}, "started")
		ensure(t, done.More, "the round says that no job is left")
		done = s.doWith(candidates, "w", 2)
		equal(t, s.places(done.Started), []int64{4}, "started")
		ensure(t, !done.More, "the round says that more jobs are left")
	})
}

// The next job is passed over for at most a second, or ten times a long read, and never longer than five seconds.
func TestHeadIsReadAgain(t *testing.T) {
	for _, c := range []struct {
		ago, took time.Duration
		again     bool
	}{
		{900 * time.Millisecond, 0, false},
		{time.Second, 0, true},
		{2 * time.Second, 300 * time.Millisecond, false},
		{3 * time.Second, 300 * time.Millisecond, true},
		{4 * time.Second, time.Hour, false},
		{5 * time.Second, time.Hour, true},
	} {
		equal(t, store.IsStale(c.ago, c.took), c.again, "%s after a read of %s", c.ago, c.took)
	}
}

// A round that starts nothing beside a job in line reads the head again once, and doesn't ask for another round.
func TestRoundBesideTheLine(t *testing.T) {
	for name, change := range map[string]func(*queue.Options){
		"another type": func(o *queue.Options) { o.ThrottleLimit = 3 }, "too heavy": byRegion(0, map[string]int{"*": 3}),
	} {
		t.Run(name, func(t *testing.T) {
			suiteWith(t, change, func(s env) {
				s.hire("a")
				s.hire("b")
				s.add(inRegion("x", 2), inRegion("x", 2))
				a, b := s.candidates("send"), s.candidates("report")
				equal(t, s.places(s.doWith(a, "a", 4).Started), []int64{1}, "started")
				s.doWith(b, "b", 4)
				for range 3 {
					a.News()
					b.News()
					ensure(t, !s.doWith(a, "a", 4).More && !s.doWith(b, "b", 4).More, "the round says that more could start")
				}
			})
		})
	}
}

// A round may start what it has just settled.
func TestRoundStartsWhatItSettles(t *testing.T) {
	suite(t, func(s env) {
		s.add(job.Params{Type: "send"})
		jobs := s.start("w", 1)
		for range 2 {
			jobs = s.doWith(s.candidates("send"), "w", 1, settled(job.Outcome{Verdict: job.Interrupted}, jobs...)...).Started
			equal(t, s.places(jobs), []int64{1}, "started again")
		}
	})
}

// Workers that start jobs of the same types share what they read ahead. What one leaves behind, the other one starts.
func TestWorkersShareWhatTheyReadAhead(t *testing.T) {
	suiteWith(t, func(*queue.Options) {}, func(s env) {
		s.hire("a")
		s.hire("b")
		a, b := s.core().Candidates(0, []string{"send"}), s.core().Candidates(0, []string{"send"})
		a.Stripe(2, 0)
		b.Stripe(2, 1)
		var all []any
		for id := range 400 { // on a cluster, the ids that it gives lie apart
			all = append(all, id+1)
		}
		s.exec("INSERT INTO shop_emails (id, job_type, status, timeout, priority, throttle_factor, time_windows) VALUES "+
			engine.Rows("(?, 'send', 'available', 60, 100, 1, 'NONE')", len(all)), all...)
		round := func(c *store.Candidates, worker string) (first, last int64) {
			done := s.doWith(c, worker, 10)
			require(t, len(done.Started) == 10 && !done.Missed, "started %v", ids(done.Started))
			return done.Started[0].ID, done.Started[9].ID
		}
		want := func(c *store.Candidates, worker string, first, last int64) {
			t.Helper()
			got, end := round(c, worker)
			ensure(t, got == first && end == last, "%s started %d to %d, want %d to %d", worker, got, end, first, last)
		}
		want(a, "a", 1, 10)
		want(b, "b", 11, 20)
		want(a, "a", 21, 30) // a has jobs 1 to 63 and 128 to 191, b those between
		want(b, "b", 64, 73)
		want(a, "a", 31, 40)
		want(a, "a", 41, 50)
		want(a, "a", 51, 60)
		want(a, "a", 61, 134)
		a.Forget()
		want(a, "a", 74, 83) // the first of all are for anyone
		want(a, "a", 135, 144)
		a.Forget()
		want(a, "a", 84, 93)
		want(a, "a", 94, 103)  // b has left them behind
		want(b, "b", 104, 113) // it is behind as well: its read found them before
		for {
			done := s.doWith(a, "a", 10)
			if len(done.Started) == 0 && !done.More {
				break
			}
		}
		equal(t, value[int](s, "SELECT COUNT(*) FROM shop_emails WHERE status = 'available'"), 0, "left")
	})
}

// A poll and a round find the due jobs of exactly the types that a worker serves, whichever types have some.
func TestTypes(t *testing.T) {
	suite(t, func(s env) {
		all := []string{"a", "b", "c", "d", "e"}
		for due := range 1 << len(all) {
			var there []string
			var jobs []job.Params
			for i, name := range all {
				if due>>i&1 == 1 {
					there = append(there, name)
					jobs = append(jobs, job.Params{Type: name, ThrottleFactor: new(i % 2)})
				}
			}
			for _, types := range []store.Types{
				{}, {"b"}, {"a", "e"}, {"*"}, {"*", "b"}, {"c", "*", "a", "e"}, {"a", "b", "*", "c", "d", "e"}, {"*", "a", "b", "c", "d", "e"},
			} {
				s.exec("DELETE FROM shop_emails")
				if len(jobs) > 0 {
					s.add(jobs...)
				}
				var want []string
				for _, name := range there {
					at := slices.Index(types, "*")
					own := at < 0 && slices.Contains(types, name) || at >= 0 && !slices.Contains(types[at+1:], name)
					ensure(s.t, types.Has(name) == own, "%v has %s", types, name)
					if own {
						want = append(want, name)
					}
				}
				ensure(s.t, must[store.Poll](s.t)(s.core().Poll(s.t.Context(), types)).Due == (len(want) > 0), "a poll for %v beside jobs of %v", types, there)
				var got []string
				s.hire("w")
				for _, j := range s.doWith(s.candidates(types...), "w", 10).Started {
					got = append(got, j.Type)
				}
				slices.Sort(got)
				equal(s.t, strings.Join(got, " "), strings.Join(want, " "), fmt.Sprint("a round for ", types, " beside jobs of ", there))
			}
		}
	})
}

// Retry decisions go by the same types.
func TestUndecidedOfTypes(t *testing.T) {
	suite(t, func(s env) {
		s.hire("w")
		for _, name := range []string{"a", "b", "c"} {
			s.add(job.Params{Type: name})
		}
		for _, j := range s.doWith(s.candidates("*"), "w", 10).Started {
			s.fail(job.StatusUndecided, job.Outcome{Verdict: job.TryAgain, Error: "no"}, j)
		}
		for i, types := range []store.Types{{"*", "a", "b", "c"}, {"*", "a", "b"}, {"a", "*", "b"}} {
			list := must[[]store.Settled](s.t)(s.core().Undecided(s.t.Context(), s.newRound("w", 5), types))
			equal(s.t, len(list), []int{0, 1, 1}[i], fmt.Sprint("jobs to decide about for ", types))
		}
	})
}

// A poll and rounds read little with 200 types behind one handler, three of which have many due jobs, or all; and as much
// however many are due.
func TestManyTypesReadLittle(t *testing.T) {
	parallel(t)
	for name, change := range map[string]func(*queue.Options){
		"plain": func(*queue.Options) {}, "limit": func(o *queue.Options) { o.ThrottleLimit = 1000 },
	} {
		t.Run(name, func(t *testing.T) {
			mysqlSuite(t, change, func(s env) {
				const types = 200
				class := func(i int) string { return fmt.Sprintf(`App\Jobs\Class%03d`, i) }
				for i := range types {
					s.multiply(class(i), job.StatusScheduled, 1, 1, 5, 0)
				}
				s.hire("w")
				measure := func(what string, mostOfPoll, mostOfRound int64) {
					var jobs []*job.Job
					poll := s.reads(func() { must[store.Poll](s.t)(s.core().Poll(s.t.Context(), store.Types{"*"})) })
					candidates := s.candidates("*")
					first := s.reads(func() { jobs = s.doWith(candidates, "w", 10).Started })
					next := s.reads(func() { jobs = append(jobs, s.doWith(candidates, "w", 10, settled(finished, jobs...)...).Started...) })
					s.t.Logf("%s: a poll reads %d, the first round %d, the next %d", what, poll, first, next)
					ensure(s.t, len(jobs) == 20, "%s: two rounds started %d", what, len(jobs))
					ensure(s.t, poll <= mostOfPoll && first <= mostOfRound && next <= mostOfRound, "%s: a poll read %d, rounds %d and %d", what, poll, first, next)
				}
				for times := range 3 {
					for _, i := range []int{0, 77, 199} {
						s.multiply(class(i), job.StatusAvailable, 100, 1, 500, 2*times)
					}
					measure(fmt.Sprintf("three types, step %d", times), 100, 1200)
				}
				s.exec("UPDATE shop_emails SET status = 'available', wake_time = NULL WHERE status = 'scheduled'")
				measure("all types", 100, 5000)
			})
		})
	}
}

// A job type may have 255 bytes, in each index and by each way in.
func TestLongestType(t *testing.T) {
	suite(t, func(s env) {
		long := strings.Repeat("🙂", 63) + "xyz"
		equal(s.t, len(long), job.MaxTypeBytes, "bytes")
		id := s.add(job.Params{Type: long, Key: strings.Repeat("k", job.MaxKeyBytes)})[0].ID
		equal(s.t, s.get(id).Type, long, "its type")
		again := s.add(job.Params{Type: long, Key: strings.Repeat("k", job.MaxKeyBytes)})[0]
		ensure(s.t, again.Duplicate && again.ID == id, "%+v", again)
		s.exec("INSERT INTO shop_emails (job_type) VALUES (?)", long)
		s.hire("w")
		must[bool](s.t)(s.core().Upkeep(s.t.Context(), workers.Worker{ID: "w", Host: "h", PID: 1}, store.Poll{New: true}, nil, nil))
		equal(s.t, len(s.doWith(s.candidates("*"), "w", 10).Started), 2, "started")
		_, err := s.Enqueue(s.t.Context(), job.Params{Type: long + "z"})
		ensure(s.t, err != nil, "a longer one is refused")
		_, err = s.Enqueue(s.t.Context(), job.Params{Type: "*"})
		ensure(s.t, err != nil, "the type for all types is refused")
	})
}
