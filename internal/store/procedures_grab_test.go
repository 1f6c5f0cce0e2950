package store_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"

	"github.com/hipq/hipq/internal/dbtest"
)

// Order holds over types and parts of the line, and jobs that become due appear at once. Plain SQL rows wait for hipq to
// ingest them.
func TestProceduresGrabInOrder(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		s.add(job.Params{Type: "send", Key: "c"}, job.Params{Type: "report", Key: "b", Priority: new(50)},
			job.Params{Type: "send", Key: "a", Priority: new(7), ThrottleFactor: new(0)}, job.Params{Type: "other", Key: "no"},
			job.Params{Type: "send", Key: "d", In: time.Hour}, job.Params{Type: "send", Key: "later", In: time.Hour})
		s.exec("UPDATE shop_emails SET wake_time = '2020-01-01', scheduled_run_time = UTC_TIMESTAMP(6) WHERE job_key = 'd'")
		s.exec("INSERT INTO shop_emails (job_type, job_key, priority) VALUES ('send', 'plain', 60)")
		equal(t, s.grabbed("w1", 2), "a b")
		s.upkeep()
		equal(t, s.grabbed("w1", 9), "plain c d")
	})
}

func (s env) byKey(key string) int64 {
	s.t.Helper()
	return value[int64](s, "SELECT id FROM shop_emails WHERE job_key = ?", key)
}

// No other worker gets a grabbed job. It returns at no cost when its worker ends or dies. A running job is then lost.
func TestProceduresGiveBack(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		s.add(job.Params{Type: "send", Key: "runs"}, job.Params{Type: "send", Key: "a"}, job.Params{Type: "send", Key: "b"})
		s.begin("w1")
		equal(t, s.grabbed("w1", 5), "a b")
		s.call("worker_register", "w2", nil, nil, nil)
		equal(t, s.grabbed("w2", 5), "")
		s.exec("INSERT INTO shop_queues (queue) VALUES ('other')") // a queue without procedures
		s.exec("INSERT INTO hipq_tables (instance, queue, table_name, version) VALUES ('shop', 'other', 'shop_other', 1)")
		s.call("worker_deregister", "w1")
		s.wantState(s.byKey("a"), job.Initial, "available", 0)
		equal(t, s.grabbed("w2", 5), "a b")
		s.bury(idOf("w2"))
		s.upkeep()
		s.wantState(s.byKey("a"), job.Initial, "available", 0)
		s.wantHistory(s.byKey("a"), "added/0")
		s.wantHistory(s.byKey("runs"), "added/0 starting/1 error/1")
	})
}

// A grab whose answer was lost costs nothing: the next one returns its jobs under a new token. Those of other types, of other
// workers and those that have begun stay where they are.
func TestProceduresGrabAgain(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		for _, key := range []string{"begun", "lost", "other", "new"} {
			jobType := map[string]string{"other": "report"}[key]
			s.call("job_submit", "emails", cmp.Or(jobType, "send"), key, nil, nil)
		}
		s.begin("w1")
		conn := s.conn()
		lost := conn.call("job_grab", "w1", "emails", "send", 1)[0]
		conn.drop()
		s.one("job_grab", "w1", "emails", "report", 1) // and its caller has it
		s.call("worker_register", "w2", nil, nil, nil)
		again := s.call("job_grab", "w1", "emails", "send", 2)
		require(t, len(again) == 2 && again[0]["job_key"] == "lost" && again[1]["job_key"] == "new" && again[0]["token"] != lost["token"], "%v", again)
		ensure(t, len(s.call("job_grab", "w2", "emails", `["send", "report"]`, 9)) == 0, "another worker got a locked job")
		equal(t, s.refused("job_start", "w1", "emails", lost["id"], lost["token"]), 31008)
		s.call("job_start", "w1", "emails", again[0]["id"], again[0]["token"])
		ensure(t, len(s.call("job_grab", "w1", "emails", "report", 1)) == 0, "what this connection has was returned again")
	})
}

// Any hipq work decides about a lost job, even if its config doesn't have the type.
func TestProceduresLost(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		s.call("job_submit", "emails", "foreign", "k", nil, nil)
		g := s.one("job_grab", "w1", "emails", "foreign", 1)
		s.call("job_start", "w1", "emails", g["id"], g["token"])
		s.call("worker_register", "w2", nil, nil, nil)
		s.hearOnly(idOf("w1"), s.byKey("k"))
		s.bury(idOf("w1"))
		s.upkeep()
		s.wantState(s.byKey("k"), job.Retry, "available", 1)
		s.wantHistory(s.byKey("k"), "added/0 starting/1 error/1")
		s.wantRan(s.byKey("k"), 38_500)
		equal(t, s.refused("job_complete", "w1", "emails", g["id"], g["token"], nil), 31008)
	})
}

// The limit holds for grabs and for rounds, and no job with weight overtakes the next that doesn't fit.
func TestProceduresKeepTheLimit(t *testing.T) {
	proceduresSuite(t, func(o *queue.Options) { o.ThrottleLimit = 3 }, func(s env) {
		s.add(job.Params{Type: "send", Key: "a"}, job.Params{Type: "send", Key: "b"}, job.Params{Type: "send", Key: "heavy", ThrottleFactor: new(2)},
			job.Params{Type: "send", Key: "light"}, job.Params{Type: "report", Key: "free", ThrottleFactor: new(0)}, job.Params{Type: "send", Key: "giant", ThrottleFactor: new(9)})
		equal(t, s.grabbed("w1", 9), "a b free")
		s.hire("h")
		equal(t, len(s.start("h", 5)), 0, "a round starts jobs beside")
		s.call("worker_register", "w2", nil, nil, nil)
		s.call("worker_deregister", "w1")
		equal(t, s.grabbed("w2", 1), "a")
		list := s.start("h", 1)
		ensure(t, len(list) == 1 && list[0].Key == "b", "%v", list)
	})
}

// The first job that doesn't fit holds the others back until it is grabbed itself.
func TestProceduresGrabBehindTheHead(t *testing.T) {
	proceduresSuite(t, func(o *queue.Options) { o.ThrottleLimit = 2 }, func(s env) {
		for _, key := range []string{"a", "b", "c", "d"} {
			s.add(job.Params{Type: "send", Key: key})
		}
		equal(t, s.grabbed("w1", 9), "a b")
		s.call("worker_deregister", "w1")
		s.call("worker_register", "w2", nil, nil, nil)
		for range 2 {
			g := s.one("job_grab", "w2", "emails", "send", 1)
			s.call("job_start", "w2", "emails", g["id"], g["token"])
			s.call("job_complete", "w2", "emails", g["id"], g["token"], nil)
		}
		equal(t, s.grabbed("w2", 9), "c d")
	})
}

// unserved are queue options that only hipq work supports.
var unserved = map[string]func(*queue.Options){
	"groups": byRegion(20, map[string]int{"*": 2}),
	"a rate": func(o *queue.Options) { o.Rate = job.Rate{Starts: 3, Per: time.Hour} },
	"shards": func(o *queue.Options) { o.Shards = 8 },
}

// A queue with groups, a rate or shards is for hipq work: a grab says so. hipq work runs what is submitted there.
func TestProceduresGrabNothingUnserved(t *testing.T) {
	parallel(t)
	for name, change := range unserved {
		t.Run(name, func(t *testing.T) {
			proceduresSuite(t, change, func(s env) {
				closed := closedNow()
				s.one("job_submit", "emails", "send", "k", `{"to":{"region":"east"}}`, `{"shard_key":"customer 7"}`)
				s.one("job_submit", "emails", "send", "windowed", nil, `{"time_windows": `+closed+`}`)
				equal(t, s.one("job_submit", "emails", "send", "k", nil, nil)["duplicate"], "1")
				s.wantRefusal(31016, "run its jobs by hipq work", "job_grab", "w1", "emails", "send", 1)
				equal(t, s.one("job_backlog", "emails", nil)["backlog"], "1", "backlog")
				s.upkeep()
				s.wantHistory(s.byKey("k"), "added/0")
				s.wantState(s.byKey("windowed"), job.Initial, "scheduled", 0)
				list := s.start("h", 9)
				ensure(t, len(list) == 1 && list[0].Key == "k" && list[0].ShardKey == "customer 7", "started %v", list)
				s.wantRefusal(31002, "shard_key", "job_submit", "emails", "send", "l", nil, `{"shard_key":"`+strings.Repeat("x", 256)+`"}`)
				s.wantRefusal(31002, "shard_key", "job_submit", "emails", "send", "l", nil, `{"shard_key":7}`)
			})
		})
	}
}

// A job grabbed before its queue got groups, a rate or shards returns when it would start; one that was started is settled.
func TestProceduresStartNothingUnserved(t *testing.T) {
	parallel(t)
	for name, change := range unserved {
		t.Run(name, func(t *testing.T) {
			proceduresSuite(t, func(*queue.Options) {}, func(s env) {
				s.add(job.Params{Type: "send", Key: "a"}, job.Params{Type: "send", Key: "b"})
				a, b := s.begin("w1"), s.grab("w1")
				o := options()
				o.Shards = 1
				change(&o)
				q := must[*queue.Queue](t)(queue.New(s.db, o))
				must[int](t)(admin.Of(q).Reshard(t.Context()))
				must[any](t)(nil, q.Register(t.Context()))
				equal(t, s.refused("job_start", "w1", "emails", b["id"], b["token"]), 31013)
				s.wantState(s.byKey("b"), job.Initial, "available", 0)
				s.one("job_complete", "w1", "emails", a["id"], a["token"], nil)
				changed := envOf(t, s.db, q)
				changed.upkeep()
				list := changed.start("h", 9)
				ensure(t, len(list) == 1 && list[0].Key == "b", "started %v", list)
			})
		})
	}
}

// closedNow is a list of windows that open in two to three hours.
func closedNow() string {
	hour := time.Now().UTC().Hour()
	return fmt.Sprintf(`["%02d:00-%02d:00"]`, (hour+3)%24, (hour+4)%24)
}

// Windows and pause are checked again when a job starts: it then returns, without an error.
func TestProceduresStartNotNow(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		now, closed := time.Now(), closedNow()
		s.add(job.Params{Type: "send", Key: "a"}, job.Params{Type: "send", Key: "b"})
		s.exec("UPDATE shop_emails SET time_windows = ? WHERE job_key = 'b'", closed)
		if got := s.grabbed("w1", 9); got != "a" { // b goes to its window
			t.Error(got)
		}
		s.wantState(s.byKey("b"), job.Initial, "scheduled", 0)
		token := s.get(s.byKey("a")).Token
		s.exec("UPDATE shop_emails SET time_windows = ? WHERE job_key = 'a'", closed)
		equal(t, s.refused("job_start", "w1", "emails", s.byKey("a"), token), 31013)
		j := s.wantState(s.byKey("a"), job.Initial, "scheduled", 0)
		wait := j.ScheduledRunTime.Sub(now)
		ensure(t, wait >= 2*time.Hour && wait <= 3*time.Hour && j.WakeTime.Equal(j.ScheduledRunTime), "in %s", wait)
		s.add(job.Params{Type: "send", Key: "c"})
		g := s.grab("w1")
		must[any](t)(nil, s.Pause(t.Context()))
		equal(t, s.refused("job_start", "w1", "emails", g["id"], g["token"]), 31013)
		s.wantState(s.byKey("c"), job.Initial, "available", 0)
		equal(t, s.grabbed("w1", 9), "")
		r := s.one("job_submit", "emails", "send", "windowed", nil, `{"time_windows": `+closed+`}`)
		if j := s.get(s.byKey("windowed")); j.Status != "scheduled" || r["id"] != fmt.Sprint(j.ID) || !strings.HasPrefix(engine.Text(j.ScheduledRunTime)[11:], closed[2:7]) {
			t.Errorf("%+v", j)
		}
	})
}

// One type or several, one job a call or many: the result is the same, and only locked jobs are skipped.
func TestProceduresGrabTypes(t *testing.T) {
	proceduresSuite(t, func(o *queue.Options) { o.ThrottleLimit = 4 }, func(s env) {
		other := s.conn()
		closed := closedNow()
		for _, types := range []string{`["send","report"]`, `["send"]`, "send"} {
			for _, n := range []int{1, 9} {
				s.exec("DELETE FROM shop_emails")
				s.add(job.Params{Type: "send", Key: "a", Data: `{"to":"ä"}`, Timeout: 7 * time.Second}, job.Params{Type: "send", Key: "b", Priority: new(50)},
					job.Params{Type: "send", Key: "closed", Priority: new(60)}, job.Params{Type: "send", Key: "taken", Priority: new(70)},
					job.Params{Type: "send", Key: "heavy", ThrottleFactor: new(2)}, job.Params{Type: "send", Key: "giant", ThrottleFactor: new(9)},
					job.Params{Type: "send", Key: "light"})
				s.exec("UPDATE shop_emails SET time_windows = ? WHERE job_key = 'closed'", closed)
				s.exec("UPDATE shop_emails SET attempt = 2 WHERE job_key = 'heavy'")
				if s.db.SQL.IDsByKey { // a cluster node skips nothing
					s.exec("DELETE FROM shop_emails WHERE job_key = 'taken'")
				}
				other.exec("START TRANSACTION")
				other.exec("SELECT id FROM shop_emails WHERE job_type = 'send' AND job_key = 'taken' FOR UPDATE")
				var got []string
				for {
					list := s.call("job_grab", "w1", "emails", types, n)
					for _, r := range list {
						j := s.get(s.byKey(r["job_key"]))
						ensure(t, r["token"] == j.Token && r["id"] == fmt.Sprint(j.ID) && j.Status == "locked" && j.WorkerID == idOf("w1"),
							"%v, but the job is %+v", r, j)
						got = append(got, strings.Join([]string{r["job_type"], r["job_key"], r["job_data"], r["attempt"], r["timeout"]}, " "))
					}
					if len(list) == 0 {
						break
					}
				}
				other.exec("ROLLBACK")
				want := []string{"send b NULL 0 86400", `send a {"to":"ä"} 0 7`, "send heavy NULL 2 86400"}
				diff := gocmp.Diff(want, got)
				ensure(t, diff == "", "%s, %d at a time: -want +got\n%s", types, n, diff)
				s.wantState(s.byKey("closed"), job.Initial, "scheduled", 0)
			}
		}
	})
}

// Rounds and procedures start the same jobs in the same order, and count the same against the limit.
func TestProceduresStartAsRounds(t *testing.T) {
	parallel(t)
	type situation struct {
		name string
		jobs []job.Params
		exec string
		want string
	}
	limited := func(o *queue.Options) { o.ThrottleLimit = 2 }
	var counting []situation
	for set, counts := range map[string]bool{
		"status = 'locked', worker_id = '" + idOf("w1") + "'": true, "status = 'running', worker_id = '" + idOf("w1") + "'": true,
		"status = 'awaiting', wake_time = '2100-01-01'":         true,
		"status = 'answered', worker_id = '" + idOf("w1") + "'": true,
		"status = 'deciding', worker_id = '" + idOf("w1") + "'": false,
		"status = 'scheduled', wake_time = '2100-01-01'":        false,
		"status = 'finished'":                                   false,
	} {
		s := situation{set, []job.Params{{Key: "x", ThrottleFactor: new(2)}, {Key: "a"}, {Key: "b"}}, "UPDATE shop_emails SET " + set + " WHERE job_key = 'x'", "a b"}
		if counts {
			s.want = ""
		}
		counting = append(counting, s)
	}
	for _, c := range []struct {
		change     func(*queue.Options)
		situations []situation
	}{
		{func(*queue.Options) {}, []situation{
			{"one becomes due", []job.Params{{Key: "a"}, {Key: "c", Priority: new(1)}}, "UPDATE shop_emails SET status = 'scheduled', wake_time = '2026-01-01' WHERE job_key = 'c'", "c a"},
			{"types", []job.Params{{Key: "a"}, {Type: "report", Key: "b"}, {Type: "report", Key: "c", Priority: new(1)}, {Type: "other", Key: "d"}}, "", "c a b"},
			{"a pause", []job.Params{{Key: "a"}}, "UPDATE shop_queues SET paused = 1 WHERE queue = 'emails'", ""},
		}},
		{limited, []situation{
			{"no weight", []job.Params{{Key: "a"}, {Key: "b"}, {Key: "d"}, {Key: "c", ThrottleFactor: new(0)}}, "", "a b c"},
			{"no weight first", []job.Params{{Key: "a", ThrottleFactor: new(0)}, {Key: "b", ThrottleFactor: new(2)}, {Key: "c", ThrottleFactor: new(0)}, {Key: "d"}}, "", "a b c"},
			{"a giant", []job.Params{{Key: "a"}, {Key: "b", ThrottleFactor: new(9)}, {Key: "c"}}, "", "a"},
			{"a giant first", []job.Params{{Key: "b", ThrottleFactor: new(9)}, {Key: "c"}}, "", "b"},
			{"a heavy one of another type", []job.Params{{Key: "a"}, {Type: "report", Key: "b", ThrottleFactor: new(2)}, {Key: "c"}}, "", "a"},
		}},
		{limited, counting},
		{func(o *queue.Options) { o.PriorityOrder = job.HighestFirst }, []situation{
			{"the highest first", []job.Params{{Key: "a"}, {Type: "report", Key: "b", Priority: new(-1)}, {Key: "c", Priority: new(200)}}, "", "c a b"},
		}},
		{func(o *queue.Options) { o.Order = job.BySchedule }, []situation{
			{"by the schedule", []job.Params{{Key: "a"}, {Type: "report", Key: "b", Priority: new(1)}}, "", "a b"},
		}},
	} {
		proceduresSuite(t, c.change, func(s env) {
			rounds := func() (list []string) {
				s.upkeep()
				for _, j := range s.start("h", 9) {
					list = append(list, j.Key)
				}
				return list
			}
			for _, i := range c.situations {
				for by, start := range map[string]func() []string{"SQL": func() []string { return strings.Fields(s.grabbed("w1", 9)) }, "rounds": rounds} {
					s.exec("DELETE FROM shop_emails")
					for _, j := range i.jobs {
						j.Type = cmp.Or(j.Type, "send")
						s.add(j)
					}
					if i.exec != "" {
						s.exec(i.exec)
						s.exec("UPDATE shop_shards SET awaiting_time = 0") // rounds don't notice changes by hand
					}
					equal(t, strings.Join(start(), " "), i.want, "%s, by %s", i.name, by)
				}
			}
		})
	}
}

// A call ends even if all rows are locked, or there are more types than jobs.
func TestProceduresGrabEnds(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		dbtest.SkipIf(t, s.db.SQL.IDsByKey, "a node of a cluster passes over nothing")
		s.add(make9("send")...)
		letGo := s.held("SELECT id FROM shop_emails")
		var types []string
		for i := range 99 {
			types = append(types, fmt.Sprint("none", i))
		}
		text := string(must[[]byte](t)(json.Marshal(append(types, "send"))))
		equal(t, len(s.call("job_grab", "w1", "emails", text, 1000)), 0)
		letGo()
		equal(t, len(s.call("job_grab", "w1", "emails", text, 1000)), 9, "jobs")
	})
}

// After a pause has returned, nothing starts: it waits for a start in progress, and a start waits for it.
func TestProceduresPauseMeansNow(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		s.add(job.Params{Type: "send", Key: "a"})
		g := s.grab("w1")
		begin := []string{"SET SESSION innodb_lock_wait_timeout = 1", "START TRANSACTION"}
		starting, pausing := s.conn(begin...), s.conn(begin...)
		start := func() error {
			_, err := tryOn(t.Context(), starting, "job_start", "w1", "emails", g["id"], g["token"])
			return err
		}
		pause := func() error {
			_, err := pausing.ExecContext(t.Context(), "UPDATE shop_queues SET paused = 1 WHERE queue = 'emails'")
			return err
		}
		must[any](t)(nil, start())
		err := pause()
		ensure(t, engine.IsLockTimeout(err), "a pause beside a start: %v", err)
		starting.exec("ROLLBACK")
		must[any](t)(nil, pause())
		err = start()
		ensure(t, engine.IsLockTimeout(err), "a start beside a pause: %v", err)
		pausing.exec("COMMIT")
		equal(t, s.refused("job_start", "w1", "emails", g["id"], g["token"]), 31013)
	})
}

// No job overtakes the first one without room, whether hipq work or a SQL worker met it.
func TestProceduresFirstIsNotOvertaken(t *testing.T) {
	proceduresSuite(t, func(o *queue.Options) { o.ThrottleLimit = 4 }, func(s env) {
		grab := func(jobType string) int { return len(s.call("job_grab", "w1", "emails", jobType, 9)) }
		s.add(job.Params{Type: "send"})
		running := s.claim("w", "send", 1).Started
		s.add(job.Params{Type: "report", ThrottleFactor: new(4)}, job.Params{Type: "send"}, job.Params{Type: "send", ThrottleFactor: new(0)})
		if s.claim("w", "report", 1); grab("send") != 1 { // it weighs nothing
			t.Error("one behind the first without room was grabbed")
		}
		s.exec("UPDATE shop_emails SET asked_time = '2026-01-01 00:00:00.000000' WHERE status = 'throttled'") // as 11 s later
		dbtest.Ensure(t, grab("report") == 0 && len(s.claim("w", "send", 9).Started) == 0, "one was started behind that which a worker by SQL has met")
		s.settle("w", finished, running...)
		ensure(t, grab("send") == 0 && grab("report") == 1, "the first was not grabbed")
	})
}
