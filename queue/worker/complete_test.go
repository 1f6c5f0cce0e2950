package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// A worker needs a database and queues with handlers; all else has a default.
func TestWorkerOfNothingElse(t *testing.T) {
	suite(t, func(s shop) {
		s.add(s.emails, "send", 3)
		p := worker.Params{Queues: []worker.Queue{{Queue: s.emails, Handlers: all(nothing)}}}
		for _, want := range []worker.Summary{{Started: 3, Finished: 3}, {}} {
			summary := dbtest.Must(worker.Run(s.t.Context(), p))(s.t)
			wantSummary(s.t, summary, want)
		}
		n := s.count("SELECT COUNT(*) FROM shop_workers WHERE state = 'finished' AND host <> '' AND pid > 0")
		dbtest.Ensure(s.t, n == 2, "%d workers are known, want 2", n)
	})
}

// An id names one worker: a second would write under the first one's lock.
func TestWorkerIDIsNew(t *testing.T) {
	suite(t, func(s shop) {
		p := s.worker(all(nothing))
		wantSummary(s.t, s.work(p), worker.Summary{}) // with nothing to do
		s.add(s.emails, "send", 1)
		_, err := worker.Run(s.t.Context(), p)
		dbtest.Ensure(s.t, errors.Is(err, workers.ErrDuplicateID), "the same id again: %v", err)
		s.wantCounts(s.emails, admin.Counts{Due: 1})
	})
}

func TestParamsThatCannotBe(t *testing.T) {
	suite(t, func(s shop) {
		for want, change := range map[string]func(*worker.Params){
			"no Queues":      func(p *worker.Params) { p.Queues = nil },
			"a Queue is nil": func(p *worker.Params) { p.Queues[1].Queue = nil },
			"queue reports is not of the same schema.DB": func(p *worker.Params) {
				p.Queues[1].Queue = s.elsewhere().reports
			},
			"queue emails is there twice": func(p *worker.Params) { p.Queues[1] = p.Queues[0] },
			"the handler of emails/send is nil": func(p *worker.Params) {
				p.Queues[0].Handlers = map[string]handler.Handler{"send": nil}
			},
			"the retry handler of emails/send is nil": func(p *worker.Params) {
				p.Queues[0].RetryHandlers = map[string]handler.RetryHandler{"send": nil}
			},
			"not made by queue.Open": func(p *worker.Params) { p.Queues[1].Queue = &queue.Queue{} },
			"the handler of reports/send is nil": func(p *worker.Params) {
				p.Queues[1].Handlers = map[string]handler.Handler{"send": handler.Func(nil)}
			},
			`the handler of emails/send is one of job type "sent"`: func(p *worker.Params) {
				p.Queues[0].Handlers = map[string]handler.Handler{
					"send": handler.For("sent", func(context.Context, *job.Job, string) error { return nil }),
				}
			},
			"a Middleware is nil": func(p *worker.Params) { p.Middleware = []handler.Middleware{nil} },
			"a Middleware makes nil of the handler of": func(p *worker.Params) {
				p.Middleware = []handler.Middleware{func(handler.Handler) handler.Handler { return nil }}
			},
			"Concurrency is negative": func(p *worker.Params) { p.Concurrency = -1 },
			"Batch is negative":       func(p *worker.Params) { p.Batch = -1 },
			"MaxJobs is negative":     func(p *worker.Params) { p.MaxJobs = -1 },
			"RunFor is negative":      func(p *worker.Params) { p.RunFor = -1 },
			"Grace is negative":       func(p *worker.Params) { p.Grace = -1 },
			"LockFor is 1ms":          func(p *worker.Params) { p.LockFor = time.Millisecond },
			"LockFor is 4s":           func(p *worker.Params) { p.LockFor, p.Grace = 4*time.Second, 2*time.Second },
			"LockFor is 1m0s":         func(p *worker.Params) { p.LockFor, p.Grace = 0, time.Minute },
		} {
			p := s.worker(all(nothing))
			change(&p)
			for name, run := range map[string]func() error{
				"Run":    func() error { _, err := worker.Run(s.t.Context(), p); return err },
				"RunJob": func() error { _, err := worker.RunJob(s.t.Context(), p, 1); return err },
			} {
				if err := run(); !errors.Is(err, worker.ErrParams) || !strings.Contains(err.Error(), want) {
					s.t.Errorf("%s: %v, want %q", name, err, want)
				}
			}
		}
		_, err := queue.New(nil, queue.Options{Name: "emails"})
		dbtest.Ensure(s.t, err != nil, "a queue in no database")
	})
}
