package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// reads counts the rows and index entries that the server reads for f. The store has one connection for it.
// It is 0 on SQLite.
func (s env) reads(f func()) int64 {
	s.t.Helper()
	if s.db.SQL.Engine == "sqlite" {
		f()
		return 0
	}
	s.db.SQL.SetMaxOpenConns(1)
	total := func() (sum int64) {
		rows, err := s.db.SQL.QueryContext(s.t.Context(), "SHOW SESSION STATUS LIKE 'Handler_read%'")
		must[any](s.t)(nil, err)
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var name string
			var n int64
			must[any](s.t)(nil, rows.Scan(&name, &n))
			sum += n
		}
		must[any](s.t)(nil, rows.Err())
		return sum
	}
	before := total()
	f()
	return total() - before
}

// multiply inserts n rows and doubles them several times: jobs of weight 1, each in the group of its number modulo groups.
func (s env) multiply(jobType string, status job.Status, priority, groups, n, times int) {
	s.t.Helper()
	const columns = "job_type, status, priority, throttle_group, job_data, timeout, throttle_factor, time_windows, wake_time"
	var args []any
	var wake engine.Time
	if status == job.StatusScheduled || status == job.StatusAwaiting {
		wake = engine.At(time.Now().Add(24 * time.Hour))
	}
	for i := range n {
		args = append(args, jobType, status, priority, fmt.Sprint("data.to.region=", i%groups), wake)
	}
	s.exec("INSERT INTO shop_emails ("+columns+") VALUES "+engine.Rows("(?, ?, ?, ?, 'x', 60, 1, 'NONE', ?)", n), args...)
	for range times {
		s.exec("INSERT INTO shop_emails ("+columns+") SELECT "+columns+" FROM shop_emails WHERE job_type = ? AND status = ? AND priority = ?", jobType, status, priority)
	}
}

// A round reads what it starts and some candidates, whatever else the table has. The statistics are those of a table that was
// empty a moment ago.
func TestRoundReadsLittle(t *testing.T) {
	parallel(t)
	for name, change := range map[string]func(*queue.Options){
		"plain": func(*queue.Options) {}, "limit": func(o *queue.Options) { o.ThrottleLimit = 1000 }, "groups": byRegion(0, map[string]int{"x": 1}),
		"highest":  func(o *queue.Options) { o.PriorityOrder = job.HighestFirst },
		"schedule": func(o *queue.Options) { o.Order = job.BySchedule },
	} {
		t.Run(name, func(t *testing.T) {
			mysqlSuite(t, change, func(s env) {
				s.multiply("send", job.StatusAvailable, 100, 1, 500, 3)
				s.multiply("send", job.StatusScheduled, 1, 1, 500, 3)
				s.multiply("send", job.StatusFinished, 1, 1, 500, 3)
				s.multiply("other", job.StatusAvailable, 1, 1, 500, 3)
				s.hire("w")
				var jobs []*job.Job
				for i := range 3 {
					n := s.reads(func() { jobs = s.do(s.newRound("w", 10, settled(finished, jobs...)...)).Started })
					ensure(s.t, len(jobs) == 10 && n <= 1000, "round %d started %d and read %d", i, len(jobs), n)
				}
			})
		})
	}
}

// Finding the groups with held jobs doesn't read their jobs.
func TestRoundReadsNothingThatIsHeld(t *testing.T) {
	mysqlSuite(t, byRegion(0, map[string]int{"*": 1}), func(s env) {
		for i := range 5 {
			s.add(inRegion(fmt.Sprint(i), 1))
		}
		s.start("w", 9)
		s.multiply("send", job.StatusThrottled, 100, 5, 500, 4) // 8,000
		s.add(job.Params{Type: "send", ThrottleFactor: new(0)})
		candidates := s.candidates("send")
		for i := range 3 {
			n := s.reads(func() { s.doWith(candidates, "w", 10) })
			ensure(s.t, n <= 1000, "round %d read %d", i, n)
		}
	})
}

// Jobs that await answers cost the rounds beside them nothing but a sum each 10 s, if the first job in line, which there is in
// "line", has room by the last sum.
func TestRoundsBesideAwaitingJobs(t *testing.T) {
	parallel(t)
	const jobs, room, awaiting = 400, 10, 51_200
	for name, slots := range map[string]int{"room": room, "line": 2 * room} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, driver, source string) {
				db, sent := dbtest.Count(t, dbtest.Open(t, driver, source, "emails"), source)
				// drain does 400 jobs, after the first sum, and returns what its rounds sent and read.
				drain := func(limit int) (statements, sums int, reads int64) {
					o := options()
					o.ThrottleLimit = limit
					s := openStore(t, db, o)
					s.add(slices.Repeat([]job.Params{inRegion("0", 1)}, jobs+1)...)
					s.settle("w", finished, s.start("w", 1)...)
					began := time.Now()
					var texts []string
					reads = s.reads(func() {
						texts = sent.During(func() {
							for n, running := 0, s.start("w", slots); len(running) > 0; {
								n += len(running)
								require(t, len(running) == room, "a round started %d, %d in all", len(running), n)
								running = s.do(s.newRound("w", slots, settled(finished, running...)...)).Started
							}
						})
					})
					sums = strings.Count(strings.Join(texts, ";"), " awaiting_time = ")
					ensure(t, sums <= 1+int(time.Since(began)/(10*time.Second)), "%d sums in %s", sums, time.Since(began))
					return dbtest.Statements(texts), sums, reads
				}
				statements, _, reads := drain(room)
				s := envOf(t, db, nil)
				s.multiply("asking", job.StatusAwaiting, 1, 1, awaiting>>7, 7)
				s.exec("UPDATE shop_shards SET awaiting_time = 0")
				n, sums, read := drain(room + awaiting)
				read -= int64(sums) * awaiting
				ensure(t, n <= statements*3/2 && read <= reads*3/2, "%d statements and %d reads without, %d and %d beside", statements, reads, n, read)
				t.Logf("%d statements and %d reads without, %d and %d beside, %d sums", statements, reads, n, read, sums)
			})
		})
	}
}

// A worker that finds nothing to start reads little beside 4,000 full groups that hold jobs: by the upkeep,
// and one poll a second or the four of a worker whose jobs wait.
func TestIdleWorkerBesideFullGroups(t *testing.T) {
	const groups = 4000
	mysqlSuite(t, byRegion(0, map[string]int{"*": 1}), func(s env) {
		var types []string
		for i := range 5 {
			types = append(types, fmt.Sprint("send-", i))
		}
		types[0] = "send"
		n := s.reads(func() { must[store.Poll](t)(s.core().Poll(t.Context(), types)) })
		ensure(t, n <= 100, "a poll of an empty queue read %d", n)
		for range 2 {
			var jobs []job.Params
			for i := range groups {
				jobs = append(jobs, inRegion(fmt.Sprint(i), 1))
			}
			s.add(jobs...)
			s.start("w", 5*groups)
		}
		for s.do(s.newRound("w", groups)).More {
		}
		c := must[admin.Counts](t)(s.Counts(t.Context()))
		require(t, c.Running == groups && c.Held == groups, "%+v", c)
		var l store.Poll
		poll := func() {
			if l = must[store.Poll](t)(s.core().Poll(t.Context(), types)); l.Due {
				s.doWith(s.candidates(types...), "w", 100)
			}
		}
		poll()
		upkeep := s.reads(func() {
			must[bool](t)(s.core().Upkeep(t.Context(), workers.Worker{ID: "w", Host: "h", PID: 1}, l, byPolicy(types...), nil))
		})
		once := s.reads(poll)
		for _, perSecond := range []int64{1, 4} {
			n := upkeep/20 + perSecond*once // the search rests 20 s beside so many jobs
			ensure(t, n <= 500, "at %d polls a second it reads %d entries a second: %+v", perSecond, n, l)
		}
		t.Logf("a poll reads %d, the upkeep %d, a poll of an empty queue %d", once, upkeep, n)
	})
}

// The newest jobs of a frequent status are found without all others of that status, and no older one is missing.
func TestNewestOfManyReadsLittle(t *testing.T) {
	suite(t, func(s env) {
		s.multiply("send", job.StatusFailed, 1, 1, 500, 5) // 16,000
		newest := func(most int) (ids []int64) {
			return must[[]int64](s.t)(s.FindIDs(s.t.Context(), admin.Filter{Status: admin.Failed, Limit: most}))
		}
		ids := newest(100)
		equal(s.t, len(ids), 100, "jobs")
		if s.db.SQL.Engine == "mysql" {
			n := s.reads(func() { newest(100) })
			ensure(s.t, n <= 6000, "it read %d", n)
		}
		s.multiply("send", job.StatusScheduled, 1, 1, 500, 2) // 2,000: all of the newest
		equal(s.t, newest(100), ids, "with others that are newer")
		if s.db.SQL.Engine == "mysql" {
			n := s.reads(func() {
				equal(s.t, len(must[[]int64](s.t)(s.FindIDs(s.t.Context(), admin.Filter{Status: admin.Running, Limit: 100}))), 0, "running jobs")
			})
			ensure(s.t, n <= 7000, "it read %d to find no running job", n)
		}
	})
}

// A round costs as many statements with many job types as with one.
func TestRoundOfManyTypes(t *testing.T) {
	dbtest.Long(t, "one worker has no races")
	for name, change := range map[string]func(*queue.Options){
		"plain":  func(*queue.Options) {},
		"limit":  func(o *queue.Options) { o.ThrottleLimit = 1000 },
		"groups": byRegion(1000, map[string]int{"*": 15}),
		"rate":   func(o *queue.Options) { o.Rate.Starts, o.Rate.Per = 1000, 1e12 },
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, driver, source string) {
				var costs [][]int
				for _, n := range []int{1, 20} {
					costs = append(costs, roundsOfTypes(t, driver, source, change, n))
				}
				equal(t, costs[0], costs[1], "statements of rounds with one type, and with 20")
				t.Logf("statements %v", costs[0])
			})
		})
	}
}

// roundsOfTypes returns how many statements some rounds send in a queue with n job types.
func roundsOfTypes(t *testing.T, driver, source string, change func(*queue.Options), n int) (costs []int) {
	t.Helper()
	o := queue.Options{Name: fmt.Sprint("of_", n)}
	var types []string
	for i := range n {
		types = append(types, fmt.Sprint("type-", i))
		o.Types = append(o.Types, job.DefaultType(types[i]))
	}
	change(&o)
	db := dbtest.Open(t, driver, source, "emails", o.Name)
	counted, sent := dbtest.Count(t, db, source)
	s := openStore(t, counted, o)
	s.hire("w")
	add := func() {
		for i := range 40 {
			s.add(job.Params{Type: types[i%n], Data: fmt.Sprintf(`{"to": {"region": "%d"}}`, i%2)})
		}
	}
	add()
	candidates := s.candidates(types...)
	var jobs []*job.Job
	for i := range 5 {
		if i == 4 {
			add() // at the end of the line it looks at the head again
		}
		r := s.newRound("w", 10, settled(finished, jobs...)...)
		if len(jobs) > 0 {
			r.Settle[0].Outcome = job.Outcome{Verdict: job.Failed, Error: "boo"}
		}
		r.Candidates = candidates
		costs = append(costs, dbtest.Statements(sent.During(func() { jobs = s.do(r).Started })))
		equal(t, len(jobs), 10, "%d types: round %d started", n, i)
	}
	return costs
}

// A round in a queue with turns checks only in its turn whether it may start jobs.
func TestRoundAsksOnceWhetherTheQueueIsOpen(t *testing.T) {
	parallel(t)
	for name, change := range map[string]func(*queue.Options){
		"plain": func(*queue.Options) {},
		"limit": func(o *queue.Options) { o.ThrottleLimit = 1000 },
		"rate":  func(o *queue.Options) { o.Rate.Starts, o.Rate.Per = 1000, 1e12 },
	} {
		t.Run(name, func(t *testing.T) {
			countedSuite(t, change, func(s env, sent *dbtest.Sent) {
				s.hire("w")
				s.add(make9("send")...)
				var jobs []*job.Job
				for range 2 {
					texts := sent.During(func() { jobs = s.do(s.newRound("w", 3, settled(finished, jobs...)...)).Started })
					n := strings.Count(strings.Join(texts, ";"), "paused ")
					ensure(s.t, n == 1 && len(jobs) == 3, "%d were started by a round that asks %d times", len(jobs), n)
				}
			})
		})
	}
}

// A round that knows no candidates reads them along with what each round asks first, and locks them in one round trip more.
func TestFirstRoundReadsAlong(t *testing.T) {
	parallel(t)
	source := dbtest.MySQL(t)
	counted, sent := dbtest.Count(t, dbtest.Open(t, "mysql", source, "emails"), source)
	s := openStore(t, counted, options())
	s.hire("w")
	s.add(make9("send")...)
	candidates := s.candidates("send")
	var trips []int
	for range 2 {
		trips = append(trips, len(sent.During(func() { equal(t, len(s.doWith(candidates, "w", 3).Started), 3, "started") })))
	}
	ensure(t, trips[0] == trips[1]+1 || s.db.SQL.IDsByKey, "%d round trips, then %d", trips[0], trips[1]) // on a cluster, each statement is one
}

// Discarding jobs at once costs a round no round trip.
func TestDiscardingCostsNoRoundTrip(t *testing.T) {
	parallel(t)
	var trips []int
	onCluster := false // each statement is sent alone there
	for _, keep := range []time.Duration{0, queue.DiscardAtOnce} {
		source := dbtest.MySQL(t)
		counted, sent := dbtest.Count(t, dbtest.Open(t, "mysql", source, "emails"), source)
		o := options()
		o.KeepFinished, o.KeepFailed = keep, keep
		s := openStore(t, counted, o)
		onCluster = s.db.SQL.IDsByKey
		s.hire("w")
		s.add(make9("send")...)
		r := s.newRound("w", 3, settled(finished, s.start("w", 4)...)...)
		r.Settle[0].Outcome = job.Outcome{Verdict: job.Failed, Error: "boo"}
		r.Settle[1].Outcome = job.Outcome{Verdict: job.Finished, Result: "it is done"}
		var got store.Done
		trips = append(trips, len(sent.During(func() { got = s.do(r) })))
		n := value[int](s, "SELECT COUNT(*) FROM shop_emails")
		want := map[time.Duration]int{0: 9, queue.DiscardAtOnce: 5}[keep]
		ensure(t, n == want && len(got.Started) == 3 && len(got.Lost) == 0, "%d jobs are left, want %d; the round: %+v", n, want, got)
	}
	ensure(t, trips[0] == trips[1] || onCluster, "%d round trips, but %d where jobs are discarded", trips[0], trips[1])
}

// The cost of writing jobs' groups doesn't grow quadratically.
func TestGroupsAreWrittenInParts(t *testing.T) {
	countedSuite(t, byRegion(0, map[string]int{"*": 150}), func(s env, sent *dbtest.Sent) {
		s.add(slices.Repeat([]job.Params{inRegion("east", 1)}, 400)...)
		s.hire("w")
		texts := sent.During(func() { equal(s.t, len(s.do(s.newRound("w", 300)).Started), 150, "started") })
		for _, text := range texts {
			for statement := range strings.SplitSeq(text, ";") {
				n := strings.Count(statement, " WHEN ")
				ensure(s.t, n <= 50, "a statement for the groups of %d jobs", n)
			}
		}
		n := value[int](s, "SELECT COUNT(*) FROM shop_emails WHERE throttle_group = 'data.to.region=east'")
		c := must[admin.Counts](s.t)(s.Counts(s.t.Context()))
		ensure(s.t, n == 400 && c.Held == 250 && c.Running == 150, "%d have their groups: %+v", n, c)
	})
}

// An idle tick queries a queue of many shards as few times as one of a single shard, even if they share a limit and a rate.
func TestIdleTickAsksOnceForAllShards(t *testing.T) {
	parallel(t)
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db, sent := dbtest.Count(t, dbtest.Open(t, driver, source, "emails"), source)
		for _, o := range []queue.Options{{}, {ThrottleLimit: 20, Rate: job.Rate{Starts: 9, Per: time.Second}}} {
			asked := map[int]int{}
			for _, n := range []int{1, 8, 64} {
				o.Name, o.Shards = "emails", n
				q := must[*queue.Queue](t)(queue.New(db, o))
				err := q.Register(t.Context())
				require(t, err == nil || errors.Is(err, queue.ErrShards), "%v", err)
				must[int](t)(admin.Of(q).Reshard(t.Context()))
				must[any](t)(nil, q.Register(t.Context()))
				texts := sent.During(func() {
					must[any](t)(nil, q.Register(t.Context()))
					look := must[store.Poll](t)((*store.Queue)(q).Poll(t.Context(), []string{"send"}))
					ensure(t, look.Nothing(), "a look finds %+v", look)
				})
				if asked[n] = len(texts); asked[n] != asked[1] || asked[n] == 0 {
					t.Errorf("limit %d: for %d shards a tick asks %d times, for 1 %d times:\n%.3000s", o.ThrottleLimit, n, asked[n], asked[1], strings.Join(texts, "\n"))
				}
			}
		}
	})
}
