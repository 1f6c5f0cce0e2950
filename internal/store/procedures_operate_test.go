package store_test

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// traces is all that a job's life leaves, apart from its id, key and tokens. Times are in minutes around now.
func (s env) traces(key string) string {
	s.t.Helper()
	var b strings.Builder
	when := func(column string) string {
		return "ROUND(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), " + column + ") / 60)"
	}
	s.print(&b, "SELECT status, state, job_data, timeout, priority, throttle_factor, time_windows, throttle_group, shard, shard_key, attempt, uncounted, interrupted, losses,"+
		" worker_id, lock_token = 'NONE', attempt_token = 'NONE', stopping, retry_override, error, result, output, retry_of IS NULL, retried_as IS NULL, "+
		strings.Join([]string{when("scheduled_run_time"), when("wake_time"), when("start_time"), when("update_time"), when("create_time")}, ", ")+
		" FROM shop_emails WHERE job_key = '"+key+"' ORDER BY id")
	s.print(&b, "SELECT state, attempt, worker_id, host, pid, IF(run_ms < 0, run_ms, ROUND(run_ms / 10000)), error, output FROM shop_activity WHERE job_key = '"+key+"' ORDER BY id")
	return b.String()
}

// number is the code of a refusal for an error of a Go operation; 0 for none.
func number(err error) uint16 {
	for known, n := range map[error]uint16{
		queue.ErrNotFound: 31007, queue.ErrOtherAttempt: 31008, queue.ErrNotStarted: 31010, queue.ErrFinal: 31011, admin.ErrStarted: 31019,
		admin.ErrNotFinal: 31020, admin.ErrFinished: 31021, admin.ErrNotFailed: 31021,
	} {
		if errors.Is(err, known) {
			return n
		}
	}
	if errors.As(err, new(*admin.ClosedError)) {
		return 31022
	}
	return 0
}

// Each procedure does to a job, wherever it stands, what its command does: the same row, the same entries, the same refusal.
func TestProceduresOperateAsCommands(t *testing.T) {
	for _, keeps := range []time.Duration{0, queue.DiscardAtOnce} {
		change := func(o *queue.Options) {
			o.Types[1].RetryHandler, o.KeepFinished, o.KeepFailed = true, keeps, keeps
			o.Types[0].Windows = must[job.Windows](t)(job.ParseWindows([]string{"00:00-24:00"}))
		}
		proceduresSuite(t, change, func(s env) { s.operateAsCommands() })
	}
}

func (s env) operateAsCommands() {
	t := s.t
	// as hipq without a config: only a worker's config knows retry handlers that are not registered
	registered := must[[]queue.Options](t)(admin.Registered(t.Context(), s.db))[0]
	other := must[*queue.Queue](t)(queue.New(s.db, registered))
	who := value[string](s, "SELECT USER()")
	by := admin.Of(other).By(who)
	situations := map[string]func(jobs ...*job.Job){
		"available": nil, "scheduled": nil, "submitted": nil,
		"locked":   func(jobs ...*job.Job) { s.lockOutside(idOf("w1"), ids(jobs)...) },
		"held":     func(jobs ...*job.Job) { s.exec("UPDATE shop_emails SET status = 'throttled'") },
		"running":  nil,
		"stopping": func(...*job.Job) { s.exec("UPDATE shop_emails SET stopping = 1") },
		"awaiting": func(jobs ...*job.Job) {
			s.settle("w", job.Outcome{Verdict: job.Sent, Result: "sent", Output: "o"}, jobs...)
		},
		"retry": func(jobs ...*job.Job) { s.settle("w", job.Outcome{Verdict: job.TryAgain, Error: "busy"}, jobs...) },
		"finished": func(jobs ...*job.Job) {
			s.settle("w", job.Outcome{Verdict: job.Finished, Result: "r"}, jobs...)
		},
		"failed": func(jobs ...*job.Job) { s.settle("w", job.Outcome{Verdict: job.Failed, Error: "no"}, jobs...) },
		"dismissed": func(jobs ...*job.Job) {
			s.settle("w", job.Outcome{Verdict: job.Failed, Error: "no"}, jobs...)
			_ = by.Dismiss(t.Context(), ids(jobs)...)
		},
		"retried": func(jobs ...*job.Job) {
			s.settle("w", job.Outcome{Verdict: job.Failed, Error: "no"}, jobs...)
			_, _ = by.Retry(t.Context(), false, ids(jobs)...)
		},
		"cancelled": func(jobs ...*job.Job) { _ = by.Cancel(t.Context(), ids(jobs)...) },
		"none":      func(...*job.Job) { s.exec("DELETE FROM shop_emails") },
	}
	for _, verdict := range []job.Verdict{job.Finished, job.TryAgain, job.Failed} {
		situations["answered "+string(verdict)] = func(jobs ...*job.Job) {
			for _, j := range jobs {
				must[queue.Answered](t)(other.Answer(t.Context(), queue.Answer{Type: j.Type, Key: j.Key, Verdict: verdict}))
			}
		}
	}
	for status, override := range map[string]string{"deciding": "NONE", "undecided": "5m0s", "undecided ": "until 2026-01-01T00:00:38.500Z", "undecided  ": "never"} {
		situations["left "+status+override] = func(...*job.Job) {
			s.exec("UPDATE shop_emails SET status = ?, error = 'busy', output = 'o', retry_override = ?, start_time = '2026-01-01', update_time = '2026-01-01 00:01:00'",
				strings.TrimSpace(status), override)
		}
	}
	begins := func(name string) bool {
		return !slices.Contains([]string{"available", "scheduled", "submitted", "locked", "held", "cancelled", "none"}, name)
	}
	hour, past, seven := time.Hour, time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), 7
	operations := map[string]struct {
		procedure string
		more      []any
		does      func(id int64, typeName, key string) error
	}{
		"cancel": {"job_cancel", []any{nil}, func(id int64, _, _ string) error { return by.Cancel(t.Context(), id) }},
		"cancel running": {"job_cancel", []any{`{"running": true}`}, func(id int64, _, _ string) error {
			err := by.Cancel(t.Context(), id)
			if errors.Is(err, admin.ErrStarted) {
				_, err = by.Stop(t.Context(), id)
			}
			return err
		}},
		"retry": {"job_retry", nil, func(id int64, _, _ string) error {
			_, err := by.Retry(t.Context(), false, id)
			return err
		}},
		"dismiss": {"job_dismiss", nil, func(id int64, _, _ string) error { return by.Dismiss(t.Context(), id) }},
		"reschedule in": {"job_reschedule", []any{`{"in": "1h", "priority": 7}`}, func(id int64, _, _ string) error {
			return by.Reschedule(t.Context(), id, admin.RescheduleOptions{In: &hour, Priority: &seven})
		}},
		"reschedule at": {"job_reschedule", []any{`{"at": "2020-01-01T00:00:00Z"}`}, func(id int64, _, _ string) error {
			return by.Reschedule(t.Context(), id, admin.RescheduleOptions{At: past})
		}},
		"reschedule priority": {"job_reschedule", []any{`{"priority": 7}`}, func(id int64, _, _ string) error {
			return by.Reschedule(t.Context(), id, admin.RescheduleOptions{Priority: &seven})
		}},
	}
	for name, a := range map[string]struct {
		answer queue.Answer
		more   []any
	}{
		"answer finished":      {queue.Answer{Verdict: job.Finished}, []any{"finished", nil, nil}},
		"answer with a result": {queue.Answer{Verdict: job.Finished, Result: `{"n":1}`}, []any{"finished", `{"n":1}`, nil}},
		"answer failed":        {queue.Answer{Verdict: job.Failed, Error: "no such"}, []any{"failed", nil, `{"error": "no such"}`}},
		"answer NONE":          {queue.Answer{Verdict: job.Failed, Error: "NONE"}, []any{"failed", nil, `{"error": "NONE"}`}},
		"answer retry":         {queue.Answer{Verdict: job.TryAgain}, []any{"retry", nil, nil}},
		"answer retry later":   {queue.Answer{Verdict: job.TryAgain, RetryAfter: time.Hour}, []any{"retry", nil, `{"retry_after": "1h"}`}},
		"answer release":       {queue.Answer{Verdict: job.Released}, []any{"release", nil, nil}},
		"answer counted":       {queue.Answer{Verdict: job.Released, RetryAfter: time.Hour, Count: true}, []any{"release", nil, `{"retry_after": "1h", "count": true}`}},
		"answer of another":    {queue.Answer{Verdict: job.Finished, Token: "other"}, []any{"finished", nil, `{"token": "other"}`}},
	} {
		operations[name] = struct {
			procedure string
			more      []any
			does      func(id int64, typeName, key string) error
		}{"job_answer", a.more, func(_ int64, typeName, key string) error {
			a.answer.Type, a.answer.Key = typeName, key
			_, err := other.Answer(t.Context(), a.answer)
			return err
		}}
	}
	for _, situation := range slices.Sorted(maps.Keys(situations)) {
		for _, operation := range slices.Sorted(maps.Keys(operations)) {
			for n, typeName := range []string{"send", "report"} {
				s.exec("DELETE FROM shop_emails")
				s.exec("DELETE FROM shop_activity WHERE kind = 'job'")
				if situation == "submitted" {
					for _, key := range []string{"go", "sql"} {
						s.exec("INSERT INTO shop_emails (job_type, job_key, job_data) VALUES (?, ?, '1')", typeName, key)
					}
				} else {
					for _, key := range []string{"go", "sql"} {
						p := job.Params{Type: typeName, Key: key, Data: `{"a": 1}`, Timeout: time.Minute, ShardKey: "s"}
						if situation == "scheduled" {
							p.In = 2 * time.Hour
						}
						s.add(p)
					}
				}
				jobs := []*job.Job{s.get(s.byKeyOf(typeName, "go")), s.get(s.byKeyOf(typeName, "sql"))}
				if begins(situation) {
					jobs = s.start("w", 2)
					require(t, len(jobs) == 2, "%s: %d started", situation, len(jobs))
					slices.SortFunc(jobs, func(a, b *job.Job) int { return strings.Compare(a.Key, b.Key) })
					s.exec("UPDATE shop_emails SET start_time = start_time - INTERVAL 20 SECOND")
				}
				if f := situations[situation]; f != nil {
					f(jobs...)
				}
				s.exec("UPDATE shop_emails SET update_time = update_time - INTERVAL 1 HOUR")
				o := operations[operation]
				err := o.does(jobs[0].ID, typeName, "go")
				about := []any{"emails", jobs[1].ID, nil, nil}
				if o.procedure == "job_answer" || n == 1 && situation != "retried" { // else another job has the key by now
					about = []any{"emails", nil, typeName, "sql"}
				}
				_, said := s.try(o.procedure, append(about, o.more...)...)
				ensure(t, codeOf(said) == number(err) && (err == nil) == (said == nil), "%s, %s, %s: %v; by SQL %v", situation, operation, typeName, err, said)
				diff := cmp.Diff(s.traces("go"), strings.ReplaceAll(s.traces("sql"), "3600000000us", "1h0m0s")) // both mean an hour
				ensure(t, diff == "", "%s, %s, %s (keeps %s):\n%s", situation, operation, typeName, registered.KeepFailed, diff)
			}
		}
	}
}

func (s env) byKeyOf(typeName, key string) int64 {
	s.t.Helper()
	return value[int64](s, "SELECT MAX(id) FROM shop_emails WHERE job_type = ? AND job_key = ?", typeName, key)
}

// What the rows say, and what no command can show.
func TestProceduresOperate(t *testing.T) {
	proceduresSuite(t, asynchronous, func(s env) {
		s.add(job.Params{Type: "send", Key: "ü", Data: `{"a": 1}`})
		want := row{
			"id": fmt.Sprint(s.nth(1)), "job_type": "send", "job_key": "ü", "job_data": `{"a": 1}`, "state": "initial", "status": "available", "attempt": "0",
			"priority": "100", "timeout": "60", "throttle_factor": "1", "start_time": "NULL", "worker_id": "NULL", "error": "NULL", "result": "NULL",
			"progress": "NULL", "progress_note": "NULL", "retry_of": "NULL", "retried_as": "NULL",
		}
		got := s.one("job_get", "emails", nil, "send", "ü")
		equal(t, fmt.Sprint(s.one("job_get", "emails", s.nth(1), nil, nil)), fmt.Sprint(got))
		for _, name := range []string{"scheduled_run_time", "create_time", "update_time"} {
			ensure(t, got[name] > "2026", "%s is %s", name, got[name])
			delete(got, name)
		}
		ensure(t, cmp.Equal(got, want), "%s", cmp.Diff(want, got))

		equal(t, s.one("job_cancel", "emails", nil, "send", "ü", nil)["state"], "final")
		equal(t, s.one("job_get", "emails", nil, "send", "ü")["error"], "cancelled", "the newest final job")
		again := s.one("job_retry", "emails", nil, "send", "ü")
		ensure(t, again["state"] == "initial" && again["id"] == fmt.Sprint(s.nth(2)) && again["duplicate"] == "0", "%v", again)
		equal(t, s.one("job_get", "emails", again["id"], nil, nil)["retry_of"], fmt.Sprint(s.nth(1)))
		at := s.one("job_reschedule", "emails", again["id"], nil, nil, `{"at": "2030-01-02T03:04:05Z"}`)
		ensure(t, at["state"] == "initial" && at["scheduled_run_time"] == "2030-01-02 03:04:05.000000", "%v", at)
		s.one("job_reschedule", "emails", again["id"], nil, nil, `{"in": 0}`)

		running := s.start("w", 1)[0]
		equal(t, s.one("job_cancel", "emails", nil, "send", "ü", `{"running": true}`)["state"], "running")
		s.exec("UPDATE shop_emails SET stopping = 0")
		s.settle("w", done, running)
		first := s.one("job_answer", "emails", nil, "send", "ü", "retry", nil, `{"retry_after": "5m", "error": "busy"}`)
		ensure(t, first["state"] == "retry" && first["changed"] == "1", "%v", first)
		in := value[int](s, "SELECT ROUND(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), scheduled_run_time) / 60) FROM shop_emails WHERE id = ?", again["id"])
		equal(t, in, 5, "minutes")
		equal(t, s.one("job_answer", "emails", nil, "send", "ü", "retry", nil, nil)["changed"], "0")
		last := s.one("job_answer", "emails", again["id"], nil, nil, "finished", "17", `{"token": "`+running.AttemptToken+`"}`)
		ensure(t, last["state"] == "final" && last["changed"] == "1", "%v", last)
		s.wantHistory(running.ID, "added/0 rescheduled/0 rescheduled/0 starting/1 stopping/1 error/1 finished/1")
		equal(t, s.get(running.ID).Result, "17")

		equal(t, s.one("queue_pause", "emails", true)["paused"], "1")
		s.add(job.Params{Type: "send"})
		equal(t, len(s.start("w", 1)), 0, "started in a paused queue")
		equal(t, s.one("emails$queue_pause", false)["paused"], "0")
		equal(t, len(s.start("w", 1)), 1, "started")
	})
}

// submit's on_duplicate is as Enqueue's; many jobs are added all or none.
func TestProceduresOnDuplicate(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		for _, key := range []string{"go", "sql"} {
			s.add(job.Params{Type: "send", Key: key, Data: "1"})
		}
		_, err := s.Enqueue(t.Context(), job.Params{Type: "send", Key: "go", OnDuplicate: job.RefuseDuplicate})
		ensure(t, errors.Is(err, job.ErrDuplicateKey), "%v", err)
		s.wantRefusal(31018, fmt.Sprintf("job %d has", s.byKey("sql")), "job_submit", "emails", "send", "sql", "2", `{"on_duplicate": "error"}`)
		equal(t, s.one("job_submit", "emails", "send", "sql", "2", `{"on_duplicate": "ignore"}`)["duplicate"], "1")
		for _, in := range []time.Duration{time.Hour, 0} {
			must[job.Added](t)(s.Enqueue(t.Context(), job.Params{Type: "send", Key: "go", Data: "2", In: in, Priority: new(3), Timeout: time.Minute, OnDuplicate: job.ReplaceDuplicate}))
			r := s.one("job_submit", "emails", "send", "sql", "2", fmt.Sprintf(`{"on_duplicate": "replace", "in": "%ds", "priority": 3, "timeout": "1m"}`, int(in.Seconds())))
			ensure(t, r["id"] == fmt.Sprint(s.byKey("sql")) && r["duplicate"] == "1", "%v", r)
			equal(t, s.traces("sql"), s.traces("go"))
		}
		s.start("w", 2)
		s.wantRefusal(31019, "has started", "job_submit", "emails", "send", "sql", "3", `{"on_duplicate": "replace"}`)
		s.wantRefusal(31002, "on_duplicate", "job_submit", "emails", "send", "sql", "3", `{"on_duplicate": "keep"}`)
		equal(t, s.one("job_submit", "emails", "send", "new", "3", `{"on_duplicate": "replace"}`)["duplicate"], "0")

		list := s.call("job_submit_many", "emails", `[{"job_type": "send", "job_key": "a", "job_data": {"x": [1, "ü"]}}, {"job_type": "report", "job_data": "text"},
			{"job_type": "send", "job_key": "a", "options": null}, {"job_type": "send", "job_key": "b", "job_data": null, "options": {"in": "1h"}}]`)
		var got []string
		for _, r := range list {
			got = append(got, r["n"]+" "+r["duplicate"])
		}
		equal(t, strings.Join(got, ", "), "1 0, 2 0, 3 1, 4 0")
		equal(t, list[2]["id"], list[0]["id"])
		equal(t, strings.Join(column[string](s, "SELECT CONCAT(REPLACE(job_data, ' ', ''), ' ', status) FROM shop_emails WHERE id IN (?, ?, ?) ORDER BY id",
			list[0]["id"], list[1]["id"], list[3]["id"]), ", "), `{"x":[1,"ü"]} available, text available, NONE scheduled`)
		for _, c := range []struct {
			jobs    any
			refusal string
		}{
			{`[{"job_type": "send", "job_key": "c"}, {"job_type": "send", "options": {"in": "soon"}}]`, "job 2: in soon is not a duration"},
			{`[{"job_type": "send", "job_key": "c"}, {"job_type": 7}]`, "job 2: job_type or job_key is not a text"},
			{`[{"job_type": "send"}, {}]`, "31001 job 2: job_type is missing"},
			{`[{"job_type": "send"}, {"type": "send"}]`, "job 2: options: unknown name type"},
			{`[{"job_type": "send"}, 5]`, "job 2: options is not a JSON object"},
			{`[]`, "array of 1 to 1000"},
			{`{}`, "array of 1 to 1000"},
			{`[`, "array of 1 to 1000"},
			{"[" + strings.Repeat(`{"job_type": "send"},`, 1000) + `{"job_type": "send"}]`, "array of 1 to 1000"},
			{nil, "31001 jobs is missing"},
		} {
			code := uint16(31002)
			if after, ok := strings.CutPrefix(c.refusal, "31001 "); ok {
				code, c.refusal = 31001, after
			}
			s.wantRefusal(code, c.refusal, "job_submit_many", "emails", c.jobs)
		}
		equal(t, len(s.call("emails$job_submit_many", "["+strings.Repeat(`{"job_type": "send"},`, 999)+`{"job_type": "send"}]`)), 1000)
	})
}

// In a queue with shards, a replaced job gets its place by its new values. It is added once.
func TestProceduresReplaceInShards(t *testing.T) {
	mysqlSuite(t, func(o *queue.Options) { o.Shards = 4 }, func(s env) {
		must[[]string](t)(s.db.MakeProcedures(t.Context(), []schema.Queue{s.Table()}))
		for _, shardKey := range []string{"a", "b", "c", "d", "e"} {
			s.one("job_submit", "emails", "send", "k", nil, `{"on_duplicate": "replace", "shard_key": "`+shardKey+`"}`)
			for range 2 {
				s.upkeep()
			}
			want := store.PlaceOf(s.core(), job.Params{Type: "send", Key: "k", ShardKey: shardKey})
			equal(t, value[int](s, "SELECT shard FROM shop_emails WHERE status = 'available'"), want, "with the shard key %s", shardKey)
		}
		s.wantHistory(s.nth(1), "added/0")
	})
}

// Wrong arguments are refused, with their codes, and change nothing.
func TestProceduresOperateRefuse(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		id := s.add(job.Params{Type: "send", Key: "k"})[0].ID
		long := strings.Repeat("x", 1<<20+1)
		for _, c := range []struct {
			code          uint16
			message, name string
			args          []any
		}{
			{31001, "id is missing, or job_type and job_key", "job_get", []any{"emails", nil, nil, "k"}},
			{31001, "id is missing", "job_cancel", []any{"emails", nil, "send", nil, nil}},
			{31007, "no job 4711", "job_get", []any{"emails", 4711, nil, nil}},
			{31007, "no job of type send with the key K", "job_retry", []any{"emails", nil, "send", "K"}},
			{31007, "no job of type send", "job_dismiss", []any{"emails", nil, "send", "k "}},
			{31007, "no job of type Send", "job_reschedule", []any{"emails", nil, "Send", "k", `{"in": 5}`}},
			{31007, "no job", "job_get", []any{"emails", nil, long, long}},
			{31003, "unknown queue mails", "job_get", []any{"mails", id, nil, nil}},
			{31003, "unknown queue mails", "queue_pause", []any{"mails", true}},
			{31001, "queue is missing", "job_answer", []any{nil, id, nil, nil, "finished", nil, nil}},
			{31002, "running is neither", "job_cancel", []any{"emails", id, nil, nil, `{"running": 1}`}},
			{31002, "unknown name run", "job_cancel", []any{"emails", id, nil, nil, `{"run": true}`}},
			{31001, "at, in or priority is missing", "job_reschedule", []any{"emails", id, nil, nil, nil}},
			{31002, "at and in contradict", "job_reschedule", []any{"emails", id, nil, nil, `{"at": "2026-02-20T00:00:00Z", "in": "5m"}`}},
			{31002, "priority", "job_reschedule", []any{"emails", id, nil, nil, `{"priority": 1.5}`}},
			{31001, "outcome is missing", "job_answer", []any{"emails", id, nil, nil, nil, nil, nil}},
			{31002, "outcome done is not one of", "job_answer", []any{"emails", id, nil, nil, "done", nil, nil}},
			{31002, "outcome cancelled is not one of", "job_answer", []any{"emails", id, nil, nil, "cancelled", nil, nil}},
			{31002, "more than 1048576 bytes", "job_answer", []any{"emails", id, nil, nil, "finished", long, nil}},
			{31002, "goes with finished", "job_answer", []any{"emails", id, nil, nil, "failed", "r", nil}},
			{31002, "goes with finished", "job_answer", []any{"emails", id, nil, nil, "finished", nil, `{"error": "e"}`}},
			{31002, "goes with finished", "job_answer", []any{"emails", id, nil, nil, "failed", nil, `{"retry_after": "5m"}`}},
			{31002, "error or token is not a text", "job_answer", []any{"emails", id, nil, nil, "failed", nil, `{"token": 5}`}},
			{31010, "not been started", "job_answer", []any{"emails", id, nil, nil, "finished", nil, nil}},
			{31001, "paused is missing", "queue_pause", []any{"emails", nil}},
			{31002, "paused 5 is neither", "queue_pause", []any{"emails", 5}},
			{31020, "is not final: it is initial", "job_retry", []any{"emails", id, nil, nil}},
			{31020, "is not final", "job_dismiss", []any{"emails", id, nil, nil}},
		} {
			s.wantRefusal(c.code, c.message, c.name, c.args...)
		}
	})
}

// A job that a group holds is let in at once by a call of its own, and after a transaction's commit by the search of hipq work.
func TestProceduresLetHeldJobsIn(t *testing.T) {
	proceduresSuite(t, byRegion(0, map[string]int{"east": 1}), func(s env) {
		for name, call := range map[string]func(id int64) []any{
			"job_answer":     func(id int64) []any { return []any{"emails", id, nil, nil, "finished", nil, nil} },
			"job_cancel":     func(id int64) []any { return []any{"emails", id, nil, nil, `{"running": true}`} },
			"job_reschedule": func(id int64) []any { return []any{"emails", id, nil, nil, `{"in": "1h"}`} },
		} {
			for _, inTransaction := range []bool{false, true} {
				s.exec("DELETE FROM shop_emails")
				for _, typeName := range []string{"send", "report", "send"} {
					j := inRegion("east", 1)
					j.Type = typeName
					s.add(j)
				}
				first := s.start("w", 9)
				require(t, len(first) == 1, "%d started", len(first))
				s.settle("w", job.Outcome{Verdict: job.Sent}, first...)
				id := first[0].ID
				if name == "job_reschedule" { // of the first in line, behind which the last waits
					id = s.nth(2)
					s.exec("UPDATE shop_emails SET asked_time = UTC_TIMESTAMP(6) WHERE id = ?", id)
				}
				conn := s.conn()
				if inTransaction {
					conn.exec("START TRANSACTION")
				}
				conn.call(name, call(id)...)
				if inTransaction {
					s.do(s.newRound("w", 9)) // it waits for nothing
					conn.exec("COMMIT")
				}
				line := column[int64](s, "SELECT id FROM shop_emails WHERE part = 'line'")
				want := []int64{s.nth(2)}
				if name == "job_reschedule" {
					want = []int64{s.nth(3)}
				}
				ensure(t, slices.Equal(line, want) != inTransaction, "%s in a transaction: %t: let in are %v, not %v", name, inTransaction, line, want)
				if name != "job_reschedule" {
					if inTransaction { // by the first search of another hipq work
						envOf(t, s.db, must[*queue.Queue](t)(queue.New(s.db, s.Options))).upkeep()
					}
					started := s.start("w", 9)
					ensure(t, len(started) == 1 && started[0].ID == want[0], "%s: started %v", name, ids(started))
				}
			}
		}
	})
}

// leaves are what takes the first job in line, which has had an attempt if retried, out of its group's line.
var leaves = map[string]struct {
	retried bool
	do      func(s env, key string)
}{
	"Answer": {true, func(s env, key string) {
		must[queue.Answered](s.t)(s.Answer(s.t.Context(), queue.Answer{Type: "send", Key: key, Verdict: job.Finished}))
	}},
	"Enqueue": {false, func(s env, key string) {
		must[job.Added](s.t)(s.Enqueue(s.t.Context(), job.Params{Type: "send", Key: key, OnDuplicate: job.ReplaceDuplicate}))
	}},
	"Cancel": {false, func(s env, key string) {
		must[any](s.t)(nil, admin.Of(s.Queue).Cancel(s.t.Context(), s.byKey(key)))
	}},
	"job_answer": {true, func(s env, key string) { s.one("job_answer", "emails", nil, "send", key, "failed", nil, nil) }},
	"job_cancel": {false, func(s env, key string) { s.one("job_cancel", "emails", nil, "send", key, nil) }},
	"job_submit": {false, func(s env, key string) {
		s.one("job_submit", "emails", "send", key, nil, `{"on_duplicate": "replace"}`)
	}},
	"job_submit_many": {false, func(s env, key string) {
		s.call("job_submit_many", "emails", `[{"job_type": "send", "job_key": "`+key+`", "options": {"on_duplicate": "replace"}}]`)
	}},
}

// A job that leaves its group's line before it starts lets the next one in.
func TestLeavingTheLineLetsIn(t *testing.T) {
	suiteWith(t, byRegion(0, map[string]int{"east": 1}), func(s env) {
		for name, leave := range leaves {
			if strings.HasPrefix(name, "job_") {
				if s.db.SQL.Engine == "sqlite" {
					continue
				}
				must[[]string](t)(s.db.MakeProcedures(t.Context(), []schema.Queue{s.Table()}))
			}
			s.exec("DELETE FROM shop_emails")
			for n := range 3 {
				j := inRegion("east", 1)
				j.Key = fmt.Sprint(name, n)
				s.add(j)
			}
			require(t, len(s.start("w", 9)) == 1, "not one started")
			s.exec("UPDATE shop_emails SET asked_time = create_time WHERE job_key = ?", name+"1")
			if leave.retried {
				s.exec("UPDATE shop_emails SET attempt = 1 WHERE job_key = ?", name+"1")
			}
			equal(t, column[string](s, "SELECT job_key FROM shop_emails WHERE part = 'line'"), []string{name + "1"}, "before "+name)
			leave.do(s, name+"1")
			equal(t, column[string](s, "SELECT job_key FROM shop_emails WHERE part = 'line'"), []string{name + "2"}, "after "+name)
		}
	})
}

// In the caller's transaction, calls happen with it or not at all, and each refusal undoes only its call.
func TestProceduresOperateInATransaction(t *testing.T) {
	proceduresSuite(t, asynchronous, func(s env) {
		for _, isolation := range []string{"READ COMMITTED", "REPEATABLE READ"} {
			for _, end := range []string{"ROLLBACK", "COMMIT"} {
				s.exec("UPDATE shop_queues SET paused = 0")
				s.exec("DELETE FROM shop_emails")
				s.exec("DELETE FROM shop_activity WHERE kind = 'job'")
				for _, key := range []string{"answer", "failed", "cancel", "later"} {
					s.add(job.Params{Type: "send", Key: key})
				}
				for _, j := range s.start("w", 2) {
					s.settle("w", job.Outcome{Verdict: map[string]job.Verdict{"answer": job.Sent, "failed": job.Failed}[j.Key], Error: "no"}, j)
				}
				before := s.all()
				conn := s.conn("SET SESSION TRANSACTION ISOLATION LEVEL "+isolation, "START TRANSACTION")
				for _, c := range [][]any{
					{"job_answer", "emails", nil, "send", "answer", "finished", "r", nil},
					{"job_retry", "emails", nil, "send", "failed"},
					{"job_cancel", "emails", nil, "send", "cancel", nil},
					{"job_reschedule", "emails", nil, "send", "later", `{"in": "1h"}`},
					{"job_submit_many", "emails", `[{"job_type": "send", "job_key": "new"}]`},
					{"job_cancel", "emails", nil, "send", "new", nil},
					{"queue_pause", "emails", true},
				} {
					conn.call(c[0].(string), c[1:]...)
					_, err := tryOn(t.Context(), conn, "job_retry", "emails", nil, "send", "later")
					ensure(t, codeOf(err) == 31020, "%v", err)
				}
				equal(t, s.all(), before, "seen before the end")
				conn.exec(end)
				if end == "ROLLBACK" {
					equal(t, s.all(), before, "after the rollback")
					continue
				}
				got := strings.Join(column[string](s, "SELECT CONCAT(job_key, ' ', status) FROM shop_emails ORDER BY id"), ", ")
				equal(t, got, "answer finished, failed closed, cancel closed, later scheduled, failed available, new closed")
				s.wantHistory(s.byKey("new"), "added/0 cancelled/0")
				s.wantHistory(s.byKey("answer"), "added/0 starting/1 finished/1")
				equal(t, value[int](s, "SELECT paused FROM shop_queues"), 1, "paused")
			}
		}
	})
}

// Beside a worker that runs rounds, in a queue with all limits: no round fails or waits long, and each job ends once.
func TestProceduresOperateBesideRounds(t *testing.T) {
	dbtest.Long(t, "it takes some seconds")
	change := func(o *queue.Options) {
		byRegion(6, map[string]int{"*": 2})(o)
		o.Types[0].Retry = job.RetryPolicy{Attempts: 3, Delay: time.Millisecond, Backoff: job.Fixed}
	}
	proceduresSuite(t, change, func(s env) {
		const jobs = 90
		regions := []string{"a", "b", "c"}
		for i := range jobs {
			j := inRegion(regions[i%3], 1)
			j.Key = fmt.Sprint(i)
			s.add(j)
		}
		for _, w := range []string{"r1", "r2"} {
			s.hire(w)
		}
		ctx := dbtest.Within(t, 4*time.Minute) // a busy machine takes long
		live := func() int {
			return value[int](s, "SELECT COUNT(*) FROM shop_emails WHERE live = 1 AND CAST(job_key AS UNSIGNED) < ?", jobs)
		}
		var over atomic.Bool
		var slowest atomic.Int64
		var all sync.WaitGroup
		for _, w := range []string{"r1", "r2"} {
			all.Go(func() {
				candidates := s.candidates("send", "report")
				var did store.Done
				for n := 0; !over.Load() && ctx.Err() == nil; n++ {
					r := s.newRound(w, 4)
					r.Settle = did.Unsettled // a call had their rows
					for i, j := range did.Started {
						r.Settle = append(r.Settle, settled(job.Outcome{Verdict: []job.Verdict{job.Finished, job.Sent, job.TryAgain, job.Sent}[(i+n)%4], Error: "e"}, j)...)
					}
					r.Candidates = candidates
					began := time.Now()
					var err error
					did, err = s.round(ctx, r)
					slowest.Store(max(slowest.Load(), int64(time.Since(began))))
					if err != nil && ctx.Err() == nil {
						t.Errorf("a round: %v", err)
						return
					}
					if n%5 == 0 {
						s.upkeep()
					}
				}
			})
		}
		allowed := []uint16{0, 31007, 31010, 31011, 31019, 31020, 31021, 31022, 1213}
		var deadlocks, made atomic.Int64
		for c := range 3 {
			all.Go(func() {
				conn, err := s.db.SQL.Conn(ctx)
				if err != nil {
					return
				}
				defer func() { _ = conn.Close() }()
				for n := c; !over.Load() && ctx.Err() == nil; n++ {
					made.Add(1)
					key := fmt.Sprint(rand.N(jobs))
					calls := [][]any{
						{"job_answer", "emails", nil, "send", key, "finished", "r", nil},
						{"job_answer", "emails", nil, "send", key, "retry", nil, nil},
						{"job_cancel", "emails", nil, "send", key, `{"running": true}`},
						{"job_reschedule", "emails", nil, "send", key, `{"in": 0}`},
						{"job_answer", "emails", nil, "send", key, "failed", nil, nil},
						{"job_dismiss", "emails", nil, "send", key},
						{"job_submit_many", "emails", `[{"job_type": "report", "job_key": "` + fmt.Sprint(n+jobs) + `"}]`},
						{"queue_pause", "emails", true},
						{"queue_pause", "emails", false},
						{"job_get", "emails", nil, "send", key},
					}
					call := calls[rand.N(len(calls))]
					_, err := tryOn(ctx, conn, call[0].(string), call[1:]...)
					code := codeOf(err)
					if code == 1213 {
						deadlocks.Add(1)
					}
					if ctx.Err() == nil && (!slices.Contains(allowed, code) || code == 0 && err != nil && !errors.Is(err, sql.ErrNoRows)) {
						t.Errorf("%v: %v", call, err)
						return
					}
				}
			})
		}
		for live() > 0 && ctx.Err() == nil && !t.Failed() {
			time.Sleep(20 * time.Millisecond)
		}
		over.Store(true)
		all.Wait()
		left := column[string](s, "SELECT CONCAT(job_key, ' ', status, ' ', shard, ' ', throttle_group, ' ', COALESCE(asked_time, 'not asked')) FROM shop_emails WHERE live = 1 AND CAST(job_key AS UNSIGNED) < ?", jobs)
		ensure(t, len(left) == 0, "jobs that have not ended, after %d calls: %v", made.Load(), left)
		ensure(t, time.Duration(slowest.Load()) < 10*time.Second, "a round took %s", time.Duration(slowest.Load()))
		ensure(t, deadlocks.Load() < 20, "%d calls were in a deadlock", deadlocks.Load())
		unended := column[string](s, "SELECT CONCAT(j.job_key, ' ', j.status, ' ', GROUP_CONCAT(a.state ORDER BY a.id)) FROM shop_emails j JOIN shop_activity a ON a.job_id = j.id"+
			" WHERE j.live IS NULL GROUP BY j.id HAVING SUM(a.state IN ('finished', 'failed', 'cancelled')) <> 1 OR SUM(a.state = 'added') <> 1")
		ensure(t, len(unended) == 0, "final jobs without one end in the activity: %v", unended)
	})
}
