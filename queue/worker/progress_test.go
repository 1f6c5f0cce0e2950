package worker_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// reached waits until the current attempt's progress is in the job's row.
func (s shop) reached(id int64, want string) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("job %d has reached %s", id, want), func() bool {
		p, ok := s.get(s.emails, id).Reached()
		return ok && p.String() == want && !p.Time.IsZero()
	})
}

// TestProgressIsThrottled: however often handlers report, a row is written at most once a second. Invalid reports do no harm.
func TestProgressIsThrottled(t *testing.T) {
	suite(t, func(s shop) {
		s.exec("CREATE TABLE writes (id INTEGER NOT NULL)")
		trigger := "CREATE TRIGGER count_writes AFTER UPDATE ON shop_emails FOR EACH ROW "
		if s.db.SQL.Engine == "sqlite" {
			s.exec(trigger + "WHEN NEW.progress_time IS NOT OLD.progress_time BEGIN INSERT INTO writes VALUES (NEW.id); END")
		} else {
			s.exec(trigger + "INSERT INTO writes SELECT NEW.id FROM DUAL WHERE NOT NEW.progress_time <=> OLD.progress_time")
		}
		ids := s.add(s.emails, "send", 2)
		written := func(id int64) int { return int(s.count("SELECT COUNT(*) FROM writes WHERE id = ?", id)) }
		began, enough := time.Now(), make(chan struct{})
		r := s.start(only(s.emails, s.worker(all(func(ctx context.Context, _ *job.Job) error {
			for i := 0; ; i++ {
				handler.Progress(ctx, i%101, strings.Repeat("😀", 1+i%300)+"\x00\xff")
				select {
				case <-enough:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				default:
				}
				if i > 20_000 {
					time.Sleep(100 * time.Microsecond)
				}
			}
		}))))
		eventually(t, "both are written three times", func() bool { return written(ids[0]) >= 3 && written(ids[1]) >= 3 })
		close(enough)
		r.ended()
		most := int(time.Since(began)/time.Second) + 1
		for _, id := range ids {
			n := written(id)
			dbtest.Ensure(t, n <= most, "job %d was written %d times in %s", id, n, time.Since(began))
			p, ok := s.get(s.emails, id).Reached()
			dbtest.Ensure(t, ok && len([]rune(p.Note)) <= job.MaxNoteChars && strings.HasPrefix(p.Note+"😀", "😀"), "%+v, %v", p, ok)
		}
		s.wantHistory(s.emails, atOnce, ids...)
	})
}

// TestProgressPassesOverAHeldRow: a transaction that holds a job's row delays only the storing of its progress: other jobs'
// progress, results and starts go on.
func TestProgressPassesOverAHeldRow(t *testing.T) {
	blocked(t, func(s shop, hold func(string, ...string) func()) {
		ids := s.add(s.emails, "once", 8)
		g := s.gate()
		r := s.start(only(s.emails, s.worker(all(func(ctx context.Context, j *job.Job) error {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			done := make(chan error, 1)
			go func() { done <- g.handle(ctx, j) }()
			for n := 0; ; n++ {
				select {
				case err := <-done:
					return err
				case <-tick.C:
					handler.Progress(ctx, 50, strconv.FormatInt(j.ID, 10))
				}
			}
		}))))
		g.holds(4)
		s.reached(ids[0], fmt.Sprintf("50 %% (%d)", ids[0]))
		release := hold("READ COMMITTED", fmt.Sprintf("UPDATE shop_emails SET shard_key = 'x' WHERE id = %d", ids[0]))
		before := s.get(s.emails, ids[0]).Progress.Time
		since := s.clock()
		eventually(t, "the others' progress is written", func() bool {
			p, _ := s.get(s.emails, ids[1]).Reached()
			return p.Time.After(since)
		})
		at := s.get(s.emails, ids[0]).Progress.Time
		dbtest.Ensure(t, at.Equal(before), "the row was written at %s although another holds it", at)
		for range 3 { // one may be that of the row
			g.let()
		}
		g.holds(3)
		release()
		eventually(t, "its progress is written, or it has ended", func() bool {
			j := s.get(s.emails, ids[0])
			return j.Progress.Time.After(before) || j.State() == job.Final
		})
		g.open()
		wantSummary(t, r.ended(), worker.Summary{Started: 8, Finished: 8})
		s.wantHistory(s.emails, atOnce, ids...)
	})
}

// TestProgressCanNotBeWritten: progress that can't be stored harms no job.
func TestProgressCanNotBeWritten(t *testing.T) {
	suite(t, func(s shop) {
		id := s.add(s.emails, "once", 1)[0]
		g, log := s.gate(), &journal{}
		p := only(s.emails, s.worker(all(func(ctx context.Context, j *job.Job) error {
			handler.Progress(ctx, 5, "")
			return g.handle(ctx, j)
		})))
		p.Log = log.log()
		r := s.start(p)
		g.next()
		s.reached(id, "5 %")
		g.let()
		r.ended()
		s.wantHistory(s.emails, atOnce, id)

		id = s.add(s.emails, "once", 1)[0]
		s.exec("ALTER TABLE shop_emails DROP COLUMN progress_note")
		p.ID = uuid.NewString()
		r = s.start(p)
		g.next()
		eventually(t, "the log says so", func() bool { return log.count("progress of jobs could not be saved") > 0 })
		s.pass(1500 * time.Millisecond) // it is retried
		g.let()
		wantSummary(t, r.ended(), worker.Summary{Started: 1, Finished: 1})
		n := log.count("progress of jobs could not be saved")
		dbtest.Ensure(t, n == 1, "the log says so %d times", n)
		s.wantHistory(s.emails, atOnce, id)
	})
}

// TestProgressIsKept: sent jobs keep their last progress, and so do jobs whose retry handler is asked, which reports none.
func TestProgressIsKept(t *testing.T) {
	suite(t, func(s shop) {
		sent, asked := s.add(s.emails, "later", 1)[0], s.add(s.emails, "once", 1)[0]
		g := s.gate()
		p := only(s.emails, s.worker(map[string]handler.Handler{
			"later": verdict{func(ctx context.Context) job.Outcome {
				handler.Progress(ctx, 70, "")
				s.reached(sent, "70 %")
				return job.Outcome{Verdict: job.Sent}
			}},
			"once": verdict{func(ctx context.Context) job.Outcome {
				handler.Progress(ctx, 30, "")
				s.reached(asked, "30 %")
				return job.Outcome{Verdict: job.TryAgain, Error: "boo"}
			}},
		}))
		p.Queues[0].RetryHandlers = map[string]handler.RetryHandler{"once": handler.RetryFunc(
			func(ctx context.Context, j *job.Job, _ job.Outcome) (job.Decision, error) {
				handler.Progress(ctx, 99, "deciding")
				return job.Decision{}, g.handle(ctx, j)
			})}
		r := s.start(p)
		g.next()
		s.reached(asked, "30 %")
		g.open()
		r.ended()
		s.reached(asked, "30 %")
		s.reached(sent, "70 %")
		s.wantJob(s.emails, sent, job.Running, "awaiting", job.None, 1)
	})
}

// verdict is a handler that returns any outcome.
type verdict struct {
	end func(ctx context.Context) job.Outcome
}

func (v verdict) Handle(ctx context.Context, _ *job.Job) job.Outcome { return v.end(ctx) }
