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
