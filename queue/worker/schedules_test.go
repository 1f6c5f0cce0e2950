package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/scheduler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/schedule"
	"github.com/hipq/hipq/queue/worker"
)

func (s shop) yearly(name, queue string) schedule.Schedule {
	s.t.Helper()
	return schedule.Schedule{Name: name, Spec: dbtest.Must(schedule.ParseSpec("@yearly"))(s.t), Queue: queue, Job: job.Params{Type: "send"}}
}

// unseen makes the schedules last handled more than a year ago.
func (s shop) unseen() {
	s.t.Helper()
	then := engine.At(s.clock().AddDate(0, 0, -400))
	s.exec("UPDATE shop_schedules SET next_slot = ?, seen_until = ?", then, then)
}

// TestSchedules: a tick enqueues and runs what is due. A lingering worker does so when a slot comes.
func TestSchedules(t *testing.T) {
	suite(t, func(s shop) {
		ran := make(chan string, 10)
		p := worker.Params{
			Queues: []worker.Queue{{Queue: s.emails, Handlers: all(func(_ context.Context, j *job.Job) error {
				ran <- j.Key
				return nil
			})}},
			Schedules: []schedule.Schedule{s.yearly("yearly", "emails")},
		}
		run := func(ctx context.Context) {
			s.t.Helper()
			_, err := worker.Run(ctx, p)
			dbtest.Ensure(s.t, err == nil, "%v", err)
		}
		run(s.t.Context()) // it begins now
		if len(ran) != 0 {
			s.t.Fatalf("%s ran", <-ran)
		}
		s.unseen()
		run(s.t.Context())
		run(s.t.Context())
		dbtest.Require(s.t, len(ran) == 1, "%d jobs ran", len(ran))
		first := <-ran
		// the same slot again, for a worker already running
		p.Linger, p.RunFor = true, patience
		ctx, stop := context.WithTimeout(s.t.Context(), patience)
		defer stop()
		done := make(chan struct{})
		go func() {
			defer close(done)
			run(ctx)
		}()
		eventually(s.t, "it works", func() bool { return s.count("SELECT COUNT(*) FROM shop_workers WHERE state = 'working'") > 0 })
		s.unseen()
		select {
		case key := <-ran:
			dbtest.Ensure(s.t, key >= first, "%s after %s", key, first)
		case <-ctx.Done():
			s.t.Error("nothing ran")
		}
		stop()
		<-done
	})
}

// TestSchedulesStop: a worker told to stop leaves unhandled slots due as before.
func TestSchedulesStop(t *testing.T) {
	suite(t, func(s shop) {
		p := worker.Params{Queues: []worker.Queue{{Queue: s.emails, Handlers: all(nothing)}}}
		const n = 300
		for i := range n {
			p.Schedules = append(p.Schedules, s.yearly(fmt.Sprintf("s%d", i), "emails"))
		}
		dbtest.Must(worker.Run(s.t.Context(), p))(s.t)
		s.unseen()
		ctx, stop := context.WithCancel(s.t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			dbtest.Must(worker.Run(ctx, p))(s.t)
		}()
		added := func() int64 { return s.count("SELECT COUNT(*) FROM shop_emails") }
		eventually(s.t, "it has begun", func() bool { return added() > 0 })
		stop()
		<-done
		dbtest.Ensure(s.t, added() != n && s.count("SELECT COUNT(*) FROM shop_schedules WHERE last_job_id = 0") == n-added(),
			"%d jobs of %d", added(), n)
	})
}

// TestSchedulesFail: a schedule's error is reported, and blocks no job.
func TestSchedulesFail(t *testing.T) {
	suite(t, func(s shop) {
		p := worker.Params{
			Queues:    []worker.Queue{{Queue: s.emails, Handlers: all(nothing)}},
			Schedules: []schedule.Schedule{s.yearly("yearly", "emails")},
		}
		s.exec("ALTER TABLE shop_schedules RENAME COLUMN paused TO halted")
		s.add(s.emails, "send", 1)
		done, err := worker.Run(s.t.Context(), p)
		dbtest.Ensure(s.t, done.Finished == 1 && err != nil, "%+v, %v", done, err)
	})
}

// TestScheduleHeldForLong: the tick's error is a slot that waits for minutes, because an application's transaction holds what it needs.
func TestScheduleHeldForLong(t *testing.T) {
	t.Parallel()
	s := openShop(t, "mysql", dbtest.MySQL(t))
	p := worker.Params{
		Queues:    []worker.Queue{{Queue: s.emails, Handlers: all(nothing)}},
		Schedules: []schedule.Schedule{s.yearly("yearly", "emails")},
	}
	dbtest.Must(worker.Run(t.Context(), p))(t)
	s.unseen()
	tx := dbtest.Must(s.elsewhere().db.SQL.Begin())(t)
	defer func() { _ = tx.Rollback() }()
	dbtest.Must(tx.ExecContext(t.Context(), "UPDATE shop_schedules SET paused = 1"))(t)
	s.add(s.emails, "send", 1)
	done, err := worker.Run(t.Context(), p)
	dbtest.Ensure(t, done.Finished == 1 && errors.Is(err, scheduler.ErrOverdue) && strings.Contains(err.Error(), "yearly"), "%+v, %v", done, err)
}

func TestScheduleParams(t *testing.T) {
	suite(t, func(s shop) {
		twice := s.yearly("yearly", "emails")
		odd := s.yearly("Hourly", "emails")
		late := s.yearly("late", "emails")
		late.Missed = "sometimes"
		for name, all := range map[string][]schedule.Schedule{
			"twice": {twice, twice}, "another queue": {s.yearly("a", "reports")}, "a name": {odd}, "no spec": {{Name: "a", Queue: "emails"}},
			"missed": {late},
		} {
			_, err := worker.Run(s.t.Context(), worker.Params{Queues: []worker.Queue{{Queue: s.emails}}, Schedules: all})
			dbtest.Ensure(s.t, errors.Is(err, worker.ErrParams), "%s: %v", name, err)
		}
	})
}
