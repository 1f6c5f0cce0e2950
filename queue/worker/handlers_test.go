package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// What a handler, or a retry handler, makes of its job is nothing to the worker, which settles its own.
func TestHandlersThatChangeTheirJobs(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.add(s.emails, "send", 4)
		spoil := func(j *job.Job) {
			switch j.ID {
			case ids[0]:
				j.Token = ""
			case ids[1]:
				j.ID = ids[2]
			case ids[2]:
				j.Attempt = 7
			default:
				*j = job.Job{}
			}
		}
		p := asking(only(s.emails, s.worker(all(func(_ context.Context, j *job.Job) error {
			defer spoil(j)
			if j.ID == ids[0] {
				return errors.New("oh")
			}
			return nil
		}))), func(_ context.Context, j *job.Job, _ job.Outcome) (job.Decision, error) {
			spoil(j)
			return job.Decision{}, nil
		})
		p.Ended = func(a worker.Attempt) { spoil(a.Job) }
		wantSummary(s.t, s.work(p), worker.Summary{Started: 4, Finished: 3, Errors: 1})
		for _, id := range ids {
			j := s.get(s.emails, id)
			dbtest.Ensure(s.t, j.State() == job.Final, "job %d is %s", id, j.State())
		}
	})
}

// An outcome without a verdict, or with one that is none, is an error that says so.
func TestVerdictsThatAreNone(t *testing.T) {
	suite(t, func(s shop) {
		for says, o := range map[string]job.Outcome{
			`verdict "" is none of`:                {},
			`verdict "done" is none of`:            {Verdict: "done", Error: "oh"},
			`["finished" "retry" "failed" "sent" `: {Verdict: "ok"},
		} {
			id := s.add(s.emails, "send", 1)[0]
			p := only(s.emails, s.worker(all(nothing)))
			p.Middleware = []handler.Middleware{func(handler.Handler) handler.Handler {
				return handler.HandleFunc(func(context.Context, *job.Job) job.Outcome { return o })
			}}
			wantSummary(s.t, s.work(p), worker.Summary{Started: 3, Errors: 3})
			if j := s.get(s.emails, id); j.State() != job.Final || !strings.Contains(j.Error, says) || !strings.Contains(j.Error, o.Error) {
				s.t.Errorf("job %d is %s: %s", id, j.State(), j.Error)
			}
		}
	})
}

// A handler's context has its deadline, and has ended when the handler has returned.
func TestContextEndsWithTheHandler(t *testing.T) {
	suite(t, func(s shop) {
		s.addJobs(s.emails, job.Params{Type: "once", Timeout: time.Hour})
		var kept context.Context
		s.work(only(s.emails, s.worker(all(func(ctx context.Context, _ *job.Job) error {
			kept = ctx
			if until, ok := ctx.Deadline(); !ok || time.Until(until) > time.Hour || time.Until(until) < time.Minute || ctx.Err() != nil {
				s.t.Errorf("it ends at %s, %v: %v", until, ok, ctx.Err())
			}
			return nil
		}))))
		receive(s.t, "the end of the context", kept.Done())
		if !errors.Is(kept.Err(), context.Canceled) {
			s.t.Errorf("it has ended with %v", kept.Err())
		}
	})
}

// Handlers that ignore their context hold up neither the worker nor other jobs, once the grace is over, and the log names them. As
// long as they go on, their jobs are not run again in this process, whichever worker would.
func TestHandlersThatGoOn(t *testing.T) {
	suite(t, func(s shop) {
		release := make(chan struct{})
		defer func() {
			if s.t.Failed() {
				close(release)
			}
		}()
		ids := s.addJobs(s.emails, job.Params{Type: "later", Timeout: time.Second}, job.Params{Type: "later", Timeout: time.Second},
			job.Params{Type: "later"}, job.Params{Type: "once"})
		p := only(s.emails, s.worker(all(func(ctx context.Context, j *job.Job) error {
			if j.ID != ids[3] && j.Attempt == 1 {
				fmt.Fprintln(handler.Output(ctx), "begun")
				<-release
				fmt.Fprintln(handler.Output(ctx), "too late")
			}
			return nil
		})))
		var log journal
		p.Concurrency, p.Grace, p.Log = 2, 100*time.Millisecond, log.log()
		r := s.stay(p)
		eventually(s.t, "the third and the fourth have the slots of the first two", func() bool {
			return s.get(s.emails, ids[2]).State() == job.Running && s.get(s.emails, ids[3]).State() == job.Final
		})
		r.stop()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 4, Finished: 1, Errors: 3})
		for i, cause := range []string{"timeout after 1s", "timeout after 1s", "interrupted"} {
			s.wantJob(s.emails, ids[i], job.Retry, job.StatusScheduled, cause+"; the handler goes on", 1)
			list := s.outcomes(s.emails, ids[i])
			dbtest.Ensure(s.t, len(list) == 1 && list[0].Output == "begun\n", "the activity: %+v", list)
		}
		n := log.count(`goes on although its context has ended" queue=emails job=`)
		dbtest.Ensure(s.t, n == 3, "said %d times", n)

		p.ID = ""
		again := func(id int64) worker.Summary {
			return dbtest.Must(worker.RunJob(s.t.Context(), p, id))(s.t)
		}
		wantSummary(s.t, again(ids[0]), worker.Summary{Started: 1, Errors: 1})
		s.wantJob(s.emails, ids[0], job.Final, "failed", "not begun: the handler of attempt 1 goes on in this process", 2)
		close(release)
		eventually(s.t, "the second's handler returns", func() bool { return (*store.Queue)(s.emails).Abandoned().Attempt(ids[1]) == 0 })
		wantSummary(s.t, again(ids[1]), worker.Summary{Started: 1, Finished: 1})
		s.wantHistory(s.emails, atSecond, ids[1])
	})
}
