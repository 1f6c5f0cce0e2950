package store_test

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Every reader of jobs reads each field from its own column.
func TestEveryFieldIsRead(t *testing.T) {
	suite(t, func(s env) {
		windows := must[job.Windows](s.t)(job.ParseWindows([]string{"05:00-07:00", "mon 22:00-02:00"}))
		at := func(hour int) time.Time { return time.Date(2026, 11, 20, hour, 30, 15, 123456000, time.UTC) }
		want := job.Job{
			ID: 17, Queue: "emails", Type: "type", Data: "data", Key: "key", Status: job.StatusAwaiting, Timeout: 18 * time.Second,
			Error: "error", Result: "result", Output: "output", Attempt: 19, ScheduledRunTime: at(1), Priority: 20, ThrottleFactor: 21, Windows: windows,
			ShardKey: "shard", Place: 8003, StartTime: at(2), CreateTime: at(3), UpdateTime: at(4), WorkerID: "worker", Token: "token",
			Group: "group", AttemptToken: "attempt", RetryOverride: "retry_override", Stopping: true,
			Progress:  job.Progress{Percent: 24, Note: "note", Attempt: 19, Time: at(6)},
			Uncounted: 14, Interrupts: 15, Losses: 16, RetryOf: 22, RetriedAs: 23, WakeTime: at(5), AskedTime: at(7),
		}
		s.exec("INSERT INTO shop_emails (id, job_type, job_data, job_key, status, timeout, priority, throttle_factor, time_windows,"+
			" throttle_group, shard_key, attempt, scheduled_run_time, wake_time, asked_time, start_time, worker_id, lock_token, error, result, output,"+
			" create_time, update_time, attempt_token, retry_override, stopping, uncounted, interrupted, losses, retry_of, retried_as,"+
			" progress, progress_note, progress_attempt, progress_time, shard) VALUES (17, 'type', 'data', 'key', 'awaiting', 18, 20, 21, ?,"+
			" 'group', 'shard', 19, '2026-11-20 01:30:15.123456', '2026-11-20 05:30:15.123456', '2026-11-20 07:30:15.123456', '2026-11-20 02:30:15.123456', 'worker', 'token',"+
			" 'error', 'result', 'output', '2026-11-20 03:30:15.123456', '2026-11-20 04:30:15.123456', 'attempt', 'retry_override', 1, 14, 15, 16, 22, 23, 24, 'note', 19, '2026-11-20 06:30:15.123456', 8003)", windows.Encode())

		// This test would miss fields that the wanted job leaves out.
		for i, v := 0, reflect.ValueOf(want); i < v.NumField(); i++ {
			f := v.Type().Field(i)
			ensure(s.t, f.Name == "Left" || f.Name == "Invalid" || f.Name == "MaxAttempts" || !v.Field(i).IsZero(), "the test has no value for %s", f.Name)
		}
		read := map[string]*job.Job{"Get": s.get(17)}
		must[any](s.t)(nil, s.Find(s.t.Context(), admin.Filter{}, func(j *job.Job) error {
			read["Find"] = j
			return nil
		}))
		for by, got := range read {
			wanted, v := reflect.ValueOf(want), reflect.ValueOf(*got)
			for i := range v.NumField() {
				switch f := v.Type().Field(i); {
				case f.Name == "Left", f.Name == "MaxAttempts", f.Name == "Invalid" && v.Field(i).IsZero(): // a valid ingested row has neither
				case v.Field(i).IsZero():
					s.t.Errorf("%s doesn't read %s", by, f.Name)
				case !reflect.DeepEqual(v.Field(i).Interface(), wanted.Field(i).Interface()):
					s.t.Errorf("%s reads %s as %v, want %v", by, f.Name, v.Field(i), wanted.Field(i))
				}
			}
		}

		// A new column of the table is either a job's, or only for queries.
		query := "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'shop_emails'"
		if s.db.SQL.Engine == "sqlite" {
			query = "SELECT name FROM pragma_table_xinfo('shop_emails')"
		}
		columns := column[string](s, query)
		ofQueries := []string{"live", "part", "rank_sign", "run_rank", "state"}
		columns = slices.DeleteFunc(columns, func(c string) bool { return slices.Contains(ofQueries, c) })
		// Queue, Left, Invalid and MaxAttempts are no columns, and Progress is four.
		fields := reflect.TypeFor[job.Job]().NumField() - 4 + 3
		ensure(s.t, len(columns) == fields, "%d columns for %d fields: %v", len(columns), fields, columns)
	})
}

// A value that a plain SQL row leaves to its type differs from 0.
func TestWhatIsLeftIsRead(t *testing.T) {
	suite(t, func(s env) {
		s.exec("INSERT INTO shop_emails (job_type, priority, timeout) VALUES ('send', 0, NULL)")
		got, want := s.get(1).Left, (job.Left{Timeout: true, ThrottleFactor: true, Windows: true})
		ensure(s.t, got == want, "left are %+v, want %+v", got, want)
		s.upkeep()
		equal(s.t, s.get(1).Left, (job.Left{}), "left")
	})
}

// A started job is returned as its row is.
func TestStartedJobsAreAsStored(t *testing.T) {
	parallel(t)
	for _, change := range []func(*queue.Options){
		func(*queue.Options) {}, byRegion(0, map[string]int{"*": 5}), func(o *queue.Options) { o.Rate = job.Rate{Starts: 100, Per: time.Hour} },
	} {
		suiteWith(t, change, func(s env) {
			windows := must[job.Windows](s.t)(job.ParseWindows([]string{"00:00-24:00"}))
			s.add(inRegion("east", 2), job.Params{Type: "report", Data: "d", Windows: &windows, ShardKey: "s", ThrottleFactor: new(0)})
			s.settle("w", job.Outcome{Verdict: job.TryAgain, Error: "boo", Result: "r"}, s.start("w", 1)...)
			s.exec("UPDATE shop_emails SET wake_time = create_time, scheduled_run_time = create_time WHERE status = 'scheduled'")
			s.upkeep()
			jobs := s.start("w", 9)
			require(s.t, len(jobs) == 2, "started %v", ids(jobs))
			for _, j := range jobs {
				if stored := s.get(j.ID); !reflect.DeepEqual(j, stored) {
					s.t.Errorf("started %s, it is %s", fmt.Sprintf("%+v", *j), fmt.Sprintf("%+v", *stored))
				}
			}
		})
	}
}

// viewColumns are the columns that docs/reference/procedures.md lists.
var viewColumns = []string{
	"id", "job_type", "job_key", "job_data", "state", "status", "attempt", "priority", "timeout", "throttle_factor", "scheduled_run_time", "create_time",
	"start_time", "update_time", "worker_id", "error", "result", "progress", "progress_note", "retry_of", "retried_as",
}

// The views have the documented columns, one row for each job of any status, and NULL for what a job doesn't have.
func TestViews(t *testing.T) {
	suite(t, func(s env) {
		made := must[[]string](t)(s.db.MakeViews(t.Context(), []schema.Queue{s.Table()}))
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
			got := value[job.State](s, "SELECT state FROM shop_emails$jobs WHERE job_type = 'send' AND job_key = ?", string(status))
			equal(t, got, status.State(i%2), "state of %s", status)
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
		queues := []schema.Queue{s.Table()}
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
