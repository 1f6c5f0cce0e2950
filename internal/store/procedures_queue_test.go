package store_test

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// The procedures of one queue do what those of the instance do, also in the caller's transaction.
func TestProceduresOfOneQueue(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		s.add(job.Params{Type: "send", Key: "a"})
		conn := s.conn()
		exec := func(statement string) sql.Result {
			return must[sql.Result](t)(conn.ExecContext(t.Context(), statement))
		}
		exec("START TRANSACTION")
		g := must[[]row](t)(tryOn(t.Context(), conn, "emails$job_grab", "w1", "send", 1))[0]
		_, err := tryOn(t.Context(), conn, "emails$job_complete", "w1", g["id"], g["token"], nil)
		if my, _ := errors.AsType[*mysql.MySQLError](err); my == nil || my.Number != 31010 {
			t.Errorf("a job that was not started: %v", err)
		}
		must[[]row](t)(tryOn(t.Context(), conn, "emails$job_start", "w1", g["id"], g["token"]))
		exec("ROLLBACK")
		s.wantState(s.byKey("a"), job.Initial, "available", 0)
		g = s.one("emails$job_grab", "w1", "send", 1)
		s.one("emails$job_start", "w1", g["id"], g["token"])
		if r := s.one("emails$job_fail", "w1", g["id"], g["token"], "no", `{"final": true}`); g["job_key"] != "a" || r["state"] != "final" {
			t.Errorf("%v, %v", g, r)
		}
		s.wantHistory(s.byKey("a"), "added/0 starting/1 failed/1")
	})
}
