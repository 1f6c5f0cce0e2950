package worker_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// class is a job type as a framework has it.
const class = `App\Jobs\SendInvoice`

// withAllTypes gives emails a type for all types with one attempt, and other options.
func (s shop) withAllTypes(o queue.Options, change func(*job.Type)) shop {
	s.t.Helper()
	o.Name = "emails"
	rest := job.DefaultType(job.AllTypes)
	rest.Retry = job.RetryPolicy{Attempts: 1, Backoff: job.Fixed}
	if change != nil {
		change(&rest)
	}
	o.Types = []job.Type{rest}
	s.emails = s.reopen(o, change)
	dbtest.OK(s.t, s.emails.Register(s.t.Context()))
	return s
}

// calls counts jobs by handler and type.
type calls struct {
	mu  sync.Mutex
	all map[string]int
}

func (c *calls) handler(name string, then handler.Func) handler.Handler {
	return handler.Func(func(ctx context.Context, j *job.Job) error {
		c.mu.Lock()
		if c.all == nil {
			c.all = map[string]int{}
		}
		c.all[name+" "+j.Type]++
		c.mu.Unlock()
		return then(ctx, j)
	})
}

// TestAllTypes: the handler for all types gets the jobs of each type without a handler of its own, with that type's settings if the
// config has them, and also those of a type that comes while the worker runs.
func TestAllTypes(t *testing.T) {
	suites(t, map[string]queue.Options{
		"plain": {}, "limit": {ThrottleLimit: 2}, "groups": {ThrottleGroups: &job.ThrottleGroups{By: "job_type", Limits: map[string]int{"*": 1}}},
		"shards": {Shards: 4}, "rate": {Rate: job.Rate{Starts: 1000, Per: time.Minute}},
	}, func(s shop, _ string, o queue.Options) {
		s = s.withAllTypes(o, nil)
		first := s.add(s.emails, class, 3)
		s.add(s.emails, "send", 2)
		later := s.add(s.emails, "later", 2)
		c := &calls{}
		p := only(s.emails, s.worker(map[string]handler.Handler{
			"send": c.handler("own", nothing),
			"*": c.handler("all", func(ctx context.Context, j *job.Job) error {
				if j.ID == first[0] {
					s.add(s.emails, "new", 1)
				}
				if j.ID == first[1] || j.ID == later[0] && j.Type == "later" {
					return noLuck(ctx, j)
				}
				return nil
			}),
		}))
		wantSummary(s.t, s.work(p), worker.Summary{Started: 8, Finished: 6, Errors: 2})
		want := map[string]int{"own send": 2, "all later": 2, "all new": 1, "all " + class: 3}
		dbtest.Same(s.t, fmt.Sprint(c.all), fmt.Sprint(want), "calls")
		s.wantJob(s.emails, first[1], job.Final, "failed", "no luck", 1)
		s.wantJob(s.emails, later[0], job.Retry, "scheduled", "no luck", 1)
	})
}

// TestAllTypesWithLanes: a concurrency of the type for all types holds for them together, and one of a type for that type.
func TestAllTypesWithLanes(t *testing.T) {
	suite(t, func(s shop) {
		s = s.withAllTypes(queue.Options{}, func(t *job.Type) {
			switch t.Name {
			case "*":
				t.Concurrency = 1
			case "later":
				t.Concurrency = 2
			}
		})
		s.add(s.emails, class, 2)
		s.add(s.emails, "other", 2)
		s.add(s.emails, "later", 3)
		s.add(s.emails, "send", 1)
		g := s.gate()
		r := s.start(only(s.emails, s.worker(map[string]handler.Handler{"send": handler.Func(g.handle), "*": handler.Func(g.handle)})))
		count := map[string]int{}
		for _, j := range g.holds(4) {
			if j.Type == "other" {
				j.Type = class
			}
			count[j.Type]++
		}
		dbtest.Same(s.t, fmt.Sprint(count), fmt.Sprint(map[string]int{class: 1, "later": 2, "send": 1}), "jobs at once")
		g.open()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 8, Finished: 8})
	})
}

// TestAllTypesAskTheirRetryHandler: the retry handler for all types decides about their jobs, also after a lost worker.
func TestAllTypesAskTheirRetryHandler(t *testing.T) {
	suite(t, func(s shop) {
		s = s.withAllTypes(queue.Options{}, func(t *job.Type) { t.RetryHandler = t.Name != "send" })
		ids := s.addJobs(s.emails, job.Params{Type: class}, job.Params{Type: "later"})
		c := s.court()
		p := only(s.emails, s.worker(map[string]handler.Handler{"send": handler.Func(noLuck), "*": handler.Func(noLuck)}))
		p.Queues[0].RetryHandlers = map[string]handler.RetryHandler{"*": handler.RetryFunc(c.decide)}
		r := s.start(p)
		for range ids {
			c.next()
			c.let(job.Decision{Again: true, In: time.Hour})
		}
		wantSummary(s.t, r.ended(), worker.Summary{Started: 2, Errors: 2})
		for _, id := range ids {
			s.wantJob(s.emails, id, job.Retry, "scheduled", "no luck", 1)
		}
		s.addJobs(s.emails, job.Params{Type: "once"})
		s.die(s.emails, "dead", 1)
		p.ID = uuid.NewString()
		r = s.start(p)
		asked := c.next()
		dbtest.Ensure(s.t, asked.Job.Type == "once" && strings.HasPrefix(asked.Outcome.Error, "worker lost"), "%+v", asked.Outcome)
		c.let(job.Decision{})
		r.ended()
	})
}

// TestAllTypesLeaveSome: a worker whose handler for all types leaves some to others doesn't touch those.
func TestAllTypesLeaveSome(t *testing.T) {
	suite(t, func(s shop) {
		s = s.withAllTypes(queue.Options{}, nil)
		ids := s.addJobs(s.emails, job.Params{Type: class}, job.Params{Type: "send"})
		butSend := func() worker.Params {
			p := only(s.emails, s.worker(map[string]handler.Handler{"*": handler.Func(nothing)}))
			p.Queues[0].Except = []string{"send"}
			return p
		}
		wantSummary(s.t, s.work(butSend()), worker.Summary{Started: 1, Finished: 1})
		s.wantHistory(s.emails, untouched, ids[1])
		_, err := worker.RunJob(s.t.Context(), butSend(), ids[1])
		dbtest.Ensure(s.t, err != nil && strings.Contains(err.Error(), "there is no handler"), "it is run by hand: %v", err)
		p := only(s.emails, s.worker(map[string]handler.Handler{"*": handler.Func(nothing)}))
		done := dbtest.Must(worker.RunJob(s.t.Context(), p, ids[1]))(s.t)
		wantSummary(s.t, done, worker.Summary{Started: 1, Finished: 1})
	})
}
