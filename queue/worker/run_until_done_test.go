package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

// stay starts a worker that stays.
func (s shop) stay(p worker.Params) *run {
	p.ID = ""
	r, _ := s.runWatched(func(ctx context.Context) (worker.Summary, error) { return worker.RunUntilDone(ctx, p) })
	return r
}

// It runs again and again, until it is told to stop.
func TestStay(t *testing.T) {
	suite(t, func(s shop) {
		p := s.worker(all(nothing))
		p.RunFor = time.Second
		r := s.stay(p)
		for i := range 3 {
			s.add(s.emails, "send", 1)
			eventually(s.t, "the job is finished", func() bool { return s.counts(s.emails).Finished == int64(i+1) })
			workers := s.count("SELECT COUNT(*) FROM shop_workers")
			eventually(s.t, "the next run begins", func() bool { return s.count("SELECT COUNT(*) FROM shop_workers") > workers })
		}
		r.stop()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 3, Finished: 3})
		dbtest.Same(s.t, s.count("SELECT COUNT(*) FROM shop_workers WHERE state <> 'finished'"), 0, "workers have not ended in order")
	})
}

func TestStayUntilMaxJobs(t *testing.T) {
	suite(t, func(s shop) {
		s.add(s.emails, "send", 5)
		p := s.worker(all(nothing))
		p.MaxJobs, p.Concurrency = 3, 1
		wantSummary(s.t, s.stay(p).ended(), worker.Summary{Started: 3, Finished: 3})
	})
}

// A database that is away, before it begins and while it works, doesn't end it.
func TestStayThroughOutages(t *testing.T) {
	t.Parallel()
	s, proxy := proxied(t)
	j := &journal{}
	p := s.worker(all(nothing))
	p.Log, p.LockFor, p.Grace = j.log(), 3*time.Second, time.Second
	direct := s.elsewhere()
	proxy.Cut()
	r := s.stay(p)
	for i := range 2 {
		eventually(s.t, "it tries again", func() bool { return j.count("tries again") > i })
		proxy.Mend()
		direct.add(direct.emails, "send", 1)
		eventually(s.t, "the job is finished", func() bool { return direct.counts(direct.emails).Finished == int64(i+1) })
		n := j.count("works again")
		dbtest.Ensure(s.t, n == i+1, "it works again: said %d times", n)
		if i == 0 {
			proxy.Cut()
			tries := j.count("tries again")
			eventually(s.t, "its lock is lost, and it tries again", func() bool { return j.count("tries again") > tries })
		}
	}
	r.stop()
	wantSummary(s.t, r.ended(), worker.Summary{Started: 2, Finished: 2})
}

// What somebody has to mend ends it, before it does anything; so it does Run, and RunJob.
func TestRefusesOtherLayouts(t *testing.T) {
	suite(t, func(s shop) {
		id := s.add(s.emails, "send", 1)[0]
		for _, layout := range []struct {
			table string
			by    int
			is    error
		}{
			{"shop_workers", -1, schema.ErrNotMigrated},
			{"shop_workers", 100, schema.ErrNewer},
			{"shop_emails", -1, schema.ErrNotMigrated},
			{"shop_emails", 100, schema.ErrNewer},
		} {
			s.exec("UPDATE hipq_tables SET version = version + ? WHERE table_name = ?", layout.by, layout.table)
			for name, work := range map[string]func(context.Context, worker.Params) (worker.Summary, error){
				"Stay": worker.RunUntilDone, "Run": worker.Run,
				"RunJob": func(ctx context.Context, p worker.Params) (worker.Summary, error) { return worker.RunJob(ctx, p, id) },
			} {
				done, err := work(s.t.Context(), worker.Params{Queues: []worker.Queue{{Queue: s.unchecked(), Handlers: all(nothing)}}})
				dbtest.Ensure(s.t, errors.Is(err, layout.is) && done == (worker.Summary{}),
					"%s, %s %+d: %+v, %v", name, layout.table, layout.by, done, err)
			}
			_, err := queue.Open(s.t.Context(), (*store.Queue)(s.unchecked()).DB(), queue.Options(s.emails.Options))
			dbtest.Ensure(s.t, errors.Is(err, layout.is), "open, %s %+d: %v", layout.table, layout.by, err)
			s.exec("UPDATE hipq_tables SET version = version - ? WHERE table_name = ?", layout.by, layout.table)
		}
		dbtest.Same(s.t, s.count("SELECT COUNT(*) FROM shop_workers"), 0, "workers have begun")
		s.wantJob(s.emails, id, job.Initial, job.StatusAvailable, "NONE", 0)
	})
}

// One queue whose table is none of this hipq's is enough for a service to be refused, at once: Run would leave it out, and tell only
// when it ends.
func TestStayRefusesOneOfItsQueues(t *testing.T) {
	suite(t, func(s shop) {
		s.add(s.emails, "send", 1)
		s.exec("UPDATE hipq_tables SET version = version - 1 WHERE table_name = 'shop_reports'")
		p := s.worker(all(nothing))
		p.ID, p.RunFor = "", time.Hour
		done, err := worker.RunUntilDone(s.t.Context(), p)
		kind, hint := schema.Diagnose(err)
		if !errors.Is(err, schema.ErrNotMigrated) || kind != schema.Misconfigured || hint != "run hipq init" || done != (worker.Summary{}) {
			s.t.Errorf("%+v, %v (%s)", done, err, hint)
		}
	})
}

// unchecked is the queue of emails for one that knows nothing of the database yet.
func (s shop) unchecked() *queue.Queue {
	s.t.Helper()
	db := dbtest.Must(schema.Open(s.t.Context(), schema.Options{Driver: s.driver, Path: s.source, DSN: s.source}, schema.Named("shop")))(s.t)
	s.t.Cleanup(func() { _ = db.Close() })
	return dbtest.Must(queue.New(db, queue.Options(s.emails.Options)))(s.t)
}

func TestStayRefuses(t *testing.T) {
	suite(t, func(s shop) {
		for _, p := range []worker.Params{{}, s.worker(nil)} { // without queues, and with an ID
			_, err := worker.RunUntilDone(s.t.Context(), p)
			dbtest.Ensure(s.t, errors.Is(err, worker.ErrParams), "%v", err)
		}
	})
}
