package store_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// waited is the result of Wait.
type waited struct {
	job *job.Job
	err error
}

// waits starts to wait for a job, for at most a minute.
func (s env) waits(id int64) <-chan waited {
	got := make(chan waited, 1)
	go func() {
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
		defer cancel()
		j, err := s.Wait(ctx, id)
		got <- waited{j, err}
	}()
	return got
}

// looks waits until a waiter for a job has looked at it n more times.
func looks(t *testing.T, sent *dbtest.Sent, n int) {
	t.Helper()
	ctx := dbtest.Within(t, time.Minute)
	for seen := 0; seen < n; {
		require(t, ctx.Err() == nil, "looked at %d times", seen)
		for _, text := range sent.During(func() { <-time.After(time.Millisecond) }) {
			if strings.Contains(text, "SELECT state FROM shop_emails") {
				seen++
			}
		}
	}
}

func TestWait(t *testing.T) {
	parallel(t)
	for name, test := range map[string]struct {
		change func(*queue.Options)
		// meanwhile is what happens to a running job that is waited for.
		meanwhile func(s env, j *job.Job)
		// want is the job's final error; or err is Wait's, unless trouble is its kind.
		want    string
		err     error
		trouble schema.Trouble
	}{
		"finished": {meanwhile: func(s env, j *job.Job) { s.settle("w", finished, j) }, want: job.None},
		"failed": {meanwhile: func(s env, j *job.Job) {
			s.settle("w", job.Outcome{Verdict: job.Failed, Error: "no such address"}, j)
		}, want: "no such address"},
		"answered": {meanwhile: func(s env, j *job.Job) {
			must[queue.Answered](s.t)(s.answer(queue.Answer{Key: j.Key, Verdict: job.Finished}))
			s.settle("w", job.Outcome{Verdict: job.Failed, Error: "its own word"}, j)
		}, want: job.None},
		"deleted": {meanwhile: func(s env, _ *job.Job) { s.exec("DELETE FROM shop_emails") }, err: queue.ErrNotFound},
		"discarded": {
			change:    func(o *queue.Options) { o.KeepFinished = queue.DiscardAtOnce },
			meanwhile: func(s env, j *job.Job) { s.settle("w", finished, j) }, err: queue.ErrNotFound,
		},
		"the table is dropped": {
			meanwhile: func(s env, _ *job.Job) { s.exec("DROP TABLE shop_emails") }, trouble: schema.Misconfigured,
		},
	} {
		t.Run(name, func(t *testing.T) {
			countedSuite(t, test.change, func(s env, sent *dbtest.Sent) {
				s.add(job.Params{Type: "send"})
				j := s.start("w", 1)[0]
				got := s.waits(j.ID)
				looks(s.t, sent, 2)
				test.meanwhile(s, j)
				end := <-got
				switch kind, _ := schema.Diagnose(end.err); {
				case test.err != nil, test.trouble != schema.NoTrouble:
					ensure(s.t, kind == test.trouble && (test.err == nil || errors.Is(end.err, test.err)), "the error is %v", end.err)
				case end.err != nil:
					s.t.Error(end.err)
				case end.job.State() != job.Final, end.job.Error != test.want, end.job.ID != j.ID:
					s.t.Errorf("it is %+v", end.job)
				}
			})
		})
	}
}

// Wait returns at once for a final or missing job; after a manual retry it finds the next job.
func TestWaitForWhatIsOver(t *testing.T) {
	suite(t, func(s env) {
		fails(t, queue.ErrNotFound, "no such job")(s.Wait(t.Context(), 1))
		s.add(job.Params{Type: "send"})
		s.settle("w", job.Outcome{Verdict: job.Failed, Error: "no"}, s.start("w", 1)...)
		again := must[[]job.Added](t)(s.Retry(t.Context(), false, 1))[0]
		j := must[*job.Job](t)(s.Wait(t.Context(), 1))
		ensure(t, j.Error == "no" && j.RetriedAs == again.ID, "it is %+v", j)
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	suite(t, func(s env) {
		s.add(job.Params{Type: "send"})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		j, err := s.Wait(ctx, 1)
		ensure(t, j == nil && errors.Is(err, context.DeadlineExceeded), "%+v, %v", j, err)
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		j, err = s.Wait(cancelled, 1)
		ensure(t, j == nil && errors.Is(err, context.Canceled), "%+v, %v", j, err)
	})
}

// Many long waits cost the database about one look a second each.
func TestWaitLooksSeldom(t *testing.T) {
	countedSuite(t, nil, func(s env, sent *dbtest.Sent) {
		s.add(job.Params{Type: "send"})
		looks := sent.During(func() {
			ctx := dbtest.Within(s.t, 3*time.Second)
			_, _ = s.Wait(ctx, 1)
		})
		n := len(looks)
		ensure(s.t, n >= 3 && n <= 10, "it looked %d times in 3 seconds", n)
	})
}

// Wait also waits for its database; how that fails differs by engine.
func TestWaitOutlastsTheDatabase(t *testing.T) {
	parallel(t)
	away := func(s env, cut, mend func()) {
		s.add(job.Params{Type: "send"})
		running := s.start("w", 1)
		cut()
		got := s.waits(1)
		ctx := dbtest.Within(s.t, time.Second)
		_, err := s.Wait(ctx, 1)
		kind, _ := schema.Diagnose(err)
		ensure(s.t, errors.Is(err, context.DeadlineExceeded) && kind == schema.TryLater, "while it is away: %v", err)
		mend()
		s.settle("w", finished, running...)
		end := <-got
		ensure(s.t, end.err == nil && end.job.State() == job.Final, "then: %+v", end)
	}
	t.Run("sqlite", func(t *testing.T) {
		source := dbtest.SQLite(t)
		s := openStore(t, dbtest.Open(t, "sqlite", source, "emails"), options())
		s.db.SQL.SetMaxIdleConns(0)
		var other *sql.DB
		away(s, func() {
			other = must[*sql.DB](t)(sql.Open("sqlite", "file:"+source+"?_pragma=busy_timeout(20000)&_pragma=locking_mode(exclusive)"))
			must[any](t)(other.Exec("CREATE TABLE alone (id INTEGER)")) // from here on it has the file alone
		}, func() { must[any](t)(nil, other.Close()) })
	})
	t.Run("mysql", func(t *testing.T) {
		p := dbtest.NewProxy(t)
		s := openStore(t, dbtest.Open(t, "mysql", p.Source, "emails"), options())
		away(s, p.Cut, p.Mend)
	})
}

// TestPollSeesAJobMoveOn: another worker's job is first in line, or runs: whenever a poll looks, room may come.
func TestPollSeesAJobMoveOn(t *testing.T) {
	parallel(t)
	suiteWith(t, func(o *queue.Options) { o.ThrottleLimit = 1 }, func(s env) {
		s.add(job.Params{Type: "other"}, job.Params{Type: "send"})
		lined, runs := "status = 'throttled', asked_time = "+s.db.SQL.NowSQL, "status = 'running', asked_time = NULL"
		move := func(set string) error {
			_, err := s.db.SQL.ExecContext(t.Context(), "UPDATE shop_emails SET "+set+" WHERE job_type = 'other'")
			return err
		}
		must[any](s.t)(nil, move(lined))
		moves := make(chan error)
		over, stop := context.WithCancel(t.Context())
		go func() {
			var err error
			for err == nil && over.Err() == nil {
				err = cmp.Or(move(runs), move(lined))
			}
			moves <- err
		}()
		missed := 0
		for range 500 {
			found := must[store.Poll](s.t)(s.core().Poll(t.Context(), store.Types{"send"}))
			if found.Due && !found.RoomMayCome {
				missed++
			}
		}
		stop()
		must[any](s.t)(nil, <-moves)
		require(s.t, missed == 0, "%d of 500 polls say that no room may come", missed)
	})
}
