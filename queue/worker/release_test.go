package worker_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// TestRelease: a released job keeps its key and its attempts; no retry handler is asked, and no error is logged.
func TestRelease(t *testing.T) {
	suite(t, func(s shop) {
		id := s.addJobs(s.emails, job.Params{Type: "once", Key: "order-1"})[0]
		c := s.court()
		const releases = 3
		for n := 1; n <= releases; n++ {
			j := &journal{}
			p := asking(only(s.emails, s.worker(all(func(_ context.Context, j *job.Job) error {
				dbtest.Ensure(s.t, j.Attempt == n && j.Interrupts == 0, "attempt %d: %+v", n, j)
				return handler.Release(time.Hour, false)
			}))), c.decide)
			p.Middleware, p.Log = []handler.Middleware{handler.Log(j.log())}, j.log()
			wantSummary(s.t, s.work(p), worker.Summary{Started: 1, Finished: 1})
			s.wantJob(s.emails, id, job.Retry, "scheduled", job.None, n)
			dbtest.Ensure(s.t, j.count("job released") == 1 && j.count("level=WARN") == 0, "the log: %s", j.text.String())
			again := dbtest.Must(s.emails.Enqueue(s.t.Context(), job.Params{Type: "once", Key: "order-1"}))(s.t)
			dbtest.Ensure(s.t, again.Duplicate && again.ID == id, "it has lost its key: %+v", again)
			dbtest.OK(s.t, admin.Of(s.emails).Reschedule(s.t.Context(), id, admin.RescheduleOptions{At: s.clock()}))
		}
		c.quiet("a release is no error")
		s.wantHistory(s.emails, "added/0 starting/1 released/1 rescheduled/1 starting/2 released/2 rescheduled/2 starting/3 released/3 rescheduled/3", id)
		for _, e := range s.entries(activity.Filter{Kind: activity.Job, State: activity.Released}) {
			dbtest.Ensure(s.t, e.Error == activity.None && e.RunMS >= 0, "%+v", e)
		}
		wantSummary(s.t, s.work(only(s.emails, s.worker(all(noLuck)))), worker.Summary{Started: 1, Errors: 1})
		s.wantJob(s.emails, id, job.Final, "failed", "no luck", releases+1)
	})
}

// TestReleaseMakesRoom: a released job gives up its room in the limit and its group, and starts in its turn again.
func TestReleaseMakesRoom(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = s.reopen(queue.Options{Name: "emails", ThrottleLimit: 1, ThrottleGroups: &job.ThrottleGroups{By: "data.tenant", Limits: map[string]int{"*": 1}}}, nil)
		ids := s.addJobs(s.emails, job.Params{Type: "send", Data: `{"tenant":"a"}`}, job.Params{Type: "send", Data: `{"tenant":"a"}`},
			job.Params{Type: "send", Data: `{"tenant":"b"}`})
		p := only(s.emails, s.worker(all(func(_ context.Context, j *job.Job) error {
			if j.ID == ids[0] && j.Attempt == 1 {
				return handler.Release(time.Millisecond, false)
			}
			return nil
		})))
		wantSummary(s.t, s.work(p), worker.Summary{Started: 4, Finished: 4})
		s.wantHistory(s.emails, "added/0 starting/1 released/1 starting/2 finished/2", ids[0])
		s.wantHistory(s.emails, atOnce, ids[1:]...)
	})
}

// TestHandlerRests: a handler that can't begin any job costs no attempts. The worker starts few jobs for it, says so and tries again
// later; the queue's other types and the jobs in a line behind go on.
func TestHandlerRests(t *testing.T) {
	suite(t, func(s shop) {
		for _, o := range []queue.Options{{}, {ThrottleLimit: 3}} {
			for _, name := range []string{"send", job.AllTypes} {
				s.rests(o, name)
			}
		}
	})
}

func (s shop) rests(o queue.Options, name string) {
	o.Name = "emails"
	s.emails = s.reopen(o, nil)
	const jobs, pause = 60, time.Second
	broken := s.add(s.emails, "send", jobs)
	works := s.add(s.emails, "once", jobs)
	j, began := &journal{}, time.Now()
	var mu sync.Mutex
	refused, others, mended := 0, 0, time.Hour
	p := only(s.emails, s.worker(map[string]handler.Handler{
		name: handler.HandleFunc(func(context.Context, *job.Job) job.Outcome {
			mu.Lock()
			defer mu.Unlock()
			if time.Since(began) > 5*pause/2 && others == jobs || time.Since(began) > time.Minute {
				mended = min(mended, time.Since(began))
				return job.Outcome{Verdict: job.Finished}
			}
			refused++
			return job.Outcome{Verdict: job.NotBegun, Error: "not started: no table", RetryAfter: pause}
		}),
		"once": handler.Func(func(context.Context, *job.Job) error {
			mu.Lock()
			defer mu.Unlock()
			others++
			return nil
		}),
	}))
	p.Concurrency, p.Log = 3, j.log()
	dbtest.Same(s.t, s.work(p).Finished, 2*jobs, "finished jobs")
	mu.Lock()
	defer mu.Unlock()
	dbtest.Ensure(s.t, refused > 0 && refused <= int(2+mended/pause)*2*p.Concurrency && mended < time.Minute, "%s: %d jobs were refused within %s", name, refused, mended)
	dbtest.Ensure(s.t, j.count("can't begin any job now") >= 2, "the log: %s", j.text.String())
	uncounted := 0
	for _, id := range broken {
		one := s.get(s.emails, id)
		uncounted += one.Uncounted
		dbtest.Ensure(s.t, one.Attempt-one.Uncounted == 1 && one.Interrupts == one.Uncounted, "%+v", one)
	}
	dbtest.Same(s.t, uncounted, refused, "attempts that don't count")
	s.wantHistory(s.emails, atOnce, works...)
}

// booting is a handler that moves the end of its time.
type booting struct{ handler.Func }

// Room makes it one.
func (booting) Room() int { return 100 }

// TestBoots: such a handler has the time that it asks for; interruptions still reach it.
func TestBoots(t *testing.T) {
	suite(t, func(s shop) {
		id := s.addJobs(s.emails, job.Params{Type: "send", Timeout: time.Second})[0]
		g := s.gate()
		moved := make(chan struct{}, 10)
		p := only(s.emails, s.worker(map[string]handler.Handler{"send": booting{func(ctx context.Context, j *job.Job) error {
			handling.Of(ctx).Expire(time.Hour)
			g.started <- j
			if j.Attempt == 1 {
				select {
				case <-ctx.Done():
				case <-time.After(2500 * time.Millisecond):
				}
				dbtest.Ensure(s.t, ctx.Err() == nil, "its time is over: %v", context.Cause(ctx))
				handling.Of(ctx).Expire(10 * time.Millisecond)
			}
			moved <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}}}))
		p.Middleware = []handler.Middleware{func(next handler.Handler) handler.Handler { return handler.HandleFunc(next.Handle) }}
		p.Grace = 100 * time.Millisecond
		r := s.start(p)
		receive(s.t, "its time is moved", moved)
		eventually(s.t, "it starts again", func() bool { return s.get(s.emails, id).Attempt == 2 })
		receive(s.t, "its time is moved again", moved)
		r.stop()
		r.ended()
		s.wantJob(s.emails, id, job.Retry, "available", "interrupted", 2)
		dbtest.Same(s.t, s.jobErrors()[0].Error, policy.TimeoutError(time.Second).Error(), "the first attempt")
	})
}
