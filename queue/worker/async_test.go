package worker_test

import (
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// TestTickEndsBesideASlowDatabase: a job waits for a limit whose room only an answer frees. The tick ends although each of its
// rounds takes longer than its next poll.
func TestTickEndsBesideASlowDatabase(t *testing.T) {
	t.Parallel()
	s, proxy := proxied(t)
	s.emails = s.reopen(queue.Options{Name: "emails", ThrottleLimit: 1}, func(t *job.Type) { t.Async = true })
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
