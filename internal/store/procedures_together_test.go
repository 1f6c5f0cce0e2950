package store_test

import (
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// Workers by SQL, with transactions of their own and without, and rounds share a queue with a limit: that holds at each commit,
// each attempt starts once, and all is done.
func TestProceduresTogether(t *testing.T) {
	const jobs, limit = 60, 3
	proceduresSuite(t, func(o *queue.Options) { o.ThrottleLimit = limit }, func(s env) {
		var list []job.Params
		for i := range jobs {
			list = append(list, job.Params{Type: "send", ThrottleFactor: new(1 + i%2)})
		}
		s.add(list...)
		left := func() (n int) {
			if t.Failed() {
				return 0 // else the others would wait without end for the one that failed
			}
			must[any](t)(nil, s.db.SQL.GetContext(t.Context(), &n, "SELECT COUNT(*) FROM shop_emails WHERE state <> 'final'"))
			return n
		}
		var wg sync.WaitGroup
		for n := range 4 {
			worker, conn := fmt.Sprint("sql", n), s.conn()
			s.call("worker_register", worker, nil, nil, 3600)
			wg.Go(func() {
				for left() > 0 {
					if n%2 == 1 {
						must[any](t)(conn.ExecContext(t.Context(), "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
					}
					if err := s.workOnce(conn, worker, n%2 == 1); err != nil && !engine.IsConflict(err) {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Go(func() {
			for left() > 0 {
				unsettled := settled(finished, s.start("rounds", 1)...)
				for len(unsettled) > 0 { // a row that somebody's transaction reads is settled later
					unsettled = s.do(s.newRound("rounds", 0, unsettled...)).Unsettled
				}
			}
		})
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			for left() > 0 {
				var used int
				must[any](t)(nil, s.db.SQL.GetContext(t.Context(), &used, "SELECT COALESCE(SUM(throttle_factor), 0) FROM shop_emails WHERE status IN ('locked', 'running', 'answered', 'deciding')"))
				ensure(t, used <= limit, "%d are in use", used)
			}
		}()
		wg.Wait()
		<-watched
		var starts, attempts int
		must[any](t)(nil, s.db.SQL.GetContext(t.Context(), &starts, "SELECT COUNT(*) FROM shop_activity WHERE kind = 'job' AND state = 'starting'"))
		must[any](t)(nil, s.db.SQL.GetContext(t.Context(), &attempts, "SELECT SUM(attempt) FROM shop_emails"))
		ensure(t, starts == jobs && attempts == jobs, "%d starts, %d attempts of %d jobs", starts, attempts, jobs)
	})
}

// workOnce grabs a job and does it. Where tx, it grabs in a transaction that has seen the table before.
func (s env) workOnce(conn *sql.Conn, worker string, tx bool) error {
	ctx := s.t.Context()
	exec := func(statement string) error {
		if !tx {
			return nil
		}
		_, err := conn.ExecContext(ctx, statement)
		return err
	}
	if err := exec("START TRANSACTION WITH CONSISTENT SNAPSHOT"); err != nil {
		return err
	}
	grabbed, err := tryOn(ctx, conn, "job_grab", worker, "emails", "send", 1)
	if err != nil {
		_ = exec("ROLLBACK")
		return err
	}
	if err := exec("COMMIT"); err != nil {
		return err
	}
	for _, g := range grabbed {
		for _, step := range []struct {
			name string
			args []any
		}{{"job_start", nil}, {"job_complete", []any{"done"}}} {
			for {
				_, err := tryOn(ctx, conn, step.name, append([]any{worker, "emails", g["id"], g["token"]}, step.args...)...)
				if err == nil {
					break
				}
				if !engine.IsConflict(err) {
					return err
				}
			}
		}
	}
	return nil
}
