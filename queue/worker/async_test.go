package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// handle is a handler that returns an outcome.
type handle func(ctx context.Context, j *job.Job) job.Outcome

func (h handle) Handle(ctx context.Context, j *job.Job) job.Outcome { return h(ctx, j) }

// async makes all types of emails asynchronous.
func (s shop) async(limit int) *queue.Queue {
	s.t.Helper()
	return s.reopen(queue.Options{Name: "emails", ThrottleLimit: limit}, func(t *job.Type) { t.Async = true })
}

// answer answers a job, and wants the answer to change it.
func (s shop) answer(id int64, verdict job.Verdict, result, problem string) {
	s.t.Helper()
	j := s.get(s.emails, id)
	done := dbtest.Must(s.emails.Answer(s.t.Context(), queue.Answer{
		Type: j.Type, Key: j.Key, Token: j.AttemptToken, Verdict: verdict, Result: result, Error: problem,
	}))(s.t)
	dbtest.Ensure(s.t, done.Changed, "the answer %s to job %d changes nothing", verdict, id)
}

// TestTickEndsBesideASlowDatabase: a job waits for a limit whose room only an answer frees. The tick ends although each of its
// rounds takes longer than its next poll.
func TestTickEndsBesideASlowDatabase(t *testing.T) {
	t.Parallel()
	s, proxy := proxied(t)
	s.emails = s.async(1)
	s.add(s.emails, "send", 2)
	p := only(s.emails, s.worker(all(nothing)))
	wantSummary(t, s.work(p), worker.Summary{Started: 1, Finished: 1})
	proxy.Slow(60 * time.Millisecond)
	defer proxy.Slow(0)
	began := time.Now()
	p = only(s.emails, s.worker(all(nothing)))
	p.RunFor = 30 * time.Second
	wantSummary(t, s.work(p), worker.Summary{})
	dbtest.Ensure(t, time.Since(began) < p.RunFor, "the tick ran until the end of its time, although nothing could make room")
}
