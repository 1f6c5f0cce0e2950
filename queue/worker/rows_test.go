package worker_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
)

func TestWorkerIsOnRecord(t *testing.T) {
	suite(t, func(s shop) {
		dbtest.Same(s.t, dbtest.Must(workers.New(s.db).Last(s.t.Context()))(s.t), nil, "the last of no workers is")
		s.add(s.emails, "send", 4)
		g := s.gate()
		p := s.worker(all(g.handle))
		p.LockFor, p.Grace = 6*time.Second, 100*time.Millisecond
		lasts := make(chan time.Duration, 100)
		p.Renewed = func(d time.Duration) { lasts <- d }
		before := s.clock()
		r := s.start(p)
		g.holds(4)
		row := s.row(p.ID)
		dbtest.Ensure(s.t, row.Host == "here" && row.PID == 4711 && row.State == "working" && row.Slots == 4 && row.EndTime.IsZero(),
			"at work: %+v", row)
		dbtest.Ensure(s.t, !row.StartTime.Before(before.Add(-time.Millisecond)) && !row.StartTime.After(s.clock()),
			"started at %s, which is not after %s", row.StartTime, before)
		s.wantLife(p.ID, "starting")
		for range 3 {
			d := receive(s.t, "a renewal", lasts)
			dbtest.Ensure(s.t, d > 0 && d <= p.LockFor, "the lock is said to last %s", d)
		}
		eventually(s.t, "the heartbeat moves", func() bool { return s.row(p.ID).Heartbeat.After(row.Heartbeat.Add(time.Second)) })
		beat := s.row(p.ID)
		lock := beat.LockUntil.Sub(beat.Heartbeat.Time)
		dbtest.Ensure(s.t, lock == p.LockFor, "the lock lasts %s from the heartbeat", lock)
		g.open()
		r.ended()
		row = s.row(p.ID)
		dbtest.Ensure(s.t, row.State == "finished" && row.Slots == 0 && !row.EndTime.Before(beat.Heartbeat.Time), "at the end: %+v", row)
		entries := s.entries(activity.Filter{Kind: activity.Worker})
		if len(entries) != 2 {
			s.t.Fatalf("activity: %+v", entries)
		}
		for i, state := range []activity.State{activity.Starting, activity.Finished} {
			e := entries[i]
			if e.State != state || e.WorkerID != p.ID || e.Host != "here" || e.PID != 4711 || e.Error != activity.None || e.Queue != activity.None {
				s.t.Errorf("activity %d: %+v", i, e)
			}
		}
		for _, e := range s.entries(activity.Filter{Kind: activity.Job, Worker: p.ID}) {
			dbtest.Ensure(s.t, e.Host == "here" && e.PID == 4711, "activity of a job: %+v", e)
		}
		next := s.worker(all(nothing))
		s.work(next)
		last := dbtest.Must(workers.New(s.db).Last(s.t.Context()))(s.t)
		dbtest.Ensure(s.t, last != nil && last.ID == next.ID && last.State == "finished" && last.Host == "here",
			"the last worker is %+v", last)

		// one more that finds nothing all the while that it lingers; and one that dies, and is not known to have been idle
		lingers := s.worker(all(nothing))
		lingers.Linger, lingers.RunFor = true, 100*time.Millisecond
		s.work(lingers)
		s.exec("INSERT INTO shop_workers (id, host, pid, state, start_time, heartbeat, lock_until)"+
			" SELECT 'dead', host, pid, 'working', "+s.db.SQL.NowSQL+", heartbeat, start_time FROM shop_workers WHERE id = ?", lingers.ID)
		dbtest.Must(workers.New(s.db).Reap(s.t.Context(), workers.Worker{}, nil))(s.t)
		var idle []bool
		ticks, err := workers.New(s.db).Ticks(s.t.Context(), before.Add(-time.Second), s.clock().Add(time.Second))
		for _, t := range ticks {
			idle = append(idle, t.Idle && t.Host == "here")
		}
		dbtest.Ensure(s.t, err == nil && slices.Equal(idle, []bool{false, true, true, false}), "ticks that were idle: %v, %v", idle, err)
	})
}

// Whatever happened to its jobs meanwhile, a worker settles the very attempts that it has started, and changes nothing else.
func TestAttemptThatIsNoLongerTheWorkers(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.add(s.emails, "send", 4)
		g := s.gate()
		p := s.worker(all(func(ctx context.Context, j *job.Job) error {
			if err := g.handle(ctx, j); err != nil || j.ID != ids[3] {
				return err
			}
			return errors.New("no luck")
		}))
		r := s.start(p)
		g.holds(4)
		s.exec("UPDATE shop_emails SET lock_token = 'stolen' WHERE id IN (?, ?)", ids[0], ids[3])
		s.exec("UPDATE shop_emails SET attempt = 7 WHERE id = ?", ids[1])
		g.open()
		summary := r.ended()
		dbtest.Ensure(s.t, summary.Started == 4, "summary %+v", summary)
		s.wantJob(s.emails, ids[0], job.Running, "running", job.None, 1)
		s.wantJob(s.emails, ids[3], job.Running, "running", job.None, 1)
		s.wantJob(s.emails, ids[1], job.Running, "running", job.None, 7)
		s.wantJob(s.emails, ids[2], job.Final, "finished", job.None, 1)
		s.wantHistory(s.emails, "added/0 starting/1", ids[0], ids[1], ids[3])
		s.wantHistory(s.emails, atOnce, ids[2])
	})
}
