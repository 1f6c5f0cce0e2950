package queue_test

import (
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/schema"
)

// mysqlProcedures is mysqlSuite with the stored procedures.
func proceduresSuite(t *testing.T, set func(*queue.Options), f func(s store)) {
	t.Helper()
	mysqlSuite(t, set, func(s store) {
		s.makeProcedures()
		f(s)
	})
}

func (s store) makeProcedures() {
	s.t.Helper()
	must[[]string](s.t)(s.db.MakeProcedures(s.t.Context(), []schema.Queue{s.Table()}))
}

var _ = dbtest.Open

// The whole life of a job.
func TestProcedures(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s store) {
		w := s.call("worker_register", "w1", "h", 7, 30)[0]
		t.Log(w)
		t.Log(s.call("worker_heartbeat", "w1"))
		t.Log(s.call("job_submit", "emails", "send", "k", `{"a":1}`, nil))
		t.Log(s.call("job_submit", "emails", "send", "k", `{"a":2}`, nil))
		t.Log(s.call("job_backlog", "emails", nil))
		g := s.call("job_grab", "w1", "emails", "send", 5)
		t.Log(g)
		t.Log(s.call("job_start", "w1", "emails", g[0]["id"], g[0]["token"]))
		t.Log(s.call("job_fail", "w1", "emails", g[0]["id"], g[0]["token"], "no", `{"retry_after":"0"}`))
		s.exec("UPDATE shop_emails SET wake_time = '2020-01-01', scheduled_run_time = '2020-01-01'")
		g = s.call("job_grab", "w1", "emails", `["send","report"]`, 5)
		t.Log(g)
		t.Log(s.call("job_start", "w1", "emails", g[0]["id"], g[0]["token"]))
		t.Log(s.call("job_complete", "w1", "emails", g[0]["id"], g[0]["token"], "done"))
		t.Log(s.call("worker_deregister", "w1"))
		t.Log(s.calls("SELECT * FROM shop_activity"))
	})
}

func (s store) call(name string, args ...any) []map[string]any {
	s.t.Helper()
	return s.calls("CALL shop_"+name+"("+marks(len(args))+")", args...)
}

func marks(n int) string {
	m := ""
	for i := range n {
		if i > 0 {
			m += ","
		}
		m += "?"
	}
	return m
}

func (s store) calls(query string, args ...any) (list []map[string]any) {
	s.t.Helper()
	rows, err := s.db.DB.DB.QueryContext(s.t.Context(), query, args...)
	if err != nil {
		s.t.Fatal(query, args, err)
	}
	defer func() { _ = rows.Close() }()
	names, _ := rows.Columns()
	for rows.Next() {
		vals := make([]any, len(names))
		ptr := make([]any, len(names))
		for i := range vals {
			ptr[i] = &vals[i]
		}
		if err := rows.Scan(ptr...); err != nil {
			s.t.Fatal(err)
		}
		m := map[string]any{}
		for i, n := range names {
			if b, ok := vals[i].([]byte); ok {
				vals[i] = string(b)
			}
			m[n] = vals[i]
		}
		list = append(list, m)
	}
	if err := rows.Err(); err != nil {
		s.t.Fatal(query, args, err)
	}
	return list
}
