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
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// one is a worker for one job of emails.
func (s shop) one(f handler.Func) worker.Params { return only(s.emails, s.worker(all(f))) }

// startOne starts a worker for one job.
func (s shop) startOne(p worker.Params, id int64) *run {
	r, _ := s.runWatched(func(ctx context.Context) (worker.Summary, error) { return worker.RunJob(ctx, p, id) })
	return r
}

// workOne runs one job to its end.
func (s shop) workOne(p worker.Params, id int64) worker.Summary {
	s.t.Helper()
	return s.startOne(p, id).ended()
}

// refused wants a worker for one job to end with an error, and to change nothing.
func (s shop) refused(id int64, want error) {
	s.t.Helper()
	p := s.one(func(context.Context, *job.Job) error {
		s.t.Error("the job runs")
		return nil
	})
	before := s.histories(s.emails)[id]
	summary, err := s.startOne(p, id).end()
	dbtest.Ensure(s.t, errors.Is(err, want), "job %d: the worker ends with %v, want %v", id, err, want)
	wantSummary(s.t, summary, worker.Summary{})
	s.wantHistory(s.emails, before, id)
	row := s.row(p.ID)
	dbtest.Ensure(s.t, row.State != "working", "its row says that it still works")
}

// closed returns a window that is closed now.
func (s shop) closed() *job.Windows {
	s.t.Helper()
	now := s.clock().UTC()
	from, to := "12:00", "12:30"
	if h := now.Hour(); h > 8 && h < 16 {
		from, to = "00:10", "00:20"
	}
	w := dbtest.Must(job.ParseWindows([]string{from + "-" + to}))(s.t)
	return &w
}

func TestOneJob(t *testing.T) {
	suite(t, func(s shop) {
		var ids []int64
		ids = append(ids, s.add(s.emails, "send", 3)...)
		ids = append(ids, s.addJobs(s.emails, job.Params{Type: "later", In: time.Hour}, job.Params{Type: "once", Windows: s.closed()})...)
		for _, id := range []int64{ids[1], ids[3], ids[4]} {
			var ended []worker.Attempt
			p := s.one(nothing)
			p.Ended = func(e worker.Attempt) { ended = append(ended, e) }
			wantSummary(s.t, s.workOne(p, id), worker.Summary{Started: 1, Finished: 1})
			dbtest.Ensure(s.t, len(ended) == 1 && ended[0].Job.ID == id && ended[0].Outcome.Verdict == job.Finished, "told of %+v", ended)
			s.wantLife(p.ID, "starting finished")
		}
		s.wantHistory(s.emails, atOnce, ids[1], ids[3], ids[4])
		s.wantHistory(s.emails, untouched, ids[0], ids[2])
		s.wantJob(s.emails, ids[0], job.Initial, "available", job.None, 0)

		dbtest.OK(s.t, admin.Of(s.emails).Pause(s.t.Context()))
		wantSummary(s.t, s.workOne(s.one(nothing), ids[2]), worker.Summary{Started: 1, Finished: 1})
		s.wantHistory(s.emails, atOnce, ids[2])
		wantSummary(s.t, s.work(s.worker(all(nothing))), worker.Summary{})
		s.wantJob(s.emails, ids[0], job.Initial, "available", job.None, 0)

		s.refused(ids[2], queue.ErrFinal)
		s.refused(ids[2]+1000, queue.ErrNotFound)
	})
}

// TestOneJobBesideTheHostsSlots: RunJob ignores the host's limits, and takes none of its slots.
func TestOneJobBesideTheHostsSlots(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = s.reopen(queue.Options{Name: "emails", Concurrency: 3}, laned("once", 1))
		ids := s.add(s.emails, "once", 3)
		busy := s.gate()
		p := s.worker(all(busy.handle))
		p.Concurrency = 1
		r := s.start(p)
		j := busy.next()
		s.refused(j.ID, store.ErrStarted)

		g := s.gate()
		p = s.one(g.handle)
		p.MaxJobs = 1
		alone := s.startOne(p, ids[2])
		if j := g.next(); j.ID != ids[2] {
			s.t.Errorf("started job %d", j.ID)
		}
		n := s.row(p.ID).Slots
		dbtest.Ensure(s.t, n == 0, "it holds %d slots", n)
		g.let()
		wantSummary(s.t, alone.ended(), worker.Summary{Started: 1, Finished: 1})
		busy.open()
		r.ended()
	})
}

func TestOneJobUnderALimit(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = s.reopen(queue.Options{Name: "emails", ThrottleLimit: 1}, nil)
		free := 0
		ids := append(s.add(s.emails, "send", 2), s.addJobs(s.emails, job.Params{Type: "send", ThrottleFactor: &free})...)
		g := s.gate()
		p := s.one(g.handle)
		r, asked := s.runWatched(func(ctx context.Context) (worker.Summary, error) { return worker.RunJob(ctx, p, ids[0]) })
		g.next()
		s.refused(ids[1], store.ErrNoRoom)
		s.wantJob(s.emails, ids[1], job.Initial, "available", job.None, 0)
		wantSummary(s.t, s.workOne(s.one(nothing), ids[2]), worker.Summary{Started: 1, Finished: 1})
		s.wantCalm(asked)
		g.open()
		// it ends although the limit has room for other jobs
		wantSummary(s.t, r.ended(), worker.Summary{Started: 1, Finished: 1})
		s.wantHistory(s.emails, untouched, ids[1])

		// the rate applies too; a job that it doesn't allow stays unchanged
		s.emails = s.reopen(queue.Options{Name: "emails", Rate: job.Rate{Starts: 1, Per: time.Hour}}, nil)
		ids = s.add(s.emails, "send", 2)
		wantSummary(s.t, s.workOne(s.one(nothing), ids[0]), worker.Summary{Started: 1, Finished: 1})
		s.refused(ids[1], store.ErrNoRoom)
		s.wantJob(s.emails, ids[1], job.Initial, "available", job.None, 0)
	})
}

// TestOneLongJob: during a long job the worker waits calmly, renews its lock, and stops the job when told to.
func TestOneLongJob(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.add(s.emails, "send", 2)
		g := s.gate()
		p := s.one(g.handle)
		p.LockFor, p.Grace = 6*time.Second, 100*time.Millisecond
		r, asked := s.runWatched(func(ctx context.Context) (worker.Summary, error) { return worker.RunJob(ctx, p, ids[0]) })
		g.next()
		s.wantCalm(asked)
		s.stop(p.ID, ids[0])
		g.wantCancelled()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 1, Errors: 1})
		s.wantCancelled(ids[0], 1)
		s.wantHistory(s.emails, untouched, ids[1])

		p = s.one(g.handle)
		p.Grace = 100 * time.Millisecond
		r = s.startOne(p, ids[1])
		g.next()
		r.stop()
		wantCause(s.t, "the interruption", g.stopped, worker.ErrInterrupted)
		wantSummary(s.t, r.ended(), worker.Summary{Started: 1, Errors: 1})
		s.wantHistory(s.emails, "added/0 starting/1 error/1", ids[1])
	})
}

// TestOneJobFails: RunJob makes one attempt, and asks the retry handler. A retry that is due at once is left to the next
// worker.
func TestOneJobFails(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.add(s.emails, "send", 3)
		wantSummary(s.t, s.workOne(s.one(noLuck), ids[0]), worker.Summary{Started: 1, Errors: 1})
		s.wantJob(s.emails, ids[0], job.Retry, "available", "no luck", 1)
		s.wantHistory(s.emails, "added/0 starting/1 error/1", ids[0])

		p := asking(s.one(noLuck), func(_ context.Context, _ *job.Job, o job.Outcome) (job.Decision, error) {
			return job.Decision{Again: o.Error == "no luck", In: time.Hour}, nil
		})
		wantSummary(s.t, s.workOne(p, ids[1]), worker.Summary{Started: 1, Errors: 1})
		s.wantJob(s.emails, ids[1], job.Retry, "scheduled", "no luck", 1)
		// a retry also runs at once
		wantSummary(s.t, s.workOne(s.one(nothing), ids[1]), worker.Summary{Started: 1, Finished: 1})
		s.wantHistory(s.emails, atSecond, ids[1])

		s.emails = s.async(0)
		wantSummary(s.t, s.workOne(s.one(nothing), ids[2]), worker.Summary{Started: 1, Finished: 1})
		s.wantJob(s.emails, ids[2], job.Running, "awaiting", job.None, 1)
		s.refused(ids[2], store.ErrStarted)
	})
}

// TestOneJobWithoutHandler: a job without a handler is refused, and so is a row that isn't ingested yet.
func TestOneJobWithoutHandler(t *testing.T) {
	suite(t, func(s shop) {
		id := s.add(s.emails, "unheard of", 1)[0]
		summary, err := s.startOne(s.one(nothing), id).end()
		dbtest.Ensure(s.t, err != nil && strings.Contains(err.Error(), "unheard of"), "the worker ends with %v", err)
		wantSummary(s.t, summary, worker.Summary{})
		s.wantJob(s.emails, id, job.Initial, "available", job.None, 0)
		s.wantHistory(s.emails, untouched, id)
		s.exec("INSERT INTO shop_emails (job_type, job_data) VALUES ('send', 'plain')")
		_, err = s.startOne(s.one(nothing), s.count("SELECT MAX(id) FROM shop_emails")).end()
		dbtest.Ensure(s.t, errors.Is(err, store.ErrNotIngested), "the worker ends with %v", err)
	})
}

// TestOneJobIsStoppedBeforeItBegins: a worker told to stop before it began leaves the job unchanged.
func TestOneJobIsStoppedBeforeItBegins(t *testing.T) {
	suite(t, func(s shop) {
		id := s.addJobs(s.emails, job.Params{Type: "send", In: time.Hour})[0]
		want := s.get(s.emails, id).ScheduledRunTime
		ctx, stop := context.WithCancel(s.t.Context())
		stop()
		p := s.one(nothing)
		summary, err := worker.RunJob(ctx, p, id)
		dbtest.Ensure(s.t, err == nil || errors.Is(err, worker.ErrInterrupted), "%v", err)
		wantSummary(s.t, summary, worker.Summary{})
		s.wantJob(s.emails, id, job.Initial, "scheduled", job.None, 0)
		at := s.get(s.emails, id).ScheduledRunTime
		dbtest.Ensure(s.t, at.Equal(want), "it is to run at %s, want %s", at, want)
		life := s.life(p.ID)
		dbtest.Ensure(s.t, life == "" || life == "starting finished", "the worker: %s", life)
	})
}

// TestJobThatIsOnlyLocked: SQL workers may lock jobs before they start them, perhaps early. If such a worker dies, its job
// runs at its time, not at once.
func TestJobThatIsOnlyLocked(t *testing.T) {
	suite(t, func(s shop) {
		in := job.Params{Type: "send", In: time.Hour}
		ids := s.addJobs(s.emails, in, in)
		want := s.get(s.emails, ids[0]).ScheduledRunTime
		s.die(s.emails, "dead", 0)
		s.lock("dead", ids...)
		s.refused(ids[0], store.ErrLocked)
		for range 2 {
			wantSummary(s.t, s.work(s.worker(all(nothing))), worker.Summary{})
		}
		for _, id := range ids {
			s.wantJob(s.emails, id, job.Initial, "scheduled", job.None, 0)
		}
		at := s.get(s.emails, ids[0]).ScheduledRunTime
		dbtest.Ensure(s.t, at.Equal(want), "it is to run at %s, want %s", at, want)
		s.exec("UPDATE shop_emails SET scheduled_run_time = create_time, wake_time = create_time")
		wantSummary(s.t, s.work(s.worker(all(nothing))), worker.Summary{Started: 2, Finished: 2})
	})
}

// TestLostAnswerOfOneJob: after a lost answer to a start's commit, the worker checks it: the job runs once.
func TestLostAnswerOfOneJob(t *testing.T) {
	t.Parallel()
	for _, committed := range []bool{true, false} {
		t.Run(fmt.Sprintf("committed=%t", committed), func(t *testing.T) {
			t.Parallel()
			s, proxy := proxied(t)
			id := s.add(s.emails, "send", 1)[0]
			lost := losesFirst(proxy, "start", func() {})
			proxy.LosesQuestions(!committed)
			r := s.startOne(s.one(nothing), id)
			receive(t, "the lost answer", lost)
			wantSummary(t, r.ended(), worker.Summary{Started: 1, Finished: 1})
			s.wantHistory(s.emails, atOnce, id)
		})
	}
}
