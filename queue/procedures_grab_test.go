package queue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// Order holds over types and parts of the line, and what came in by plain SQL, or is due now, is there at once.
func TestProceduresGrabInOrder(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s store) {
		s.add(job.New{Type: "send", Key: "c"}, job.New{Type: "report", Key: "b", Priority: new(50)},
			job.New{Type: "send", Key: "a", Priority: new(7), ThrottleFactor: new(0)}, job.New{Type: "other", Key: "no"},
			job.New{Type: "send", Key: "d", In: time.Hour}, job.New{Type: "send", Key: "later", In: time.Hour})
		s.exec("UPDATE shop_emails SET wake_time = '2020-01-01', scheduled_run_time = UTC_TIMESTAMP(6) WHERE job_key = 'd'")
		s.exec(`INSERT INTO shop_emails (job_type, job_key, priority) VALUES ('send', 'plain', 60)`)
		s.exec(`INSERT INTO shop_emails (job_type, job_key, time_windows, priority) VALUES ('send', 'bad', 'teatime', 1), ('send', CAST(X'ff' AS BINARY), NULL, 1)`)
		if got := s.grabbed("w1", 3); got != "a b plain" {
			t.Error(got)
		}
		if got := s.grabbed("w1", 9); got != "c d" {
			t.Error(got)
		}
		s.wantHistory(s.byKey("plain"), "added/0")
		s.upkeep() // says what is wrong with the others
		s.wantState(s.byKey("bad"), job.Final, "failed", 0)
	})
}

func (s store) byKey(key string) (id int64) {
	s.t.Helper()
	must[any](s.t)(nil, s.db.GetContext(s.t.Context(), &id, "SELECT id FROM shop_emails WHERE job_key = ?", key))
	return id
}

// What a worker has grabbed is nobody else's, and goes back at no cost, when it ends or dies. What it runs is lost with it.
func TestProceduresGiveBack(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s store) {
		s.add(job.New{Type: "send", Key: "runs"}, job.New{Type: "send", Key: "a"}, job.New{Type: "send", Key: "b"})
		s.begin("w1")
		if got := s.grabbed("w1", 5); got != "a b" {
			t.Error(got)
		}
		s.call("worker_register", "w2", nil, nil, nil)
		if got := s.grabbed("w2", 5); got != "" {
			t.Error(got)
		}
		s.call("worker_deregister", "w1")
		s.wantState(s.byKey("a"), job.Initial, "due", 0)
		if got := s.grabbed("w2", 5); got != "a b" {
			t.Error(got)
		}
		s.bury("w2")
		s.upkeep()
		s.wantState(s.byKey("a"), job.Initial, "due", 0)
		s.wantHistory(s.byKey("a"), "added/0")
		s.wantHistory(s.byKey("runs"), "added/0 starting/1 error/1")
	})
}

// A job whose worker was lost is decided about by whoever grabs jobs of its type: no config may have it.
func TestProceduresDecide(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s store) {
		s.call("job_submit", "emails", "foreign", "k", nil, nil)
		g := s.one("job_grab", "w1", "emails", "foreign", 1)
		s.call("job_start", "w1", "emails", g["id"], g["token"])
		s.call("worker_register", "w2", nil, nil, nil)
		s.hearOnly("w1", s.byKey("k"))
		s.bury("w1")
		s.upkeep()
		s.wantState(s.byKey("k"), job.Error, "error", 1)
		if list := s.call("job_grab", "w2", "emails", "foreign", 1); len(list) != 0 {
			t.Errorf("%v", list)
		}
		s.wantState(s.byKey("k"), job.Retry, "later", 1)
		s.wantHistory(s.byKey("k"), "added/0 starting/1 error/1")
		s.wantRan(s.byKey("k"), 38_500)
		if list := s.refused("job_complete", "w1", "emails", g["id"], g["token"], nil); list != 31008 {
			t.Errorf("%d", list)
		}
	})
}

// The limit holds for those who grab and for rounds, and nothing that weighs something overtakes the next that doesn't fit.
func TestProceduresKeepTheLimit(t *testing.T) {
	proceduresSuite(t, func(o *queue.Options) { o.ThrottleLimit = 3 }, func(s store) {
		s.add(job.New{Type: "send", Key: "a"}, job.New{Type: "send", Key: "b"}, job.New{Type: "send", Key: "heavy", ThrottleFactor: new(2)},
			job.New{Type: "send", Key: "light"}, job.New{Type: "report", Key: "free", ThrottleFactor: new(0)}, job.New{Type: "send", Key: "giant", ThrottleFactor: new(9)})
		if got := s.grabbed("w1", 9); got != "a b free" {
			t.Error(got)
		}
		s.hire("h")
		if n := len(s.start("h", 5)); n != 0 {
			t.Errorf("a round starts %d jobs beside", n)
		}
		s.call("worker_register", "w2", nil, nil, nil)
		s.call("worker_deregister", "w1")
		if got := s.grabbed("w2", 1); got != "a" {
			t.Error(got)
		}
		if list := s.start("h", 1); len(list) != 1 || list[0].Key != "b" {
			t.Errorf("%v", list)
		}
	})
}

// A full group holds back its own jobs alone, and gives them in order when it has room again.
func TestProceduresKeepGroups(t *testing.T) {
	proceduresSuite(t, byRegion(20, map[string]int{"east": 1, "*": 2}), func(s store) {
		for i := range 4 {
			s.add(job.New{Type: "send", Key: fmt.Sprintf("e%d", i), Data: `{"to":{"region":"east"}}`}, job.New{Type: "send", Key: fmt.Sprintf("w%d", i), Data: `{"to":{"region":"west"}}`})
		}
		s.add(job.New{Type: "send", Key: "none"}, job.New{Type: "send", Key: "twice", Data: `{"to":{"region":"a","region":"b"}}`}, job.New{Type: "send", Key: "last"})
		if got := s.grabbed("w1", 20); got != "e0 w0 w1 none last" {
			t.Error(got)
		}
		s.wantState(s.byKey("e1"), job.Initial, "held", 0)
		if got := s.grabbed("w1", 20); got != "" {
			t.Error(got)
		}
		s.call("worker_register", "w2", nil, nil, nil)
		s.call("worker_deregister", "w1")
		if got := s.grabbed("w2", 20); got != "e0 w0 w1 none last" {
			t.Error(got)
		}
		g := s.call("job_grab", "w2", "emails", "send", 1)
		if len(g) != 0 {
			t.Errorf("%v", g)
		}
		s.exec("UPDATE shop_emails SET state = 'final', line = 'finished' WHERE job_key IN ('e0', 'none', 'last')")
		if got := s.grabbed("w2", 20); got != "e1" {
			t.Error(got)
		}
		if list := s.start("h", 20); len(list) != 1 || list[0].Key != "twice" { // what SQL leaves to hipq
			t.Errorf("%v", list)
		}
	})
}

// A rate is kept by starts, of both kinds of workers.
func TestProceduresKeepTheRate(t *testing.T) {
	proceduresSuite(t, func(o *queue.Options) { o.Rate = job.Rate{Starts: 3, Per: time.Hour} }, func(s store) {
		s.add(job.New{Type: "send", Key: "a"}, job.New{Type: "send", Key: "b"}, job.New{Type: "send", Key: "c"}, job.New{Type: "send", Key: "d"})
		if got := s.grabbed("w1", 9); got != "a b c" {
			t.Error(got)
		}
		if n := len(s.start("h", 2)); n != 1 { // it doesn't know of them
			t.Errorf("a round starts %d", n)
		}
		var token string
		must[any](t)(nil, s.db.GetContext(t.Context(), &token, "SELECT lock_token FROM shop_emails WHERE job_key = 'a'"))
		for _, key := range []string{"a", "b"} {
			s.call("job_start", "w1", "emails", s.byKey(key), token)
		}
		if code := s.refused("job_start", "w1", "emails", s.byKey("c"), token); code != 31013 {
			t.Errorf("%d", code)
		}
		s.wantState(s.byKey("c"), job.Initial, "due", 0)
		if got := s.grabbed("w1", 9); got != "" {
			t.Error(got)
		}
		if n := len(s.start("h", 2)); n != 0 {
			t.Errorf("a round starts %d", n)
		}
		s.exec("UPDATE shop_shards SET starts = REPLACE(starts, '\"17', '\"16') WHERE queue = 'emails'") // long ago
		if got := s.grabbed("w1", 9); got != "c" {
			t.Error(got)
		}
	})
}

// Windows and pause are looked at again when a job starts: it goes back then, and this is no error of the job.
func TestProceduresStartNotNow(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s store) {
		now := time.Now().UTC()
		closed := fmt.Sprintf(`["%02d:00-%02d:00"]`, (now.Hour()+3)%24, (now.Hour()+4)%24)
		s.add(job.New{Type: "send", Key: "a"}, job.New{Type: "send", Key: "b"})
		s.exec("UPDATE shop_emails SET time_windows = ? WHERE job_key = 'b'", closed)
		if got := s.grabbed("w1", 9); got != "a" { // and b goes to its window
			t.Error(got)
		}
		s.wantState(s.byKey("b"), job.Initial, "later", 0)
		token := s.get(s.byKey("a")).Token
		s.exec("UPDATE shop_emails SET time_windows = ? WHERE job_key = 'a'", closed)
		if code := s.refused("job_start", "w1", "emails", s.byKey("a"), token); code != 31013 {
			t.Errorf("%d", code)
		}
		j := s.wantState(s.byKey("a"), job.Initial, "later", 0)
		if wait := j.ScheduledRunTime.Sub(now); wait < 2*time.Hour || wait > 3*time.Hour || !j.WakeTime.Equal(j.ScheduledRunTime) {
			t.Errorf("in %s", wait)
		}
		s.add(job.New{Type: "send", Key: "c"})
		g := s.grab("w1")
		must[any](t)(nil, s.Pause(t.Context(), true))
		if code := s.refused("job_start", "w1", "emails", g["id"], g["token"]); code != 31013 {
			t.Errorf("%d", code)
		}
		s.wantState(s.byKey("c"), job.Initial, "due", 0)
		if got := s.grabbed("w1", 9); got != "" {
			t.Error(got)
		}
		r := s.one("job_submit", "emails", "send", "windowed", nil, `{"time_windows": `+closed+`}`)
		if j := s.get(s.byKey("windowed")); j.Line != "later" || r["id"] != fmt.Sprint(j.ID) || !strings.HasPrefix(engine.Text(j.ScheduledRunTime)[11:], closed[2:7]) {
			t.Errorf("%+v", j)
		}
	})
}

// What ended with its worker runs alone.
func TestProceduresSuspects(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s store) {
		s.add(job.New{Type: "send", Key: "a"}, job.New{Type: "send", Key: "killer", Priority: new(1)}, job.New{Type: "send", Key: "b"})
		s.exec("UPDATE shop_emails SET suspect = 1 WHERE job_key = 'killer'")
		if got := s.grabbed("w1", 9); got != "killer" {
			t.Error(got)
		}
		if got := s.grabbed("w1", 9); got != "" {
			t.Error(got)
		}
		s.call("worker_register", "w2", nil, nil, nil)
		if got := s.grabbed("w2", 1); got != "a" {
			t.Error(got)
		}
		s.call("worker_deregister", "w1")
		if got := s.grabbed("w2", 9); got != "b" {
			t.Error(got)
		}
		s.call("worker_register", "w3", nil, nil, nil)
		g := s.begin("w3")
		if g["job_key"] != "killer" {
			t.Errorf("%v", g)
		}
		s.add(job.New{Type: "send", Key: "c"})
		if got := s.grabbed("w3", 9); got != "" {
			t.Error(got, "beside a suspect that runs")
		}
		s.call("job_fail", "w3", "emails", g["id"], g["token"], "no", nil)
		if got := s.grabbed("w3", 9); got != "c" || s.get(s.byKey("killer")).Suspect {
			t.Error(got)
		}
	})
}

// One type alone is grabbed in a shorter way, and one job is answered in another than several: it all comes to the same.
func TestProceduresGrabOneType(t *testing.T) {
	proceduresSuite(t, func(o *queue.Options) { o.ThrottleLimit = 4 }, func(s store) {
		other := s.conn()
		now := time.Now().UTC()
		closed := fmt.Sprintf(`["%02d:00-%02d:00"]`, (now.Hour()+3)%24, (now.Hour()+4)%24)
		for _, types := range []string{`["send","report"]`, `["send"]`, "send"} {
			for _, n := range []int{1, 9} {
				s.exec("DELETE FROM shop_emails")
				s.add(job.New{Type: "send", Key: "a", Data: `{"to":"ä"}`, Timeout: 7 * time.Second}, job.New{Type: "send", Key: "b", Priority: new(50)},
					job.New{Type: "send", Key: "closed", Priority: new(60)}, job.New{Type: "send", Key: "taken", Priority: new(70)},
					job.New{Type: "send", Key: "heavy", ThrottleFactor: new(2)}, job.New{Type: "send", Key: "giant", ThrottleFactor: new(9)},
					job.New{Type: "send", Key: "light"})
				s.exec("UPDATE shop_emails SET time_windows = ? WHERE job_key = 'closed'", closed)
				s.exec("UPDATE shop_emails SET attempt = 2, state = 'retry' WHERE job_key = 'heavy'")
				if s.db.IDsByKey { // a node of a cluster passes over nothing
					s.exec("DELETE FROM shop_emails WHERE job_key = 'taken'")
				}
				must[any](t)(other.ExecContext(t.Context(), "START TRANSACTION"))
				must[any](t)(other.ExecContext(t.Context(), "SELECT id FROM shop_emails WHERE job_type = 'send' AND job_key = 'taken' FOR UPDATE"))
				var got []string
				for {
					list := s.call("job_grab", "w1", "emails", types, n)
					for _, r := range list {
						j := s.get(s.byKey(r["job_key"]))
						if r["token"] != j.Token || r["id"] != fmt.Sprint(j.ID) || j.Line != "locked" || j.WorkerID != "w1" {
							t.Errorf("%v, but the job is %+v", r, j)
						}
						got = append(got, strings.Join([]string{r["job_type"], r["job_key"], r["job_data"], r["attempt"], r["timeout"]}, " "))
					}
					if len(list) == 0 {
						break
					}
				}
				must[any](t)(other.ExecContext(t.Context(), "ROLLBACK"))
				want := []string{"send b NULL 0 86400", `send a {"to":"ä"} 0 7`, "send heavy NULL 2 86400"}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s, %d at a time: -want +got\n%s", types, n, diff)
				}
				s.wantState(s.byKey("closed"), job.Initial, "later", 0)
			}
		}
	})
}

// What keeps the shorter way from being enough is seen in time: the jobs are those, in that order, which the longer one gives.
func TestProceduresGrabOneTypeAmongOthers(t *testing.T) {
	type situation struct {
		name string
		jobs []job.New
		exec string
		want []string // what one call after the other gives
	}
	for _, c := range []struct {
		change     func(*queue.Options)
		situations []situation
	}{
		{func(*queue.Options) {}, []situation{
			{
				"one becomes due",
				[]job.New{{Key: "a"}, {Key: "c", Priority: new(1)}},
				"UPDATE shop_emails SET line = 'later', wake_time = '2026-01-01' WHERE job_key = 'c'",
				[]string{"c a", ""},
			},
			{
				"one is lost",
				[]job.New{{Key: "a"}, {Key: "c"}},
				"UPDATE shop_emails SET state = 'error', line = 'error', error = 'worker lost', attempt = 1 WHERE job_key = 'c'",
				[]string{"a", "c", ""},
			},
			{
				"a row of plain SQL",
				[]job.New{{Key: "a"}},
				"INSERT INTO shop_emails (job_type, job_key, priority) VALUES ('send', 'c', 1)",
				[]string{"c a", ""},
			},
			{
				"a suspect",
				[]job.New{{Key: "a"}, {Key: "c", Priority: new(1)}},
				"UPDATE shop_emails SET suspect = 1 WHERE job_key = 'c'",
				[]string{"c", ""},
			},
			{"a suspect behind", []job.New{{Key: "a"}, {Key: "c"}}, "UPDATE shop_emails SET suspect = 1 WHERE job_key = 'c'", []string{"a", ""}},
			{"another type's jobs", []job.New{{Key: "a"}, {Type: "report", Key: "b"}}, "", []string{"a", ""}},
			{"a pause", []job.New{{Key: "a"}}, "UPDATE shop_queues SET paused = 1 WHERE queue = 'emails'", []string{""}},
		}},
		{func(o *queue.Options) { o.ThrottleLimit = 2 }, []situation{
			{"no weight", []job.New{{Key: "a"}, {Key: "b"}, {Key: "d"}, {Key: "c", ThrottleFactor: new(0)}}, "", []string{"a b c", ""}},
			{"a giant", []job.New{{Key: "a"}, {Key: "b", ThrottleFactor: new(9)}, {Key: "c"}}, "", []string{"a", ""}},
		}},
		{func(o *queue.Options) { o.Rate = job.Rate{Starts: 2, Per: time.Hour} }, []situation{
			{"a rate", []job.New{{Key: "a"}, {Key: "b"}, {Key: "c"}}, "", []string{"a b", ""}},
		}},
		{func(o *queue.Options) { o.PriorityOrder = job.HighestFirst }, []situation{
			{"the highest first", []job.New{{Key: "a"}, {Key: "b", Priority: new(-1)}, {Key: "c", Priority: new(200)}}, "", []string{"c a b", ""}},
		}},
		{func(o *queue.Options) { o.Order = job.BySchedule }, []situation{
			{"by the schedule", []job.New{{Key: "a"}, {Key: "b", Priority: new(1)}}, "", []string{"a b", ""}},
		}},
	} {
		proceduresSuite(t, func(o *queue.Options) {
			c.change(o)
			for i := range o.Types {
				o.Types[i].Retry = job.RetryPolicy{Attempts: 3, Delay: time.Microsecond, Backoff: job.Fixed}
			}
		}, func(s store) {
			for _, i := range c.situations {
				for _, types := range []string{"send", `["send"]`, `["send","none"]`} {
					s.exec("DELETE FROM shop_emails")
					for _, j := range i.jobs {
						if j.Type == "" {
							j.Type = "send"
						}
						s.add(j)
					}
					if i.exec != "" {
						s.exec(i.exec)
					}
					for call, want := range i.want {
						var keys []string
						for _, r := range s.call("job_grab", "w1", "emails", types, 9) {
							keys = append(keys, r["job_key"])
						}
						if got := strings.Join(keys, " "); got != want {
							t.Errorf("%s, %s: call %d gives %q, want %q", i.name, types, call+1, got, want)
						}
					}
				}
			}
		})
	}
}
