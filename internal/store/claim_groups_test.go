package store_test

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// newStore is a queue with other options, on its own database.
func newStore(t *testing.T, driver, source string, change func(*queue.Options)) env {
	t.Helper()
	db := dbtest.Open(t, driver, source, "emails")
	o := options()
	change(&o)
	must[[]string](t)(db.Migrate(t.Context(), []schema.Queue{o.Table()}))
	return openStore(t, db, o)
}

// suiteWith runs a test on both engines, with changed options.
func suiteWith(t *testing.T, change func(*queue.Options), f func(s env)) {
	t.Helper()
	parallel(t)
	dbtest.Each(t, func(t *testing.T, driver, source string) { f(newStore(t, driver, source, change)) })
}

// countedSuite is suiteWith on connections that record what is sent; change may be nil.
func countedSuite(t *testing.T, change func(*queue.Options), f func(s env, sent *dbtest.Sent)) {
	t.Helper()
	parallel(t)
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db, sent := dbtest.Count(t, dbtest.Open(t, driver, source, "emails"), source)
		o := options()
		if change != nil {
			change(&o)
		}
		f(openStore(t, db, o), sent)
	})
}

// suites runs a test once for each of these changes, by name.
func suites(t *testing.T, changes map[string]func(*queue.Options), f func(s env)) {
	t.Helper()
	parallel(t)
	for name, change := range changes {
		t.Run(name, func(t *testing.T) { suiteWith(t, change, f) })
	}
}

func byRegion(limit int, limits map[string]int) func(*queue.Options) {
	return func(o *queue.Options) {
		o.ThrottleLimit, o.ThrottleGroups = limit, &job.ThrottleGroups{By: "data.to.region", Limits: limits}
	}
}

func inRegion(region string, weight int) job.Params {
	return job.Params{Type: "send", Data: fmt.Sprintf(`{"to": {"region": %q}}`, region), ThrottleFactor: &weight}
}

// With any number of full groups, all jobs are found and none overtakes.
func TestManyFullGroups(t *testing.T) {
	suiteWith(t, byRegion(0, map[string]int{"*": 1}), func(s env) {
		const groups = 250
		var jobs []job.Params
		for i := range 2 * groups {
			jobs = append(jobs, inRegion(fmt.Sprint(i%groups), 1))
		}
		s.add(jobs...)
		s.hire("w1")
		drain := func() (all []*job.Job) {
			candidates := s.candidates("send", "report")
			for {
				r := s.newRound("w1", 1000) // more than the groups that it looks at
				r.Candidates = candidates
				done := s.do(r)
				all = append(all, done.Started...)
				if len(done.Started) == 0 && !done.More {
					return all
				}
			}
		}
		first := drain()
		c := must[admin.Counts](t)(s.Counts(t.Context()))
		require(t, len(first) == groups && c.Held == groups, "%d started, counts %+v", len(first), c)
		s.settle("w1", done, first...)
		s.add(inRegion("99", 1)) // the last group, after the held one
		second := drain()
		got := s.places(second)
		dbtest.Ensure(t, len(got) == groups && slices.Contains(got, groups+100) && !slices.Contains(got, 2*groups+1), "%d started: %v", len(got), got)
	})
}

// A held job comes after a better due job of its group, however many other due jobs precede that.
func TestHeldJobsDontOvertake(t *testing.T) {
	suiteWith(t, byRegion(0, map[string]int{"east": 1, "west": 1}), func(s env) {
		s.add(inRegion("east", 1), inRegion("east", 1), inRegion("west", 1))
		first := s.start("w1", 9)
		s.wantState(s.nth(2), job.Initial, "throttled", 0)
		for _, region := range []string{"west", "east"} {
			better := inRegion(region, 1)
			better.Priority = new(1)
			s.add(better) // 4 and 5, in this order
		}
		// Only east has room: 4 is looked at and held, then comes 5, then the held ones.
		equal(s.t, s.places(s.do(s.newRound("w1", 1, settled(done, first[0])...)).Started), []int64{5}, "started")
	})
}

// The first job that a group holds, of any type, is let in: another would leave it behind jobs that wait for the queue's limit.
func TestFirstHeldJobIsLetIn(t *testing.T) {
	suiteWith(t, byRegion(0, map[string]int{"east": 1}), func(s env) {
		for _, name := range []string{"report", "send", "report", "send"} {
			j := inRegion("east", 1)
			j.Type = name
			s.add(j)
		}
		running := s.start("w1", 9)
		require(s.t, len(running) == 1 && running[0].ID == s.nth(1), "%v started", ids(running))
		s.settle("w1", finished, running...)
		equal(s.t, column[int64](s, "SELECT id FROM shop_emails WHERE part = 'line'"), []int64{s.nth(2)}, "let in")
	})
}

// A held job that only other workers run isn't overtaken within its group, although no config has its type.
func TestHeldJobOfATypeThatNoConfigHas(t *testing.T) {
	suiteWith(t, byRegion(0, map[string]int{"east": 2}), func(s env) {
		for _, name := range []string{"send", "send", "send", "theirs", "send"} {
			j := inRegion("east", 1)
			j.Type = name
			s.add(j)
		}
		running := s.start("w1", 9)
		equal(s.t, s.places(running), []int64{1, 2}, "started")
		s.hire("w2")
		equal(s.t, len(s.doWith(s.candidates("theirs"), "w2", 9).Started), 0, "by the other worker started")
		s.wantState(s.nth(4), job.Initial, "throttled", 0)
		s.settle("w1", done, running...)
		equal(s.t, s.places(s.start("w1", 9)), []int64{3}, "then started")
		equal(s.t, len(s.start("w1", 9)), 0, "behind another worker's job started")
	})
}

// If a group's first held job can't start after all, the next one does, not a later one.
func TestHeldJobsFollowEachOther(t *testing.T) {
	suiteWith(t, byRegion(0, map[string]int{"*": 1}), func(s env) {
		s.add(slices.Repeat([]job.Params{inRegion("east", 1)}, 3)...)
		first := s.start("w1", 9)
		s.wantState(s.nth(3), job.Initial, "throttled", 0)
		s.add(inRegion("east", 1)) // 4
		now := must[time.Time](s.t)(s.db.SQL.Clock(s.t.Context()))
		closed := must[job.Windows](s.t)(job.ParseWindows([]string{now.Add(2*time.Hour).Format("15:04") + "-" + now.Add(3*time.Hour).Format("15:04")}))
		s.exec("UPDATE shop_emails SET time_windows = ? WHERE id = ?", closed.Encode(), s.nth(2))
		got := s.places(s.do(s.newRound("w1", 1, settled(done, first...)...)).Started)
		ensure(s.t, len(got) == 0 || got[0] == 3, "started %v", got)
		s.wantState(s.nth(2), job.Initial, "scheduled", 0)
	})
}

// A round that could have started more held jobs says so, although nothing is due.
func TestMoreIsHeld(t *testing.T) {
	suiteWith(t, byRegion(0, map[string]int{"east": 2}), func(s env) {
		s.add(slices.Repeat([]job.Params{inRegion("east", 1)}, 5)...)
		first := s.start("w1", 9)
		candidates := s.candidates("send")
		round := func(settle ...store.Settled) store.Done { return s.doWith(candidates, "w1", 1, settle...) }
		got := round(settled(done, first...)...)
		ensure(s.t, slices.Equal(s.places(got.Started), []int64{3}) && got.More, "started %v, more is %v", ids(got.Started), got.More)
		equal(s.t, s.places(round().Started), []int64{4}, "then started")
		got = round()
		ensure(s.t, len(got.Started) == 0 && !got.More, "with the group full, started %v, more is %v", ids(got.Started), got.More)
	})
}

// However many jobs many groups hold, a round reads no more than it may need.
func TestManyHeldJobs(t *testing.T) {
	dbtest.Long(t, "one worker has no races")
	countedSuite(t, byRegion(0, map[string]int{"*": 1}), func(s env, sent *dbtest.Sent) {
		const groups, each, times = 99, 21, 3 // 16,632
		var args []any
		for i := range groups * each {
			args = append(args, fmt.Sprint("data.to.region=", i%groups))
		}
		const columns = "job_type, job_data, status, timeout, priority, throttle_factor, time_windows, throttle_group"
		const row = "('send', 'x', 'throttled', 60, 100, 1, 'NONE', ?)"
		s.exec("INSERT INTO shop_emails ("+columns+") VALUES "+engine.Rows(row, groups*each), args...)
		for range times {
			s.exec("INSERT INTO shop_emails (" + columns + ") SELECT " + columns + " FROM shop_emails")
		}
		s.exec("UPDATE shop_emails SET asked_time = '2026-01-01 00:00:00.000000' WHERE id <= ?", s.nth(groups)) // the groups have room
		s.hire("w1")
		r := s.newRound("w1", each<<times)
		var jobs []*job.Job
		var cost int
		for range 2 { // the second time the worker knows the groups
			r.Token, r.Settle = r.Token[1:], settled(done, jobs...)
			cost = dbtest.Statements(sent.During(func() { jobs = s.do(r).Started }))
			equal(s.t, len(jobs), groups, "started, one of each group")
		}
		ensure(s.t, cost <= 30, "%d statements", cost)
	})
}

// Whatever its data, a job gets the right group, and with new data a new one.
func TestGroupOfAJob(t *testing.T) {
	suiteWith(t, byRegion(0, map[string]int{"7": 1, "true": 1, "ä": 1}), func(s env) {
		for _, data := range []string{`{"to":{"region":7}}`, `{"to":{"region":7}}`, `{"to":{"region":true}}`, `{"to":{"region":true}}`, `{"to":{"region":"\u00e4"}}`, `{"to":{"region":"ä"}}`} {
			s.add(job.Params{Type: "send", Data: data, Key: fmt.Sprint(len(s.add()), data, rand.Int())})
		}
		for _, data := range []string{`{"to":{"region":null}}`, `{"to":"region"}`, `{"to":{"region":[7]}}`, `{"to":{"region":{}}}`, `{`, ``, `[]`} {
			s.add(job.Params{Type: "send", Data: data})
		}
		equal(t, s.places(s.start("w1", 20)), []int64{1, 3, 5, 7, 8, 9, 10, 11, 12, 13}, "started")
		_, err := s.EnqueueMany(t.Context(), []job.Params{{Type: "send", Key: s.get(s.nth(2)).Key, Data: `{"to":{"region":"elsewhere"}}`, OnDuplicate: job.ReplaceDuplicate}})
		must[any](t)(nil, err)
		equal(t, s.places(s.start("w1", 20)), []int64{2}, "after the change of its data: started")
	})
}

// groupModel recomputes from the rows what must always hold.
type groupModel struct {
	env
	limit  int
	limits map[string]int
}

type groupRow struct {
	ID     int64
	Status job.Status
	Weight int `db:"throttle_factor"`
	Data   string
	Rank   int `db:"priority"`
}

func (m groupModel) rows() (rows []groupRow) {
	m.t.Helper()
	err := m.db.SQL.SelectContext(m.t.Context(), &rows, "SELECT id, status, throttle_factor, priority, job_data AS data FROM shop_emails ORDER BY priority, id")
	must[any](m.t)(nil, err)
	return rows
}

// check expects that the limits are kept, and that the last round started no job of a group before an earlier one.
func (m groupModel) check(started []int64) {
	m.t.Helper()
	all, counted, byGroup, countedIn := 0, 0, map[string]int{}, map[string]int{}
	waitsIn := map[string]int64{}
	for _, r := range m.rows() {
		switch {
		case r.Weight == 0:
		case r.Status == job.StatusRunning:
			all, counted = all+r.Weight, counted+1
			byGroup[r.Data] += r.Weight
			countedIn[r.Data]++
			first, ok := waitsIn[r.Data]
			ensure(m.t, !ok || !slices.Contains(started, r.ID), "%d was started before %d of the same group", r.ID, first)
		case r.Status == "available" || r.Status == "throttled":
			if _, ok := waitsIn[r.Data]; !ok {
				waitsIn[r.Data] = r.ID
			}
		}
	}
	ensure(m.t, m.limit <= 0 || all <= m.limit || counted <= 1, "%d jobs weigh %d, the limit is %d", counted, all, m.limit)
	for group, weight := range byGroup {
		if limit := m.limits[group]; limit > 0 && weight > limit && countedIn[group] > 1 {
			m.t.Errorf("%d jobs of group %s weigh %d, its limit is %d", countedIn[group], group, weight, limit)
		}
	}
}

// groupsAtRandom adds, settles and starts jobs of these regions at random until all are done. It checks after each round.
func groupsAtRandom(t *testing.T, limit int, limits map[string]int, regions []string, steps, atOnce int) {
	t.Helper()
	suiteWith(t, byRegion(limit, limits), func(s env) {
		m := groupModel{s, limit, map[string]int{}}
		for _, region := range regions {
			l, ok := limits[region]
			if !ok {
				l = limits[job.OtherGroups]
			}
			m.limits[inRegion(region, 1).Data] = l
		}
		seed := rand.Uint64()
		s.t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		// One for each worker, because they remember which groups they looked at.
		candidates := map[string]*store.Candidates{}
		for _, w := range []string{"w0", "w1", "w2"} {
			s.hire(w)
			candidates[w] = s.candidates("send")
		}
		var running []*job.Job
		ended, added := 0, 0
		for step := 0; ended < added || step < steps; step++ {
			require(s.t, step <= 50*steps, "%d of %d are done", ended, added)
			if step < steps {
				var jobs []job.Params
				for range random.IntN(2 * atOnce) {
					j := inRegion(regions[random.IntN(len(regions))], random.IntN(6))
					j.Priority = new(random.IntN(5))
					jobs = append(jobs, j)
				}
				added += len(s.add(jobs...))
			}
			worker := fmt.Sprint("w", random.IntN(3))
			var settle []*job.Job
			running = slices.DeleteFunc(running, func(j *job.Job) bool {
				if j.WorkerID != worker || random.IntN(3) == 0 {
					return false
				}
				settle = append(settle, j)
				return true
			})
			r := s.newRound(worker, 1+random.IntN(2*atOnce), settled(done, settle...)...)
			r.Candidates = candidates[worker]
			for _, c := range append(inAll(r.Candidates), r.Candidates) {
				c.Forget() // otherwise it may overtake new jobs
			}
			started := s.do(r).Started
			m.check(ids(started))
			running, ended = append(running, started...), ended+len(settle)
		}
	})
}

func TestGroupsAtRandom(t *testing.T) {
	parallel(t)
	for _, limit := range []int{0, 7} {
		groupsAtRandom(t, limit, map[string]int{"east": 4, "west": 2, "*": 3}, []string{"east", "west", "north", "south"}, 25, 4)
	}
}

// With more groups than a round looks at, due jobs still don't overtake held ones.
func TestHundredsOfGroupsAtRandom(t *testing.T) {
	parallel(t)
	dbtest.Long(t, "one worker has no races")
	regions := make([]string, 250)
	for i := range regions {
		regions[i] = fmt.Sprint("region-", i)
	}
	groupsAtRandom(t, 0, map[string]int{"*": 5}, regions, 6, 150)
}

// A job that one worker read as due and another's round held since is met twice when its group has room. It is started once.
func TestHeldSinceItWasRead(t *testing.T) {
	suiteWith(t, byRegion(0, map[string]int{"east": 2, "west": 9}), func(s env) {
		s.add(inRegion("east", 2))
		running := s.start("v", 1)
		s.add(inRegion("west", 1), inRegion("west", 1), inRegion("east", 1), inRegion("west", 1)) // 2 to 5
		s.hire("w")
		candidates := s.candidates("send", "report")
		round := func(n int) []int64 { return s.places(s.doWith(candidates, "w", n).Started) }
		equal(t, round(1), []int64{2}, "started")
		s.start("v", 2) // 3 and 5, and holds 4
		s.wantState(s.nth(4), job.Initial, "throttled", 0)
		s.settle("v", done, running...)
		equal(t, round(2), []int64{4}, "started")
		s.wantState(s.nth(4), job.Running, "running", 1)
	})
}

// Room that is made while another round, which saw the group full, has a job of the group held isn't lost.
func TestRoomWhileAnotherRoundHolds(t *testing.T) {
	mysqlSuite(t, byRegion(0, map[string]int{"east": 1}), func(s env) {
		s.add(inRegion("east", 1), inRegion("east", 1))
		running := s.start("v", 1)
		other := must[*sql.Tx](t)(s.db.SQL.BeginTx(t.Context(), nil))
		defer func() { _ = other.Rollback() }()
		exec := func(statement string, args ...any) {
			t.Helper()
			must[any](t)(other.ExecContext(t.Context(), statement, args...))
		}
		exec("UPDATE " + s.db.Shards() + " SET turn = turn + 1")
		exec("UPDATE shop_emails SET status = 'throttled', throttle_group = 'data.to.region=east' WHERE id = ?", s.nth(2))
		settled := make(chan struct{})
		go func() { s.settle("v", done, running...); close(settled) }()
		s.waitsForItsTurn()
		must[any](t)(nil, other.Commit())
		<-settled
		equal(t, s.places(s.start("w", 1)), []int64{2}, "started")
	})
}

// TestLockedInLineIsNotOvertaken: another transaction has the row of a job that its group has let in. Nothing of the group passes it.
func TestLockedInLineIsNotOvertaken(t *testing.T) {
	mysqlSuite(t, byRegion(0, map[string]int{"east": 1}), func(s env) {
		east := inRegion("east", 1)
		s.add(east, east)
		running := s.start("v", 2)
		s.settle("v", done, running...) // 2 is in line
		s.add(east)
		other := must[*sql.Tx](t)(s.db.SQL.BeginTx(t.Context(), nil))
		must[any](t)(other.ExecContext(t.Context(), "SELECT id FROM shop_emails WHERE id = ? FOR UPDATE", s.nth(2)))
		equal(t, s.places(s.start("w", 1)), nil, "started beside the lock")
		must[any](t)(nil, other.Rollback())
		equal(t, s.places(s.start("w", 2)), []int64{2}, "started")
	})
}
