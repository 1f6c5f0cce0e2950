package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"

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
			if j := s.get(s.emails, id); j.State != job.Final {
				s.t.Errorf("job %d is %s", id, j.State)
			}
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
			if j := s.get(s.emails, id); j.State != job.Final || !strings.Contains(j.Error, says) || !strings.Contains(j.Error, o.Error) {
				s.t.Errorf("job %d is %s: %s", id, j.State, j.Error)
			}
		}
	})
}

// A handler that ignores its context is named in the log when the grace is over, for the worker waits for it.
func TestHandlersThatGoOn(t *testing.T) {
	suite(t, func(s shop) {
		s.add(s.emails, "once", 2)
		var log journal
		goOn, began := make(chan struct{}), make(chan struct{})
		p := only(s.emails, s.worker(all(func(ctx context.Context, j *job.Job) error {
			if j.ID == 2 {
				<-ctx.Done() // in time
				return context.Cause(ctx)
			}
			close(began)
			<-goOn
			return nil
		})))
		p.Log, p.Grace = log.log(), 0
		r := s.start(p)
		receive(s.t, "the start", began)
		r.stop()
		eventually(s.t, "the log names it", func() bool {
			return log.count(`goes on although its context has ended" queue=emails job=1 type=once attempt=1 cause=interrupted`) == 1
		})
		close(goOn)
		_ = r.ended()
		if n := log.count("goes on"); n != 1 {
			s.t.Errorf("said %d times", n)
		}
	})
}
