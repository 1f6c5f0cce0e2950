package store_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// A caller needs the worker's secret. The public id isn't enough, for a SQL worker or for one of hipq work.
func TestProceduresWantTheSecret(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		const hipqWork = "0198c5a8-5f0e-7c31-9d2a-6f1b2c3d4e5f"
		s.hire(hipqWork)
		s.add(job.Params{Type: "send", Key: "a"}, job.Params{Type: "send", Key: "b"}, job.Params{Type: "send", Key: "c"})
		running, grabbed := s.begin("w1"), s.grab("w1")
		other := s.start(hipqWork, 1)[0]
		id := value[string](s, "SELECT worker_id FROM shop_emails WHERE id = ?", running["id"])
		for _, seen := range []string{id, hipqWork} {
			s.wantRefusal(31005, "unknown worker", "worker_heartbeat", []byte(seen))
			s.wantRefusal(31005, "unknown worker", "worker_deregister", []byte(seen))
			s.wantRefusal(31005, "unknown worker", "job_grab", []byte(seen), "emails", "send", 1)
			s.wantRefusal(31005, "unknown worker", "job_start", []byte(seen), "emails", grabbed["id"], grabbed["token"])
		}
		s.wantRefusal(31008, "does not have job", "job_progress", []byte(id), "emails", running["id"], running["token"], 7, nil)
		s.wantRefusal(31008, "does not have job", "job_complete", []byte(id), "emails", running["id"], running["token"], nil)
		s.wantRefusal(31008, "does not have job", "job_fail", []byte(id), "emails", running["id"], running["token"], nil, nil)
		s.wantRefusal(31008, "does not have job", "job_complete", []byte(hipqWork), "emails", other.ID, other.Token, nil)
	})
}

// A token reveals nothing about the next: neither its time nor the host's address, unlike a version 1 UUID.
func TestProceduresTokens(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		s.add(job.Params{Type: "send"}, job.Params{Type: "send"})
		a, b := s.grab("w1")["token"], s.grab("w1")["token"]
		same := 0
		for i := range min(len(a), len(b)) {
			if a[i] == b[i] {
				same++
			}
		}
		ensure(t, len(a) >= 32 && len(b) >= 32 && same <= 16 && (strings.Count(a, "-") != 4 || a[14] != '1'),
			"%s, and then %s: %d characters are the same", a, b, same)
	})
}

// The procedures of one queue do what those of the instance do, even in the caller's transaction.
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
		my, _ := errors.AsType[*mysql.MySQLError](err)
		ensure(t, my != nil && my.Number == 31010, "a job that was not started: %v", err)
		must[[]row](t)(tryOn(t.Context(), conn, "emails$job_start", "w1", g["id"], g["token"]))
		exec("ROLLBACK")
		s.wantState(s.byKey("a"), job.Initial, "available", 0)
		g = s.one("emails$job_grab", "w1", "send", 1)
		s.one("emails$job_start", "w1", g["id"], g["token"])
		r := s.one("emails$job_fail", "w1", g["id"], g["token"], "no", `{"final": true}`)
		ensure(t, g["job_key"] == "a" && r["state"] == "final", "%v, %v", g, r)
		s.wantHistory(s.byKey("a"), "added/0 starting/1 failed/1")
	})
}
