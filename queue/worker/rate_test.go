package worker_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// starts are the times at which jobs of a queue were started, by the database's clock.
func (s shop) starts(q *queue.Queue) (at []time.Time) {
	s.t.Helper()
	for _, e := range s.entries(activity.Filter{Kind: activity.Job, Queue: q.Name, State: activity.Starting}) {
		at = append(at, e.At)
	}
	slices.SortFunc(at, time.Time.Compare)
	return at
}

func (s shop) wantRate(q *queue.Queue) {
	s.t.Helper()
	at := s.starts(q)
	for i := range max(0, len(at)-q.Rate.Starts) {
		if d := at[i+q.Rate.Starts].Sub(at[i]); d < q.Rate.Per {
			s.t.Errorf("starts %d to %d are in %s, allowed are %d in %s", i+1, i+1+q.Rate.Starts, d, q.Rate.Starts, q.Rate.Per)
		}
	}
}

// A worker waits for the rate; it goes on as soon as that allows, and doesn't end before.
func TestRate(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = s.reopen(queue.Options{Name: "emails", Rate: job.Rate{Starts: 3, Per: 1500 * time.Millisecond}}, nil)
		ids := s.add(s.emails, "send", 8)
		others := s.add(s.reports, "send", 50)
		p := s.worker(all(nothing))
		r, asked := s.startWatched(p)
		eventually(s.t, "the first are started", func() bool { return len(s.starts(s.emails)) >= 3 })
		eventually(s.t, "the other queue isn't held up", func() bool { return s.counts(s.reports).Finished == 50 })
		before, began := asked.Load(), time.Now()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 58, Finished: 58})
		n := asked.Load() - before
		dbtest.Ensure(s.t, n <= int64(100*(1+time.Since(began).Seconds())), "it took about %d turns in %s", n, time.Since(began))
		s.wantRate(s.emails)
		at := s.starts(s.emails)
		// it must take three seconds and two slices of the rate, and may something for a slow machine
		took := at[7].Sub(at[0])
		dbtest.Ensure(s.t, took <= patience/2, "the eighth is started %s after the first", took)
		s.wantHistory(s.emails, atOnce, ids...)
		s.wantHistory(s.reports, atOnce, others...)
		s.wantLife(p.ID, "starting finished")
	})
}

// Two workers share the rate. Each attempt counts, also the second of a job, and one that ends with an error.
func TestRateOverTwoWorkers(t *testing.T) {
	suite(t, func(s shop) {
		o := queue.Options{Name: "emails", Rate: job.Rate{Starts: 5, Per: time.Second}}
		s.emails = s.reopen(o, nil)
		ids := s.add(s.emails, "send", 20)
		handle := func(_ context.Context, j *job.Job) error {
			if j.ID <= ids[1] && j.Attempt == 1 {
				return errors.New("no luck")
			}
			return nil
		}
		var runs []*run
		for _, host := range []string{"here", "there"} {
			other := s.elsewhere()
			p := only(other.reopen(o, nil), other.worker(all(handle)))
			p.Host = host
			runs = append(runs, other.start(p))
		}
		started := startedBy(runs)
		c := s.counts(s.emails)
		dbtest.Ensure(s.t, started == 22 && c.Finished == 20, "%d started, %+v", started, c)
		s.wantRate(s.emails)
		s.wantHistory(s.emails, atSecond, ids[:2]...)
		s.wantHistory(s.emails, atOnce, ids[2:]...)
	})
}

// What the rate doesn't allow within the worker's time is not worth waiting for.
func TestRateBeyondTheWorkersTime(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = s.reopen(queue.Options{Name: "emails", Rate: job.Rate{Starts: 2, Per: time.Hour}}, nil)
		ids := s.add(s.emails, "send", 3)
		wantSummary(s.t, s.work(s.worker(all(nothing))), worker.Summary{Started: 2, Finished: 2})
		wantSummary(s.t, s.work(s.worker(all(nothing))), worker.Summary{})
		s.wantJob(s.emails, ids[2], job.Initial, "available", job.None, 0)
	})
}

// A lingering worker that waits for the rate holds no slots then.
func TestRatedWorkerLeavesItsSlots(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = s.reopen(queue.Options{Name: "emails", Rate: job.Rate{Starts: 1, Per: time.Hour}}, nil)
		s.add(s.emails, "send", 3)
		p := only(s.emails, s.worker(all(nothing)))
		p.Linger = true
		r, asked := s.startWatched(p)
		eventually(s.t, "the first is done", func() bool { return s.counts(s.emails).Finished == 1 })
		s.wantCalm(asked)
		s.wantSlotsLeft()
		r.stop()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 1, Finished: 1})
	})
}

// Whoever had to wait for its turn starts its jobs after that, and counts them so.
func TestRateCountsFromTheTurn(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = s.reopen(queue.Options{Name: "emails", Rate: job.Rate{Starts: 2, Per: time.Second}}, nil)
		id := s.add(s.emails, "send", 1)[0]
		s.die(s.emails, "other", 0)
		turn := dbtest.Must(s.elsewhere().db.SQL.Begin())(s.t)
		dbtest.Must(turn.Exec("UPDATE shop_shards SET turn = turn + 1 WHERE queue = 'emails'"))(s.t)
		done := make(chan store.Done, 1)
		go func() {
			round, err := (*store.Queue)(s.emails).Round(s.t.Context(), newRound(s.emails, "other", 1))
			dbtest.Ensure(s.t, err == nil, "%v", err)
			done <- round
		}()
		s.pass(500 * time.Millisecond)
		over := s.clock()
		dbtest.OK(s.t, turn.Commit())
		if n := len(receive(s.t, "the turn", done).Started); n != 1 {
			s.t.Fatalf("started %d", n)
		}
		at := s.get(s.emails, id).StartTime
		dbtest.Ensure(s.t, !at.Before(over), "the job is said to have started %s before it could", over.Sub(at))
	})
}
