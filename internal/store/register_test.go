package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/queuetest"
	"github.com/hipq/hipq/schema"
)

// Programs without the config know what it says of a queue, also of thousands of throttle groups.
func TestRegisteredHasWhatTheConfigSays(t *testing.T) {
	limits := map[string]int{"*": 3}
	for n := range 4000 {
		limits[fmt.Sprintf("customer-number-%d", n)] = n + 1
	}
	suiteWith(t, func(o *queue.Options) {
		weighty(o)
		o.Rate, o.Order, o.DefaultPriority, o.KeepFailed = job.Rate{Starts: 5, Per: time.Minute}, job.ByPriority, new(-7), queue.DiscardAtOnce
		o.DefaultTimeout, o.DefaultRetry = time.Hour, new(job.DefaultRetry)
		o.ThrottleGroups = &job.ThrottleGroups{By: "job_type", Limits: limits}
	}, func(s env) {
		all := must[[]queue.Options](t)(admin.Registered(t.Context(), s.db))
		require(t, len(all) == 1, "registered are %+v", all)
		got := all[0]
		if !got.RefuseWeightless || got.ThrottleLimit != 2 || got.Rate != s.Rate || *got.DefaultPriority != -7 || got.DefaultTimeout != time.Hour || *got.DefaultRetry != job.DefaultRetry ||
			got.KeepFailed != queue.DiscardAtOnce || !maps.Equal(got.ThrottleGroups.Limits, limits) {
			t.Errorf("registered as %+v", got)
		}
	})
}

// hostileQueues are values in columns of registered queues that manual edits could leave, but no config.
func hostileQueues(sqlite bool) map[string][]string {
	values := map[string][]string{
		"throttle_limit": {"9223372036854775807"},
		"keep_finished":  {"-1", "9223372036854775807"},
		"keep_failed":    {"-1", "9223372036854775807"},
		"settings": {
			"''", "'{'", "'[]'", `'{"rate":"often"}'`, `'{"rate":{"starts":-1,"per":1}}'`, `'{"order":"backwards"}'`,
			`'{"priority_order":"odd"}'`, `'{"concurrency":-1}'`, `'{"default_priority":9999999999}'`, `'{"default_timeout":-1}'`, `'{"default_retry":{}}'`,
			`'{"throttle_groups":7}'`,
			"'" + strings.Repeat("[", 20000) + "'", "'" + strings.Repeat("x", 65000) + "'",
		},
	}
	if sqlite {
		values["settings"] = append(values["settings"], "CAST(X'ff' AS TEXT)", "'"+strings.Repeat("9", 2_000_000)+"'", "'x\x1b[31m'")
	}
	return values
}

// hostileTypes are the same for registered job types.
func hostileTypes(sqlite bool) map[string][]string {
	values := map[string][]string{
		"timeout":         {"0", "4294967295"},
		"priority":        {"-2147483648"},
		"throttle_factor": {"4294967295"},
		"time_windows":    {"''", "'teatime'", "'{}'", `'["25:00-26:00"]'`, "'" + strings.Repeat("x", 65000) + "'"},
	}
	if sqlite {
		values["time_windows"] = append(values["time_windows"], "CAST(X'ff' AS TEXT)", "'"+strings.Repeat("9", 2_000_000)+"'", "'2026-01-01 00:00:00'")
		values["timeout"], values["throttle_factor"] = append(values["timeout"], "-1"), append(values["throttle_factor"], "-1")
	}
	return values
}

// warned opens the store's database again, and records its warnings.
func (s env) warned(source string) (env, *[]string) {
	s.t.Helper()
	names := must[schema.Names](s.t)(schema.NewNames("shop", ""))
	list := &[]string{}
	db := must[*schema.DB](s.t)(schema.Open(s.t.Context(), schema.Options{
		Driver: s.db.SQL.Engine, Path: source, DSN: source, Warn: func(err error) { *list = append(*list, err.Error()) },
	}, names))
	s.t.Cleanup(func() { _ = db.Close() })
	q := must[*queue.Queue](s.t)(queue.New(db, s.Options))
	return envOf(s.t, db, q), list
}

// Invalid rows of other queues are ignored with a warning, whatever they contain; the valid ones are returned.
func TestRegisteredPassesOverWhatCanBeNoQueue(t *testing.T) {
	parallel(t)
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		s, warnings := newStore(t, driver, source, func(*queue.Options) {}).warned(source)
		n := 0
		for column, values := range hostileQueues(driver == "sqlite") {
			for _, value := range values {
				n++
				s.exec(fmt.Sprintf("INSERT INTO shop_queues (queue, %s) VALUES ('other%d', %s)", column, n, value))
			}
		}
		names := []string{"''", "'Emails'", "'e mail'", "'activity'", "'x\x1b[31m'", "'emails;--'", "'a\nb'"}
		if driver == "sqlite" {
			names = append(names, "'"+strings.Repeat("x", 2_000_000)+"'", "CAST(X'ff' AS TEXT)")
		}
		for _, name := range names {
			n++
			s.exec("INSERT INTO shop_queues (queue) VALUES (" + name + ")")
		}
		all := must[[]queue.Options](t)(admin.Registered(t.Context(), s.db))
		ensure(t, len(all) == 1 && all[0].Name == "emails", "registered are %+v", all)
		equal(t, len(*warnings), n, "warnings")
		for _, w := range *warnings {
			ensure(t, !strings.ContainsAny(w, "\x1b\n") && len(w) <= 500 && strings.Contains(w, "is ignored"), "%q", w)
		}
	})
}

// Of workers that register a new queue at once, and differ, one has its way, and the others are refused.
func TestOneRegistrationHolds(t *testing.T) {
	parallel(t)
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		s := newStore(t, driver, source, func(*queue.Options) {})
		for range 5 {
			s.exec("DELETE FROM shop_queues")
			errs := make([]error, 4)
			var all sync.WaitGroup
			for i := range errs {
				o := options()
				o.Rate = job.Rate{Starts: i + 1, Per: time.Second}
				q := must[*queue.Queue](t)(queue.New(s.db, o))
				all.Go(func() { errs[i] = q.Register(t.Context()) })
			}
			all.Wait()
			for i, err := range errs {
				registered := must[[]queue.Options](t)(admin.Registered(t.Context(), s.db))[0].Rate.Starts == i+1
				ensure(t, registered && err == nil || !registered && errors.Is(err, queue.ErrLimits), "%d: %v %v", i+1, registered, err)
			}
		}
	})
}

// Registration rewrites unreadable rows of the config's queue and types: no manual repair is needed.
func TestRegisterMends(t *testing.T) {
	parallel(t)
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		s, warnings := newStore(t, driver, source, byRegion(5, map[string]int{"*": 3})).warned(source)
		read := func() string {
			return value[string](s, "SELECT CONCAT(throttle_limit, ' ', keep_finished, ' ', keep_failed, ' ', settings) FROM shop_queues WHERE queue = 'emails'") +
				value[string](s, "SELECT CONCAT(timeout, ' ', priority, ' ', throttle_factor, ' ', time_windows) FROM shop_job_types WHERE job_type = 'send'")
		}
		want := read()
		for table, hostile := range map[string]map[string][]string{
			"shop_queues": hostileQueues(driver == "sqlite"), "shop_job_types": hostileTypes(driver == "sqlite"),
		} {
			for column, values := range hostile {
				for _, value := range values {
					s.exec("UPDATE " + table + " SET " + column + " = " + value)
					must[any](t)(nil, s.core().Register(t.Context()))
					equal(t, read(), want, "after %s = %.60s", column, value)
				}
			}
		}
		equal(t, len(*warnings), 0, "what was mended is nothing to warn of")
	})
}

// A job type that is in no config and has an unreadable row is known, and has the defaults of unknown types, for all callers.
func TestTypeWhoseRowCountsForNothing(t *testing.T) {
	parallel(t)
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		s, warnings := newStore(t, driver, source, func(o *queue.Options) { o.DefaultPriority = new(7) }).warned(source)
		n, want := 0, []string{"report", "send"}
		for column, values := range hostileTypes(driver == "sqlite") {
			for _, value := range values {
				n++
				name := fmt.Sprint("other", n)
				want = append(want, name)
				s.exec(fmt.Sprintf("INSERT INTO shop_job_types (queue, job_type, %s) VALUES ('emails', '%s', %s)", column, name, value))
				s.exec("INSERT INTO shop_emails (job_type) VALUES ('" + name + "')")
				s.add(job.Params{Type: name})
			}
		}
		s.exec("INSERT INTO shop_job_types (queue, job_type) VALUES ('emails', 'a\x1b[31m')")
		*warnings = nil
		store.ForgetTypes(s.core())
		slices.Sort(want)
		equal(t, must[[]string](t)(s.core().TypeNames(t.Context())), want, "known")
		equal(t, len(*warnings), n+1, "warnings")
		s.upkeep()
		for i := range 2 * n {
			j := s.wantState(s.nth(i+1), job.Initial, "available", 0)
			ensure(t, j.Priority == 7 && j.ThrottleFactor == 1 && j.Timeout == 24*time.Hour, "%+v", j)
		}
	})
}

// Manual edits of columns that a queue's rounds write neither stop it nor let it exceed its rate.
func TestRoundMendsItsTurn(t *testing.T) {
	suiteWith(t, func(o *queue.Options) { o.ThrottleLimit, o.Rate = 10, job.Rate{Starts: 2, Per: 200 * time.Millisecond} }, func(s env) {
		s.add(make9("send")...)
		s.hire("w")
		values := [][2]string{
			{"turn", "9223372036854775807"},
			{"turn", "-9223372036854775808"},
			{"paused", "7"},
			{"starts", "'{'"},
			{"starts", "'null'"},
			{"starts", `'{"x":1}'`},
			{"starts", "'" + strings.Repeat("1", 60000) + "'"},
		}
		if s.db.SQL.Engine == "sqlite" {
			values = append(values, [][2]string{{"starts", "CAST(X'ff' AS TEXT)"}, {"starts", "7"}}...)
		}
		for _, v := range values {
			table := "shop_shards"
			if v[0] == "paused" {
				table = "shop_queues"
			}
			s.exec("UPDATE " + table + " SET " + v[0] + " = " + v[1] + " WHERE queue = 'emails'")
			done := s.do(s.newRound("w", 1))
			dbtest.Ensure(t, v[0] != "starts" || len(done.Started) == 0 && done.RateFor > 0, "%s: nobody knows how many were started: %+v", v, done)
			deadline := time.Now().Add(10 * time.Second)
			for len(done.Started) == 0 && time.Now().Before(deadline) {
				done = s.do(s.newRound("w", 1))
			}
			require(t, len(done.Started) == 1, "%s: nothing is started any more", v)
			s.settle("w", job.Outcome{Verdict: job.Finished}, done.Started...)
			s.add(job.Params{Type: "send"})
		}
	})
}

// The config's defaults for a queue also apply to types that it doesn't name, whichever program enqueues them, until they
// change.
func TestDefaultsOfTypesInNoConfig(t *testing.T) {
	defaults := func(o *queue.Options) {
		o.DefaultTimeout, o.DefaultPriority = 90*time.Second, new(7)
		o.DefaultRetry = &job.RetryPolicy{Attempts: 2, Delay: 5 * time.Minute, Backoff: job.Fixed}
	}
	suiteWith(t, defaults, func(s env) {
		want := func(id int64, how string, timeout time.Duration, priority int) {
			t.Helper()
			if j := s.get(id); j.Timeout != timeout || j.Priority != priority {
				t.Errorf("%s: timeout %s, priority %d; want %s, %d", how, j.Timeout, j.Priority, timeout, priority)
			}
		}
		// A program that knows only the queue's name.
		bare := envOf(t, s.db, must[*queue.Queue](t)(queue.New(s.db, queue.Options{Name: "emails"})))
		want(bare.add(job.Params{Type: "bare"})[0].ID, "by name", 90*time.Second, 7)
		want(s.add(job.Params{Type: "config"})[0].ID, "by the config", 90*time.Second, 7)
		s.exec("INSERT INTO shop_emails (job_type) VALUES ('plain')")
		s.upkeep()
		want(s.nth(3), "by plain SQL", 90*time.Second, 7)
		want(bare.add(job.Params{Type: "send"})[0].ID, "of a type in the config", 24*time.Hour, 100)

		o := options()
		o.DefaultTimeout = time.Minute
		later := openStore(t, s.db, o)
		want(later.add(job.Params{Type: "plain"})[0].ID, "by another config", time.Minute, 100)
		want(later.add(job.Params{Type: "send"})[0].ID, "of a type in another config", 24*time.Hour, 100)
	})
	proceduresSuite(t, defaults, func(s env) {
		s.exec("INSERT INTO shop_emails (job_type, job_key) VALUES ('plain', 'a')")
		s.upkeep()
		s.one("job_submit", "emails", "submitted", "b", nil, nil)
		for _, name := range []string{"plain", "submitted"} {
			g := s.one("job_grab", "w1", "emails", name, 1)
			s.one("job_start", "w1", "emails", g["id"], g["token"])
			r := s.one("job_fail", "w1", "emails", g["id"], g["token"], "no", nil)
			id := value[int64](s, "SELECT id FROM shop_emails WHERE job_type = ?", name)
			j := s.get(id)
			if wait := j.ScheduledRunTime.Sub(j.UpdateTime); r["state"] != "retry" || j.Timeout != 90*time.Second || j.Priority != 7 || wait != 5*time.Minute {
				t.Errorf("%s: %v in %s, timeout %s, priority %d", name, r, wait, j.Timeout, j.Priority)
			}
			s.exec("UPDATE shop_emails SET status = 'available', wake_time = NULL, scheduled_run_time = '2026-01-01' WHERE id = ?", id)
			g = s.one("job_grab", "w1", "emails", name, 1)
			s.one("job_start", "w1", "emails", g["id"], g["token"])
			r = s.one("job_fail", "w1", "emails", g["id"], g["token"], "no", nil)
			ensure(t, r["state"] == "final", "%s: %v after its second attempt", name, r)
		}
	})
}

// A zone's clock changes are registered from the database's current year on, whatever the host's clock says.
func TestRegisterZoneByTheDatabase(t *testing.T) {
	zone := must[*time.Location](t)(time.LoadLocation("Europe/Berlin"))
	in := queuetest.New(t, "shop", queue.Options{Name: "emails", Location: zone})
	for _, year := range []int{2024, 2031} {
		in.Clock.Set(time.Date(year, time.July, 1, 12, 0, 0, 0, time.UTC))
		must[any](t)(nil, (*store.Queue)(in.Queue("emails").Queue).Register(t.Context()))
		var text string
		must[any](t)(nil, in.DB.SQL.GetContext(t.Context(), &text, "SELECT settings FROM shop_queues"))
		var s struct{ Zone [][2]int64 }
		must[any](t)(nil, json.Unmarshal([]byte(text), &s))
		want := time.Date(year, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
		ensure(t, len(s.Zone) == 7 && s.Zone[0] == [2]int64{want, 3600}, "%d: %v", year, s.Zone)
	}
}

// A config deletes the types that it has registered and that have left it, also the one for all types. Those of other configs, and of
// programs without a config, stay.
func TestRegisterDeletesWhatHasLeft(t *testing.T) {
	parallel(t)
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		s := newStore(t, driver, source, func(*queue.Options) {}) // has no config
		registered := func(config string, types ...string) string {
			o := queue.Options{Name: "emails", Config: config}
			for _, name := range types {
				o.Types = append(o.Types, job.DefaultType(name))
			}
			q := must[*queue.Queue](t)(queue.New(s.db, o))
			for range 2 { // again, it changes nothing
				must[any](t)(nil, q.Register(t.Context()))
			}
			return strings.Join(column[string](s, "SELECT job_type FROM shop_job_types ORDER BY job_type"), " ")
		}
		equal(t, registered("a", "*", "mine", "both"), "* both mine report send")
		equal(t, registered("b", "both", "other"), "* both mine other report send")
		equal(t, registered("b", "both"), "* both mine report send", "b has left out other")
		equal(t, registered("", "new"), "* both mine new report send", "no config")
		equal(t, registered("a", "send"), "new report send", "a has left out all")
		equal(t, registered("b", "both"), "both new report send", "b is back")
		equal(t, registered("a"), "both new report", "a had changed send")
	})
}

// A worker of the type for all types takes in plain rows with the settings that another config has registered for their type.
func TestAllTypesTakeInAsRegistered(t *testing.T) {
	parallel(t)
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		s := newStore(t, driver, source, func(o *queue.Options) {
			o.Types[0].Timeout, o.Types[0].Priority, o.Types[0].ThrottleFactor = time.Minute, 7, 2
			o.Types[0].Windows, o.Types[0].Retry.Attempts = must[job.Windows](t)(job.ParseWindows([]string{"00:00-24:00"})), 9
		})
		rest := job.DefaultType(job.AllTypes)
		rest.Timeout, rest.Priority, rest.Retry.Attempts = time.Hour, 50, 1
		all := openStore(t, s.db, queue.Options{Name: "emails", Types: []job.Type{rest}})
		for _, name := range []string{"send", "class"} {
			s.exec("INSERT INTO shop_emails (job_type) VALUES ('" + name + "')")
		}
		all.upkeep()
		j := s.get(s.nth(1))
		ensure(t, j.Timeout == time.Minute && j.Priority == 7 && j.ThrottleFactor == 2 && len(j.Windows) == 1, "send: %+v", j)
		equal(t, all.core().MaxAttempts(j), 9)
		j = s.get(s.nth(2))
		ensure(t, j.Timeout == time.Hour && j.Priority == 50 && j.ThrottleFactor == 1, "another: %+v", j)
		equal(t, all.core().MaxAttempts(j), 1)
	})
}

func TestOptionsThatCannotBe(t *testing.T) {
	db := dbtest.Open(t, "sqlite", dbtest.SQLite(t), "emails")
	typed := func(change func(*job.Type)) func(*queue.Options) {
		return func(o *queue.Options) { change(&o.Types[0]) }
	}
	retry := func(change func(*job.RetryPolicy)) func(*queue.Options) {
		return typed(func(t *job.Type) { change(&t.Retry) })
	}
	for says, change := range map[string]func(*queue.Options){
		"timeout is 0 (DefaultType":    typed(func(t *job.Type) { *t = job.Type{Name: "send"} }),
		`job type "send" is listed tw`: func(o *queue.Options) { o.Types[1].Name = "send" },
		"job_type is missing":          typed(func(t *job.Type) { t.Name = "" }),
		"timeout 1.5s is not":          typed(func(t *job.Type) { t.Timeout = 1500 * time.Millisecond }),
		"timeout -1s is not":           typed(func(t *job.Type) { t.Timeout = -time.Second }),
		"throttle_factor -1":           typed(func(t *job.Type) { t.ThrottleFactor = -1 }),
		"concurrency -1":               typed(func(t *job.Type) { t.Concurrency = -1 }),
		"0 attempts":                   retry(func(p *job.RetryPolicy) { *p = job.RetryPolicy{} }),
		`backoff "linear" is neither`:  retry(func(p *job.RetryPolicy) { p.Backoff = "linear" }),
		"grows exponentially":          retry(func(p *job.RetryPolicy) { p.Backoff, p.MaxDelay = job.Exponential, 0 }),
		"jitter 7 is not":              retry(func(p *job.RetryPolicy) { p.Jitter = 7 }),
		"delay of -1s":                 retry(func(p *job.RetryPolicy) { p.Delay = -time.Second }),
		"Concurrency -1":               func(o *queue.Options) { o.Concurrency = -1 },
		"5 starts per 0s":              func(o *queue.Options) { o.Rate = job.Rate{Starts: 5} },
		"0 starts per 1s":              func(o *queue.Options) { o.Rate = job.Rate{Per: time.Second} },
		`Order "fifo" is neither`:      func(o *queue.Options) { o.Order = "fifo" },
		`PriorityOrder "up" is`:        func(o *queue.Options) { o.PriorityOrder = "up" },
		"DefaultPriority":              func(o *queue.Options) { o.DefaultPriority = new(1 << 40) },
		"DefaultTimeout":               func(o *queue.Options) { o.DefaultTimeout = -time.Second },
		"DefaultRetry":                 func(o *queue.Options) { o.DefaultRetry = new(job.RetryPolicy{}) },
		"KeepFinished -24h0m0s":        func(o *queue.Options) { o.KeepFinished = -24 * time.Hour },
		"KeepFailed 500ms":             func(o *queue.Options) { o.KeepFailed = time.Second / 2 },
		"allow_weightless":             func(o *queue.Options) { o.RefuseWeightless, o.Types[1].ThrottleFactor = true, 0 },
		`By "customer" is neither`:     func(o *queue.Options) { o.ThrottleGroups = &job.ThrottleGroups{By: "customer"} },
		"value of 247 bytes": func(o *queue.Options) {
			o.ThrottleGroups = &job.ThrottleGroups{By: "data.url", Limits: map[string]int{strings.Repeat("x", 247): 1}}
		},
	} {
		o := options()
		change(&o)
		_, err := queue.Open(t.Context(), db, o)
		ensure(t, errors.Is(err, queue.ErrOptions) && strings.Contains(err.Error(), says), "%v, want %q", err, says)
	}
}
