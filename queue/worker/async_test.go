package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/handler"
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

// overdue makes the jobs' answers overdue.
func (s shop) overdue(ids ...int64) {
	s.t.Helper()
	for _, id := range ids {
		j := s.get(s.emails, id)
		var until engine.Time
		dbtest.OK(s.t, s.db.SQL.GetContext(s.t.Context(), &until, "SELECT wake_time FROM shop_emails WHERE id = ?", id))
		dbtest.Ensure(s.t, until.Equal(j.StartTime.Add(j.Timeout)),
			"job %d, started at %s, waits for its answer until %s", id, j.StartTime, until)
		s.exec("UPDATE shop_emails SET wake_time = create_time WHERE status = 'awaiting' AND id = ?", id)
	}
}

func TestAsyncJobWaitsForItsAnswer(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = s.async(2)
		ids := s.add(s.emails, "send", 4)
		p := only(s.emails, s.worker(all(nothing)))
		wantSummary(s.t, s.work(p), worker.Summary{Started: 2, Finished: 2})
		for _, id := range ids[:2] {
			s.wantJob(s.emails, id, job.Running, "awaiting", job.None, 1)
			s.wantHistory(s.emails, "added/0 starting/1", id)
		}
		s.wantCounts(s.emails, admin.Counts{Waiting: 2, Held: 1, Due: 1})
		// they weigh as much as running jobs
		wantSummary(s.t, s.work(only(s.emails, s.worker(all(nothing)))), worker.Summary{})

		s.answer(ids[0], job.Finished, "all good", "")
		s.wantJob(s.emails, ids[0], job.Final, "finished", job.None, 1)
		j := s.get(s.emails, ids[0])
		dbtest.Ensure(s.t, j.Result == "all good", "its result: %s", j.Result)
		s.wantHistory(s.emails, atOnce, ids[0])
		wantSummary(s.t, s.work(only(s.emails, s.worker(all(nothing)))), worker.Summary{Started: 1, Finished: 1})

		s.answer(ids[1], job.Failed, "", "refused")
		s.wantJob(s.emails, ids[1], job.Final, "failed", "refused", 1)
		s.answer(ids[2], job.TryAgain, "", "try later")
		s.wantJob(s.emails, ids[2], job.Error, "undecided", "try later", 1)
		// the next worker decides; its own attempt is sent like the first
		wantSummary(s.t, s.work(only(s.emails, s.worker(all(nothing)))), worker.Summary{Started: 2, Finished: 2})
		s.wantHistory(s.emails, "added/0 starting/1 error/1 starting/2", ids[2])
		s.wantJob(s.emails, ids[2], job.Running, "awaiting", job.None, 2)
		s.wantJob(s.emails, ids[3], job.Running, "awaiting", job.None, 1)
	})
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

// TestHandlerSaysSent: a handler of any type may return sent itself, or fail like any other.
func TestHandlerSaysSent(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.addJobs(s.emails, job.Params{Type: "send"}, job.Params{Type: "once"})
		c := s.court()
		p := only(s.emails, s.worker(nil))
		p.Queues[0].Handlers = map[string]handler.Handler{
			"send": handle(func(context.Context, *job.Job) job.Outcome {
				return job.Outcome{Verdict: job.Sent, Result: "ticket 5"}
			}),
			"once": handler.Func(nothing),
		}
		wantSummary(s.t, s.work(asking(p, c.decide)), worker.Summary{Started: 2, Finished: 2})
		c.quiet("the work is sent")
		s.wantJob(s.emails, ids[0], job.Running, "awaiting", job.None, 1)
		j := s.get(s.emails, ids[0])
		dbtest.Ensure(s.t, j.Result == "ticket 5", "its result: %s", j.Result)
		s.wantHistory(s.emails, atOnce, ids[1])
		s.answer(ids[0], job.Finished, "", "")
		j = s.get(s.emails, ids[0])
		dbtest.Ensure(s.t, j.State() == job.Final && j.Result == "ticket 5", "it is %s, its result %s", j.State(), j.Result)

		s.emails = s.async(0)
		id := s.add(s.emails, "once", 1)[0]
		wantSummary(s.t, s.work(only(s.emails, s.worker(all(noLuck)))), worker.Summary{Started: 1, Errors: 1})
		s.wantJob(s.emails, id, job.Final, "failed", "no luck", 1)
	})
}

// TestAnswerBeforeTheHandlerEnds: an answer that comes while the handler still runs is the outcome. The handler's own outcome
// then changes nothing and causes no error.
func TestAnswerBeforeTheHandlerEnds(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = s.async(0)
		sync := s.reports // an answer settles jobs of any type
		ids, others := s.add(s.emails, "later", 6), s.add(sync, "later", 2)
		g := s.gate()
		p := s.worker(all(func(ctx context.Context, j *job.Job) error {
			err := g.handle(ctx, j)
			if err == nil && j.ID%2 == 0 {
				return errors.New("no luck")
			}
			return err
		}))
		p.Concurrency = 8
		var j journal
		p.Log = j.log()
		r := s.start(p)
		g.holds(8)
		for i, id := range ids {
			s.answer(id, []job.Verdict{job.Finished, job.Failed, job.TryAgain}[i/2], "", []string{"", "refused", "try later"}[i/2])
		}
		emails := s.emails
		s.emails = sync
		for _, id := range others {
			s.answer(id, job.Finished, "", "")
		}
		s.emails = emails
		g.open()
		summary := r.ended()
		dbtest.Ensure(s.t, summary.Started == 8 && summary.Lost == 0 && summary.Finished+summary.Errors == 8, "summary %+v", summary)
		dbtest.Same(s.t, j.count("lock lost"), 0, "attempts are logged as lost")
		e := s.entries(activity.Filter{Kind: activity.Worker, Worker: p.ID, State: activity.Finished})
		dbtest.Ensure(s.t, len(e) == 1 && e[0].Error == activity.None, "the worker's end: %+v", e)
		s.work(only(s.emails, s.worker(all(nothing)))) // decides, unless the first worker has
		s.wantHistory(s.emails, atOnce, ids[:2]...)
		s.wantHistory(s.emails, "added/0 starting/1 failed/1", ids[2:4]...)
		s.wantHistory(s.emails, "added/0 starting/1 error/1", ids[4:]...)
		s.wantHistory(sync, atOnce, others...)
		for _, id := range ids[2:4] {
			s.wantJob(s.emails, id, job.Final, "failed", "refused", 1)
		}
		for _, id := range ids[4:] {
			s.wantJob(s.emails, id, job.Retry, "scheduled", "try later", 1)
		}
	})
}

// TestRetryHandlerOfAnAsyncJob: an overdue answer goes to the retry handler like any error.
func TestRetryHandlerOfAnAsyncJob(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = s.async(0)
		ids := s.addJobs(s.emails, job.Params{Type: "once", Timeout: time.Minute}, job.Params{Type: "once"})
		c := s.court()
		wantSummary(s.t, s.work(asking(only(s.emails, s.worker(all(nothing))), c.decide)), worker.Summary{Started: 2, Finished: 2})
		c.quiet("the work is sent")
		s.answer(ids[1], job.TryAgain, "", "busy")
		s.overdue(ids[0])
		r := s.start(asking(only(s.emails, s.worker(all(nothing))), c.decide))
		want := map[int64]string{ids[0]: "timeout after 1m", ids[1]: "busy"}
		for range ids {
			if asked := c.next(); asked.Outcome.Error != want[asked.Job.ID] || asked.Outcome.Verdict != job.TryAgain {
				s.t.Errorf("asked about job %d with %+v", asked.Job.ID, asked.Outcome)
			}
		}
		// an answer during the decision leaves nothing to decide
		s.answer(ids[0], job.Finished, "", "")
		for range ids {
			c.let(job.Decision{Again: true, In: time.Hour})
		}
		wantSummary(s.t, r.ended(), worker.Summary{})
		s.wantJob(s.emails, ids[0], job.Final, "finished", job.None, 1)
		s.wantHistory(s.emails, atOnce, ids[0])
		s.wantJob(s.emails, ids[1], job.Retry, "scheduled", "busy", 1)
	})
}
