package store_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// viewColumns are the columns that docs/reference/procedures.md lists.
var viewColumns = []string{
	"id", "job_type", "job_key", "job_data", "state", "status", "attempt", "priority", "timeout", "throttle_factor", "scheduled_run_time", "create_time",
	"start_time", "update_time", "worker_id", "error", "result", "progress", "progress_note", "retry_of", "retried_as",
}

// The views have the documented columns, one row for each job of any status, and NULL for what a job doesn't have.
func TestViews(t *testing.T) {
	suite(t, func(s env) {
		made := must[[]string](t)(s.db.MakeViews(t.Context(), []schema.Queue{queue.Options(s.Options).Table()}))
		equal(t, strings.Join(made, " "), "shop_emails$jobs shop_emails$failures")
		ids := map[job.Status]int64{}
		for i, status := range job.Statuses {
			ids[status] = s.add(job.Params{Type: "send", Key: string(status)})[0].ID
			wake := any(nil)
			if status == job.StatusScheduled || status == job.StatusAwaiting {
				wake = "2030-01-01 00:00:00.000000"
			}
			s.exec("UPDATE shop_emails SET status = ?, attempt = ?, wake_time = ?, start_time = '2026-01-01 00:00:00.000000' WHERE id = ?", status, i%2, wake, ids[status])
		}
		s.exec("UPDATE shop_emails SET progress = 40, progress_note = 'page 4', progress_attempt = 1, worker_id = 'w', error = 'e', result = 'r' WHERE id = ?", ids[job.StatusFailed])
		for _, view := range []string{"shop_emails$jobs", "shop_emails$failures"} {
			equal(t, s.columnsOf("SELECT * FROM "+view), strings.Join(viewColumns, " "), view)
		}
		for i, status := range job.Statuses {
			j := status.State(i % 2)
			var got string
			must[any](t)(nil, s.db.SQL.GetContext(t.Context(), &got, "SELECT state FROM shop_emails$jobs WHERE job_type = 'send' AND job_key = ?", string(status)))
			equal(t, got, string(j), "state of %s", status)
		}
		equal(t, value[int](s, "SELECT COUNT(*) FROM shop_emails$jobs"), len(job.Statuses))
		equal(t, value[int64](s, "SELECT id FROM shop_emails$failures"), ids[job.StatusFailed])
		nulls := "job_data IS NULL AND worker_id IS NULL AND error IS NULL AND result IS NULL AND progress IS NULL AND progress_note IS NULL AND retry_of IS NULL"
		equal(t, value[int](s, "SELECT COUNT(*) FROM shop_emails$jobs WHERE "+nulls), len(job.Statuses)-1)
		equal(t, value[int](s, "SELECT COUNT(*) FROM shop_emails$jobs WHERE start_time IS NULL AND attempt = 0"), (len(job.Statuses)+1)/2)
		failed := column[string](s, "SELECT error FROM shop_emails$failures WHERE progress = 40 AND progress_note = 'page 4' AND worker_id = 'w' AND result = 'r'")
		equal(t, strings.Join(failed, " "), "e")
	})
}

// Beside many finished jobs, a job's id, its type and key, or a state find it without reading others. HIPQ_TEST_ROWS is how many.
func TestViewsReadFewRows(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("HIPQ_TEST_ROWS"))
	n = max(n, 20_000)
	suite(t, func(s env) {
		queues := []schema.Queue{queue.Options(s.Options).Table()}
		must[[]string](t)(s.db.MakeViews(t.Context(), queues))
		must[[]string](t)(s.db.MakeProcedures(t.Context(), queues))
		s.add(job.Params{Type: "send", Key: "k", Data: "1"}, job.Params{Type: "send", Key: "l"}, job.Params{Type: "report", Key: "k"})
		s.start("w", 1)
		s.settle("w2", job.Outcome{Verdict: job.Failed, Error: "no"}, s.start("w2", 1)...)
		const columns = "job_type, job_key, status, timeout, priority, throttle_factor, time_windows, job_data, start_time"
		list := make([]any, 0, 1000)
		for i := range 1000 {
			list = append(list, fmt.Sprint("many-", i))
		}
		s.exec("INSERT INTO shop_emails ("+columns+") VALUES "+engine.Rows("('send', ?, 'finished', 60, 100, 1, 'NONE', 'x', '2026-01-01 00:00:00')", len(list)), list...)
		for have := 1000; have < n; have *= 2 {
			s.exec("INSERT INTO shop_emails ("+columns+") SELECT "+columns+" FROM shop_emails WHERE status = 'finished' LIMIT ?", min(have, n-have))
		}
		s.exec(map[bool]string{true: "ANALYZE", false: "ANALYZE TABLE shop_emails"}[s.db.SQL.Engine == "sqlite"])
		for query, rows := range map[string]int{
			"SELECT id FROM shop_emails$jobs WHERE id = 1 AND job_data = '1'":                                    1,
			"SELECT id FROM shop_emails$jobs WHERE job_type = 'send' AND job_key = 'k'":                          1,
			"SELECT id FROM shop_emails$jobs WHERE job_type = 'send' AND job_key IN ('k', 'l')":                  2,
			"SELECT id FROM shop_emails$jobs WHERE state = 'running' AND job_data IS NOT NULL":                   1,
			"SELECT id FROM shop_emails$jobs WHERE state = 'initial' AND update_time > '2026-01-01' ORDER BY id": 1,
			"SELECT id FROM shop_emails$jobs WHERE state = 'retry'":                                              0,
			"SELECT id FROM shop_emails$jobs WHERE status IN ('available', 'scheduled', 'throttled')":            1,
			"SELECT id FROM shop_emails$jobs WHERE status = 'failed' AND error = 'no'":                           1,
			"SELECT COUNT(*) FROM shop_emails$jobs WHERE state = 'error'":                                        1,
			"SELECT id FROM shop_emails$failures WHERE error = 'no'":                                             1,
			fmt.Sprint("SELECT id FROM shop_emails$failures WHERE id = ", s.nth(2)):                              1,
			"SELECT id FROM shop_emails$failures WHERE job_type = 'send' AND job_key = 'l'":                      1,
		} {
			var found []int64
			read := s.reads(func() { found = column[int64](s, query) })
			ensure(t, len(found) == rows && read <= 100, "%s: %d rows, %d read", query, len(found), read)
			if s.db.SQL.Engine == "sqlite" {
				var plan strings.Builder
				s.print(&plan, "EXPLAIN QUERY PLAN "+query)
				ensure(t, !strings.Contains(plan.String(), "SCAN j") && !strings.Contains(plan.String(), "SCAN shop_emails"), "%s:\n%s", query, plan.String())
			}
		}
		if s.db.SQL.Engine == "sqlite" {
			return
		}
		equal(t, s.columnsOf("CALL shop_job_get('emails', NULL, 'send', 'k')"), strings.Join(viewColumns, " "), "job_get")
		for name, args := range map[string][]any{
			"by id": {"job_get", "emails", s.nth(1), nil, nil}, "by key": {"job_get", "emails", nil, "send", "k"}, "a final job": {"job_get", "emails", nil, "send", "many-7"},
			"cancel": {"job_cancel", "emails", nil, "report", "k", nil}, "retry": {"job_retry", "emails", nil, "send", "l"},
			"answer": {"job_answer", "emails", nil, "send", "k", "finished", nil, nil},
		} {
			read := s.reads(func() { s.one(args[0].(string), args[1:]...) })
			// MAX(id) of a key's final jobs takes as many entries as there are of that key
			ensure(t, read <= 100+int64(n/1000)*int64(strings.Count(name, "final")), "%s %s: %d read", args[0], name, read)
		}
	})
}

func (s env) columnsOf(query string) string {
	s.t.Helper()
	rows, err := s.db.SQL.QueryContext(s.t.Context(), query)
	require(s.t, err == nil, "%s: %v", query, err)
	defer func() { _ = rows.Close() }()
	names := must[[]string](s.t)(rows.Columns())
	require(s.t, rows.Err() == nil, "%s: %v", query, rows.Err())
	return strings.Join(names, " ")
}
