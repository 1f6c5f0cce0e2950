package store_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
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
		ofQueries := []string{"live", "part", "run_rank", "state"}
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
