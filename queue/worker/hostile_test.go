package worker_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// What dead workers have left on this host is killed before anybody can start their jobs again; also where their rows speak
// of another host, for hosts may have their processes in common. A worker of which nobody knows may be another instance's,
// and alive.
func TestStraysAreKilledFirst(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.add(s.emails, "send", 3)
		for _, dead := range []string{"ours", "theirs", "unknown"} {
			s.die(s.emails, dead, 1)
		}
		s.exec("UPDATE shop_workers SET host = 'there' WHERE id = 'theirs'")
		s.exec("DELETE FROM shop_workers WHERE id = 'unknown'")
		var mu sync.Mutex
		var killed []string
		p := s.worker(all(nothing))
		p.KillStrays = func(id string) {
			mu.Lock()
			defer mu.Unlock()
			killed = append(killed, id)
			for _, j := range ids {
				if j := s.get(s.emails, j); strings.Contains(j.Error, id) {
					s.t.Errorf("job %d of %s is reclaimed already", j.ID, id)
				}
			}
		}
		s.work(p)
		slices.Sort(killed)
		if want := []string{"ours", "theirs"}; !slices.Equal(killed, want) {
			s.t.Errorf("killed the strays of %q, want %q", killed, want)
		}
		s.wantHistory(s.emails, atSecond, ids...)
	})
}

// stuck is a handler, and a retry handler, that can't end what it runs.
type stuck struct {
	through chan struct{}
	decides bool
}

func (h stuck) Handle(ctx context.Context, _ *job.Job) job.Outcome {
	if h.decides {
		return job.Outcome{Verdict: job.TryAgain, Error: "no luck"}
	}
	h.disown(ctx)
	return job.Outcome{Verdict: job.Finished}
}

func (h stuck) Decide(ctx context.Context, _ *job.Job, _ job.Outcome) (job.Decision, error) {
	h.disown(ctx)
	return job.Decision{Again: true}, nil
}

func (h stuck) disown(ctx context.Context) {
	<-ctx.Done()
	handler.Disown(ctx, job.Outcome{Verdict: job.TryAgain, Error: context.Cause(ctx).Error() + "; it still runs", Output: "printed"})
	<-h.through
}

// An attempt whose handler doesn't return is settled when the handler disowns it: it keeps no slot, and what the handler
// says later is nothing.
func TestAttemptIsDisowned(t *testing.T) {
	suite(t, func(s shop) {
		first, outcome := s.disown(stuck{make(chan struct{}), false})
		const want = "timeout after 1s; it still runs"
		if first.State != job.Final || first.Error != want || outcome.Error != want || outcome.Output != "printed" {
			s.t.Errorf("job %+v, activity %+v", first, outcome)
		}
	})
}

// A decision too: the policy decides.
func TestDecisionIsDisowned(t *testing.T) {
	suite(t, func(s shop) {
		first, outcome := s.disown(stuck{make(chan struct{}), true})
		if first.State != job.Final || first.Error != "no luck" || !strings.Contains(outcome.Error, "timeout after 1s; it still runs") {
			s.t.Errorf("job %+v, activity %+v", first, outcome)
		}
	})
}

// disown runs a job that is stuck, and then another in the same slot. It gives the first and its outcome.
func (s shop) disown(h stuck) (*job.Job, activity.Entry) {
	s.t.Helper()
	first := s.addJobs(s.emails, job.New{Type: "once", Timeout: time.Second})[0]
	second := s.add(s.emails, "send", 1)[0]
	p := only(s.emails, s.worker(map[string]handler.Handler{"once": h, "send": handler.Func(nothing)}))
	p.Concurrency = 1
	if h.decides {
		p.Queues[0].RetryHandlers = map[string]handler.RetryHandler{"once": h}
	}
	done := s.work(p)
	close(h.through)
	wantSummary(s.t, done, worker.Summary{Started: 2, Finished: 1, Errors: 1})
	s.wantHistory(s.emails, "added/0 starting/1 failed/1", first)
	s.wantHistory(s.emails, atOnce, second)
	return s.get(s.emails, first), s.outcomes(s.emails, first)[0]
}
