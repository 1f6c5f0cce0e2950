package store_test

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// sortedByID is for lists without an order of their own.
func sortedByID(jobs []*job.Job) []*job.Job {
	return slices.SortedFunc(slices.Values(jobs), func(a, b *job.Job) int { return cmp.Compare(a.ID, b.ID) })
}

// A round of a worker whose jobs are stopped, because it gave up its lock, settles its jobs and starts none.
func TestStoppedRoundStartsNothing(t *testing.T) {
	suite(t, func(s env) {
		s.add(job.Params{Type: "send"})
		jobs := s.start("w", 1)
		s.add(job.Params{Type: "send"})
		r := s.newRound("w", 2, settled(finished, jobs...)...)
		r.Stopped = func() error { return context.Canceled }
		equal(s.t, len(s.do(r).Started), 0, "started")
		s.wantState(s.nth(1), job.Final, "finished", 1)
		s.wantState(s.nth(2), job.Initial, "available", 0)
	})
}

// A round whose commit got no reply is repeated, and finds what the first one did.
func TestRoundMayBeRepeated(t *testing.T) {
	parallel(t)
	for _, change := range []func(*queue.Options){
		func(*queue.Options) {}, byRegion(9, map[string]int{"*": 9}), func(o *queue.Options) { o.Rate = job.Rate{Starts: 9, Per: time.Hour} },
	} {
		suiteWith(t, change, func(s env) {
			for i := range 9 {
				s.add(job.Params{Type: []string{"send", "report"}[i%2], Data: `{"to": {"region": "east"}}`})
			}
			jobs := s.start("w", 5)
			r := s.newRound("w", 2, settled(finished, jobs[0])...)
			r.Settle = append(r.Settle,
				store.Settled{Job: jobs[1], Outcome: job.Outcome{Verdict: job.Finished, Result: "r", Output: "said"}},
				store.Settled{Job: jobs[2], Outcome: job.Outcome{Verdict: job.TryAgain, Error: "boo"}},
				store.Settled{Job: jobs[3], Outcome: job.Outcome{Verdict: job.TryAgain, Error: "ask"}, Asks: true},
				store.Settled{Job: jobs[4], Outcome: job.Outcome{Verdict: job.Failed, Error: "no"}})
			first := s.do(r)
			require(s.t, slices.Equal(s.places(first.Started), []int64{6, 7}) && len(first.Resting) == 1 && first.Resting[0].Job == jobs[3],
				"the first time: %+v", first)
			var before []job.Job
			for n := range 9 {
				before = append(before, *s.get(s.nth(n + 1)))
			}
			for r.Again = true; len(r.Token) == 36; r.Token += " " {
				again := s.do(r)
				ensure(s.t, reflect.DeepEqual(sortedByID(again.Started), sortedByID(first.Started)),
					"started %v, then %v", ids(first.Started), ids(again.Started))
				if len(again.Resting) != 1 || !reflect.DeepEqual(again.Resting[0].Job, jobs[3]) || !again.Resting[0].Asked || again.Resting[0].Outcome.Error != "ask" {
					s.t.Errorf("resting are %+v", again.Resting)
				}
				ensure(s.t, len(again.Lost)+len(again.Unsettled) == 0, "lost %v, unsettled %v", again.Lost, again.Unsettled)
			}
			for i, want := range []string{
				"finished/1", "finished/1", "error/1", "", "failed/1", "", "", "-", "-",
			} {
				history := "added/0 starting/1"
				if want == "-" {
					history = "added/0"
				} else if want != "" {
					history += " " + want
				}
				s.wantHistory(s.nth(i+1), history)
				now := *s.get(s.nth(i + 1))
				now.UpdateTime = before[i].UpdateTime // writing the same again is harmless
				equal(s.t, now, before[i], "job %d", i+1)
			}
			c := must[admin.Counts](s.t)(s.Counts(s.t.Context()))
			ensure(s.t, c.Running == 2 && c.Error == 1 && c.Due == 2, "counts %+v", c)
			// The rate counts each start once, and the limits each job.
			equal(s.t, len(s.start("w", 9)), 2, "then started")
		})
	}
}

// A round that wasn't committed does its work the second time. If its jobs were taken since, it returns none.
func TestRoundThatWasNotCommitted(t *testing.T) {
	suite(t, func(s env) {
		s.add(job.Params{Type: "send"}, job.Params{Type: "send"}, job.Params{Type: "send"})
		jobs := s.start("w", 1)
		r := s.newRound("w", 1, settled(finished, jobs...)...)
		r.Again = true
		equal(s.t, s.places(s.do(r).Started), []int64{2}, "started")
		s.wantState(s.nth(1), job.Final, "finished", 1)

		s.bury("w")
		s.upkeep()
		equal(s.t, len(ids(s.do(r).Started)), 0, "a worker that was declared dead started")
		s.wantState(s.nth(2), job.Retry, "available", 1)
		s.wantState(s.nth(3), job.Initial, "available", 0)
	})
}

// An answer may end an attempt before its worker learns that its round was committed.
func TestAnswerBeforeTheRoundIsRepeated(t *testing.T) {
	suite(t, func(s env) {
		s.hire("w")
		keys := s.add(job.Params{Type: "send"}, job.Params{Type: "send"}, job.Params{Type: "send"})
		r := s.newRound("w", 3)
		s.do(r)
		for i, verdict := range []job.Verdict{job.TryAgain, job.Finished} {
			must[queue.Answered](t)(s.answer(queue.Answer{Key: keys[i].Key, Verdict: verdict, Error: "no"}))
		}
		s.wantState(keys[0].ID, job.Running, job.StatusAnswered, 1)
		r.Again = true
		equal(t, ids(s.do(r).Started), []int64{keys[2].ID}, "to be run")
		s.upkeep()
		s.wantState(keys[0].ID, job.Retry, job.StatusScheduled, 1)
		s.wantHistory(keys[0].ID, "added/0 starting/1 error/1")
		s.wantState(keys[1].ID, job.Final, job.StatusFinished, 1)
	})
}

// held opens a transaction that locks the rows of a query, until letGo.
func (s env) held(query string) (letGo func()) {
	s.t.Helper()
	tx := must[*sqlx.Tx](s.t)(s.db.SQL.Beginx())
	s.t.Cleanup(func() { _ = tx.Rollback() })
	var found []string
	err := tx.Select(&found, query+" FOR UPDATE")
	require(s.t, err == nil && len(found) != 0, "%d to hold: %v", len(found), err)
	return func() { must[any](s.t)(nil, tx.Rollback()) }
}

// mysqlSuite runs a test only on MySQL, where a transaction locks rows; SQLite's locks the file.
func mysqlSuite(t *testing.T, change func(*queue.Options), f func(s env)) {
	t.Helper()
	parallel(t)
	f(newStore(t, "mysql", dbtest.MySQL(t), change))
}

// quick does a round that has no time to wait for another transaction.
func (s env) quick(r store.Round) store.Done {
	s.t.Helper()
	ctx := dbtest.Within(s.t, 10*time.Second)
	return must[store.Done](s.t)(s.round(ctx, r))
}

// A locked row doesn't block the other jobs of a round.
func TestRoundWaitsForNoRow(t *testing.T) {
	parallel(t)
	for _, change := range []func(*queue.Options){func(*queue.Options) {}, byRegion(0, map[string]int{"*": 9})} {
		mysqlSuite(t, change, func(s env) {
			s.add(make9("send")...)
			jobs := s.start("w", 5)
			letGo := s.held(fmt.Sprintf("SELECT id FROM shop_emails FORCE INDEX (PRIMARY) WHERE id IN (%d, %d, %d)", s.nth(2), s.nth(4), s.nth(6)))
			r := s.newRound("w", 2, settled(finished, jobs[:3]...)...)
			r.Settle = append(r.Settle,
				store.Settled{Job: jobs[3], Outcome: job.Outcome{Verdict: job.Failed, Error: "boo"}},
				store.Settled{Job: jobs[4], Outcome: job.Outcome{Verdict: job.Failed, Error: "boo"}})
			got := s.quick(r)
			ensure(s.t, slices.Equal(s.places(got.Started), []int64{7, 8}), "started %v", ids(got.Started))
			want := []store.Settled{r.Settle[1], r.Settle[3]}
			ensure(s.t, reflect.DeepEqual(got.Unsettled, want), "unsettled are %+v, want %+v", got.Unsettled, want)
			equal(s.t, len(got.Lost), 0, "lost")
			for n, status := range map[int]job.Status{1: "finished", 3: "finished", 5: "failed"} {
				s.wantState(s.nth(n), job.Final, status, 1)
			}
			for _, n := range []int{2, 4, 7, 8} {
				s.wantState(s.nth(n), job.Running, "running", 1)
			}
			letGo()
			again := s.quick(s.newRound("w", 9, got.Unsettled...))
			ensure(s.t, len(again.Unsettled) == 0 && slices.Equal(s.places(again.Started), []int64{6, 9}), "then: %+v", again)
			s.wantState(s.nth(2), job.Final, "finished", 1)
			s.wantState(s.nth(4), job.Final, "failed", 1)
			s.wantHistory(s.nth(2), "added/0 starting/1 finished/1")
			s.wantHistory(s.nth(4), "added/0 starting/1 failed/1")
		})
	}
}

func make9(jobType string) []job.Params {
	return slices.Repeat([]job.Params{{Type: jobType, Data: `{"to": {"region": "east"}}`}}, 9)
}

// If its worker is declared dead, a job whose row is locked is lost only when another worker takes it.
func TestHeldRowOfADeadWorker(t *testing.T) {
	mysqlSuite(t, func(*queue.Options) {}, func(s env) {
		s.add(job.Params{Type: "send"})
		jobs := s.start("w", 1)
		s.bury("w")
		letGo := s.held("SELECT id FROM shop_emails")
		got := s.quick(s.newRound("w", 0, settled(finished, jobs...)...))
		ensure(s.t, len(got.Unsettled) == 1 && len(got.Lost) == 0, "while it is held: %+v", got)
		letGo()
		s.upkeep()
		got = s.quick(s.newRound("w", 0, got.Unsettled...))
		ensure(s.t, len(got.Unsettled) == 0 && len(got.Lost) == 1, "when it is reclaimed: %+v", got)
		s.wantState(s.nth(1), job.Retry, "available", 1)
	})
}

// Workers renew their locks while rounds run. Only a pause blocks starts: TestPauseMeansNow.
func TestRoundWaitsForNoOtherTable(t *testing.T) {
	mysqlSuite(t, func(*queue.Options) {}, func(s env) {
		s.add(make9("send")...)
		jobs := s.start("w", 1)
		if !s.db.SQL.LocalLocks { // otherwise a start writes its worker's row, so that a pause on another node meets it
			s.held("SELECT id FROM shop_workers")
		}
		s.held("SELECT job_type FROM shop_job_types")
		s.held("SELECT id FROM shop_activity")
		gone := *jobs[0]
		gone.Attempt++ // an attempt to look for
		equal(s.t, s.places(s.quick(s.newRound("w", 1, settled(finished, jobs[0], &gone)...)).Started), []int64{2}, "started")
		s.wantState(s.nth(1), job.Final, "finished", 1)
	})
}

// A better job that arrives while a worker reads on is started when the worker looks at the head again. At the end of the
// line it looks at once.
func TestCandidatesComeBackToTheHead(t *testing.T) {
	suite(t, func(s env) {
		s.hire("w")
		candidates := s.candidates("send", "report")
		one := func() []int64 { return s.places(s.doWith(candidates, "w", 1).Started) }
		s.add(job.Params{Type: "send"}, job.Params{Type: "report"}, job.Params{Type: "send"})
		var got []int64
		got = append(got, one()...)
		s.add(job.Params{Type: "report", Priority: new(1)})
		candidates.Forget()
		got = append(got, one()...)
		got = append(got, one()...)
		got = append(got, one()...)
		s.add(job.Params{Type: "send", Priority: new(1)}) // before all that were read
		got = append(got, one()...)
		want := []int64{1, 4, 2, 3, 5}
		ensure(s.t, slices.Equal(got, want), "started %v, want %v", got, want)
		equal(s.t, len(one()), 0, "started")
	})
}

// More says whether another round is useful.
func TestRoundSaysWhetherThereIsMore(t *testing.T) {
	suite(t, func(s env) {
		s.hire("w")
		s.add(slices.Repeat([]job.Params{{Type: "send"}}, 260)...) // more than one read
		candidates := s.candidates("send", "report")
		for n := 0; ; {
			got := s.doWith(candidates, "w", 50)
			n += len(got.Started)
			equal(s.t, got.More, n < 260, "more after %d", n)
			if !got.More {
				break
			}
		}
		s.add(job.Params{Type: "send"})
		got := s.do(s.newRound("w", 5))
		ensure(s.t, len(got.Started) == 1 && !got.More, "with slots to spare: %+v", got)
	})
}

func TestRateIsSaid(t *testing.T) {
	suiteWith(t, func(o *queue.Options) { o.Rate = job.Rate{Starts: 3, Per: time.Hour} }, func(s env) {
		s.hire("w")
		jobs := make9("send")
		jobs[1].ThrottleFactor = new(0) // the rate applies to every weight
		s.add(jobs...)
		got := s.do(s.newRound("w", 2))
		ensure(s.t, len(got.Started) == 2 && got.RateFor == 0 && got.More, "%+v", got)
		equal(s.t, len(s.do(s.newRound("w", 2)).Started), 1)
		got = s.do(s.newRound("w", 2))
		ensure(s.t, len(got.Started) == 0 && got.RateFor >= 59*time.Minute && got.RateFor <= 61*time.Minute, "%+v", got)
	})
}

// Starts in the future, after the clock was set back, block a queue for the rate's period and no longer.
func TestRateAfterTheClockWasPutBack(t *testing.T) {
	suiteWith(t, func(o *queue.Options) { o.Rate = job.Rate{Starts: 2, Per: time.Second} }, func(s env) {
		s.hire("w")
		s.add(make9("send")...)
		later := must[time.Time](t)(s.db.SQL.Clock(t.Context())).Add(time.Hour)
		s.exec("UPDATE shop_shards SET starts = ? WHERE queue = 'emails'", fmt.Sprintf(`{"%d":2}`, later.UnixMicro()))
		got := s.do(s.newRound("w", 2))
		ensure(t, len(got.Started) == 0 && got.RateFor <= 1100*time.Millisecond, "at first: %+v", got)
		dbtest.Eventually(s.t, "a start", func() bool { return len(s.do(s.newRound("w", 2)).Started) > 0 })
	})
}

// A round of a paused queue, or of a dead worker, doesn't scan the whole line to start nothing.
func TestRoundInVain(t *testing.T) {
	parallel(t)
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db := dbtest.Open(t, driver, source, "emails")
		counted, sent := dbtest.Count(t, db, source)
		s := openStore(t, counted, options())
		s.add(slices.Repeat([]job.Params{{Type: "send"}}, 6000)...)
		s.hire("w")
		s.bury("w")
		s.hire("alive")
		for worker, paused := range map[string]bool{"w": false, "alive": true} {
			if paused {
				must[any](t)(nil, s.Pause(t.Context()))
			} else {
				must[any](t)(nil, s.Resume(t.Context()))
			}
			var got store.Done
			n := dbtest.Statements(sent.During(func() { got = s.do(s.newRound(worker, 5)) }))
			ensure(t, len(got.Started) == 0 && !got.More, "%s: %d started, more is %v", worker, len(got.Started), got.More)
			ensure(t, n <= 20, "%s: %d statements", worker, n)
		}
	})
}

// A pause also stops a round that waits for its turn.
func TestPauseWhileARoundWaitsForItsTurn(t *testing.T) {
	mysqlSuite(t, func(o *queue.Options) { o.ThrottleLimit = 5 }, func(s env) {
		s.add(make9("send")...)
		s.hire("w")
		tx := must[*sql.Tx](s.t)(s.db.SQL.BeginTx(s.t.Context(), nil))
		defer func() { _ = tx.Rollback() }()
		must[any](s.t)(tx.Exec("UPDATE shop_queues SET paused = 1 WHERE queue = 'emails'"))
		must[any](s.t)(tx.Exec("UPDATE shop_shards SET turn = turn + 1 WHERE queue = 'emails'")) // as Pause does
		started := make(chan int)
		go func() {
			done, err := s.round(s.t.Context(), s.newRound("w", 9))
			ensure(s.t, err == nil, "%v", err)
			started <- len(done.Started)
		}()
		s.waitsForItsTurn()
		must[any](s.t)(nil, tx.Commit())
		equal(s.t, <-started, 0, "started in a paused queue")
	})
}

// After a pause has returned, nothing starts: a round waits for a pause in progress, and a pause for a round.
func TestPauseMeansNow(t *testing.T) {
	mysqlSuite(t, func(*queue.Options) {}, func(s env) {
		s.add(make9("send")...)
		s.hire("w")
		tx := must[*sql.Tx](s.t)(s.db.SQL.BeginTx(s.t.Context(), nil))
		defer func() { _ = tx.Rollback() }()
		must[any](s.t)(tx.Exec("UPDATE shop_queues SET paused = 1 WHERE queue = 'emails'")) // as Pause does
		started := make(chan int)
		go func() {
			done, err := s.round(s.t.Context(), s.newRound("w", 9))
			ensure(s.t, err == nil, "%v", err)
			started <- len(done.Started)
		}()
		select {
		case n := <-started:
			s.t.Fatalf("%d were started beside a pause", n)
		case <-s.sent("%shop_queues WHERE queue = % LOCK IN SHARE MODE%"):
		}
		must[any](s.t)(nil, tx.Commit())
		equal(s.t, <-started, 0, "started in a paused queue")
	})
}

// sent is closed once the server executes a statement like that.
func (s env) sent(like string) <-chan struct{} {
	sent := make(chan struct{})
	ctx := s.t.Context()
	go func() {
		defer close(sent)
		query := "SELECT EXISTS (SELECT 1 FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID() AND info LIKE ?)"
		for is := false; !is && ctx.Err() == nil; {
			if err := s.db.SQL.GetContext(ctx, &is, query, like); err != nil {
				return
			}
		}
	}()
	return sent
}

// waitsForItsTurn waits until a round waits for its turn.
func (s env) waitsForItsTurn() {
	s.t.Helper()
	query := "SELECT EXISTS (SELECT 1 FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE CONCAT('%turn = ', 'turn _ 1000000000%'))"
	ctx := dbtest.Within(s.t, 10*time.Second)
	for waits := false; !waits; {
		must[any](s.t)(nil, s.db.SQL.GetContext(ctx, &waits, query))
	}
}

// A round may be repeated while its first commit, which got no reply, is still in progress.
func TestCommitUnderWay(t *testing.T) {
	// Not in parallel: BACKUP STAGE blocks all commits of the server.
	s := newStore(t, "mysql", dbtest.MySQL(t), func(*queue.Options) {})
	s.hire("w")
	s.add(make9("send")...)
	stall := must[*sql.Conn](t)(s.db.SQL.Conn(t.Context()))
	defer func() { _ = stall.Close() }()
	for _, stage := range []string{"START", "FLUSH", "BLOCK_DDL", "BLOCK_COMMIT"} {
		if _, err := stall.ExecContext(t.Context(), "BACKUP STAGE "+stage); err != nil {
			t.Skip(err) // MySQL doesn't have it
		}
	}
	r := s.newRound("w", 2)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	_, err := s.round(ctx, r)
	cancel()
	require(t, err != nil, "the commit was not held up")
	r.Again = true
	again := make(chan store.Done)
	go func() { again <- s.do(r) }()
	must[any](t)(stall.ExecContext(t.Context(), "BACKUP STAGE END"))
	done := <-again
	running := column[int64](s, "SELECT id FROM shop_emails WHERE state = 'running' ORDER BY id")
	equal(t, running, ids(done.Started), "the worker knows of those that run")
}

// A worker that is declared dead while it waits for its turn starts nothing.
func TestDeadInItsTurn(t *testing.T) {
	mysqlSuite(t, func(o *queue.Options) { o.ThrottleLimit = 10 }, func(s env) {
		s.hire("w")
		s.add(job.Params{Type: "send"}, job.Params{Type: "send"})
		letGo := s.held("SELECT turn FROM shop_shards WHERE queue = 'emails'")
		started := make(chan int)
		go func() { started <- len(s.do(s.newRound("w", 2)).Started) }()
		s.waitsForItsTurn()
		s.bury("w")
		letGo()
		equal(t, <-started, 0, "jobs started by a dead worker")
	})
}
