package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

// load loads a config with that text.
func load(t *testing.T, text string, env []string, flags *pflag.FlagSet) (*Config, error) {
	t.Helper()
	return Load(LoadOptions{File: write(t, filepath.Join(t.TempDir(), "hipq.yaml"), text), Env: env, Flags: flags})
}

func mustLoad(t *testing.T, text string) *Config {
	t.Helper()
	c := dbtest.Must(load(t, text, noEnv, nil))(t)
	return c
}

func diff(want, got any) string {
	return cmp.Diff(want, got, cmpopts.IgnoreUnexported(handler.Program{}, handler.Stream{}),
		cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".lines" }, cmp.Ignore()),
		cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() }),
		cmp.Comparer(func(a, b job.Windows) bool { return fmt.Sprint(a) == fmt.Sprint(b) }))
}

// program is a handler of a config.
func (c *Config) program(key, dir string, env []string, argv ...string) Handler {
	return Handler{Key: key, Exec: &handler.Exec{Program: handler.Program{Argv: argv, Dir: dir, Env: env, Grace: c.Worker.Grace, ConfigFile: c.File}}}
}

func TestMinimal(t *testing.T) {
	got := mustLoad(t, "name: shop\nqueues: [{name: emails, job_types: [{name: send, handler: {exec: [cat]}}]}]\n")
	dir := filepath.Dir(got.File)
	want := &Config{
		File:         got.File,
		Name:         "shop",
		Tables:       schema.DefaultTemplate,
		Database:     schema.Options{Driver: "sqlite", Path: filepath.Join(dir, "hipq.db"), Mode: 0o600},
		Location:     time.UTC,
		Worker:       worker.DefaultOptions,
		ActivityKeep: 14 * day, MetricsKeep: 730 * day,
		Alert: monitor.DefaultAlert(),
		Mail:  true,
		Queues: []Queue{{
			Options: queue.Options{
				Name: "emails", Types: []job.Type{job.DefaultType("send")}, Location: time.UTC,
				Order: job.ByPriority, PriorityOrder: job.LowestFirst, Shards: 1,
				KeepFinished: queue.DefaultKeepFinished, KeepFailed: queue.DefaultKeepFailed,
			},
			RetryHandlers: map[string]Handler{},
			Handlers:      map[string]Handler{"send": got.program("queues.emails.job_types.send.handler", dir, nil, "cat")},
		}},
	}
	dbtest.Same(t, diff(want, got), "", "(-want +got)")
}

func TestEverySetting(t *testing.T) {
	got := mustLoad(t, `
name: shop
tables: "q_{instance}_{queue}"
database: {driver: mysql, dsn: "hipq:s3cret@tcp(db)/shop", path: ignored.db, nodes: [db1, "db2:3307"]}
timezone: Europe/Berlin
worker: {concurrency: 1, batch: 10000, run_for: 1s, linger: yes, poll: 300ms, lock_for: 5s, grace: 0}
activity: {keep: 0}
metrics: {keep: 3w}
monitor: {ping_url: "https://hc-ping.com/s3cret"}
purge: {ping_url: "http://localhost:8000/s3cret?create=1"}
timeout: 1h
retry: {attempts: 7, jitter: 1}
retry_handler: {exec: [decide], dir: /srv}
default_priority: 500
strict_types: true
alert:
  over: 1d
  error_rate: {warning: 1, critical: off}
  failed: {warning: 7}
  oldest_due: {critical: 1w}
  wait_p95: {warning: off, critical: 0}
  run_p95: {warning: 1.5s}
  backlog: {warning: 0, critical: 0}
  dead_workers: {warning: off}
  no_tick_for: {warning: 1d, critical: 2d}
  missed_hours: {critical: 48}
mail: off
queues:
  - name: emails
    alert: {error_rate: {critical: off}, failed: {critical: 8}}
    strict_types: no
    throttle_limit: -1
    throttle_groups: {by: data.Customer.region, limits: {East: 40, a.b: 1, "*": 10}}
    rate: 100/1m30s
    shards: 100
    concurrency: 3
    order: schedule
    priority_order: highest
    default_priority: -7
    retry_handler: {exec: [ask]}
    keep_finished: 0
    keep_failed: 1w
    timeout: 2h
    retry: {delay: 10s}
    job_types:
      - name: "Send: ü.x"
        timeout: 1m
        retry: {attempts: 1, backoff: fixed, max_delay: 5s}
        priority: -5
        throttle_factor: 0
        time_windows: ["mon-fri 09:00-17:30", "22:00-02:00"]
        handler: {exec: [true, 1, ""], dir: sub/folder, env: [A=b=c, HOME, E=]}
      - name: send
        async: true
        concurrency: 2
        handler: {exec: [./run], dir: /srv}
        alert: {failed: {warning: 8}, oldest_due: {critical: off}}
        retry_handler: {exec: [ask, again], env: all}
      - name: elsewhere
  - name: files
    allow_weightless: no
`)
	dir := filepath.Dir(got.File)
	berlin := dbtest.Must(time.LoadLocation("Europe/Berlin"))(t)
	windows := dbtest.Must(job.ParseWindows([]string{"mon-fri 09:00-17:30", "22:00-02:00"}))(t)
	inherited := job.RetryPolicy{Attempts: 7, Delay: 10 * time.Second, Backoff: job.Exponential, MaxDelay: time.Hour, Jitter: 1}
	outer := job.RetryPolicy{Attempts: 7, Delay: time.Minute, Backoff: job.Exponential, MaxDelay: time.Hour, Jitter: 1}
	own := job.RetryPolicy{Attempts: 1, Delay: 10 * time.Second, Backoff: job.Fixed, MaxDelay: 5 * time.Second, Jitter: 1}
	alert := monitor.Alert{
		JobAlert: monitor.JobAlert{
			ErrorRate: monitor.Limits{Warning: 1, Critical: monitor.Off}, Failed: monitor.Limits{Warning: 7, Critical: 100},
			OldestDue: monitor.Limits{Warning: 900, Critical: 7 * 24 * 3600}, WaitP95: monitor.Limits{Warning: monitor.Off},
			RunP95: monitor.Limits{Warning: 1.5, Critical: monitor.Off},
		},
		DeadWorkers: monitor.Limits{Warning: monitor.Off, Critical: 10},
		NoTickFor:   monitor.Limits{Warning: 24 * 3600, Critical: 48 * 3600},
		MissedHours: monitor.Limits{Critical: 48}, Over: day,
	}
	emails := alert.JobAlert
	emails.Failed.Critical = 8
	send := emails
	send.Failed.Warning, send.OldestDue.Critical = 8, monitor.Off
	alert.Queues = map[string]monitor.QueueAlert{"emails": {JobAlert: emails, Types: map[string]monitor.JobAlert{"send": send}}}
	want := &Config{
		File:        got.File,
		Alert:       alert,
		MonitorPing: "https://hc-ping.com/s3cret", PurgePing: "http://localhost:8000/s3cret?create=1",
		Name:     "shop",
		Tables:   "q_{instance}_{queue}",
		Database: schema.Options{Driver: "mysql", DSN: "hipq:s3cret@tcp(db)/shop", Nodes: []string{"db1", "db2:3307"}},
		DSNFrom:  "database.dsn",
		Location: berlin, StrictTypes: true,
		Worker:      worker.Options{Concurrency: 1, Batch: 10000, RunFor: time.Second, Linger: true, Poll: 300 * time.Millisecond, LockFor: 5 * time.Second, Grace: worker.NoGrace},
		MetricsKeep: 3 * week,
		Warnings:    []string{"the connection to the database goes to another host and is not encrypted: see database.tls"},
		Queues: []Queue{
			{
				Options: queue.Options{
					Name: "emails", ThrottleLimit: -1, Location: berlin, KeepFinished: queue.DiscardAtOnce, KeepFailed: week,
					ThrottleGroups: &job.ThrottleGroups{By: "data.Customer.region", Limits: map[string]int{"East": 40, "a.b": 1, "*": 10}},
					Rate:           job.Rate{Starts: 100, Per: 90 * time.Second},
					Shards:         100, Concurrency: 3, Order: job.BySchedule, PriorityOrder: job.HighestFirst, DefaultPriority: new(-7),
					DefaultTimeout: 2 * time.Hour, DefaultRetry: &inherited,
					Types: []job.Type{
						{Name: "Send: ü.x", Timeout: time.Minute, Priority: -5, Windows: windows, Retry: own, RetryHandler: true},
						{Name: "send", Timeout: 2 * time.Hour, Priority: -7, ThrottleFactor: 1, Retry: inherited, RetryHandler: true, Async: true, Concurrency: 2},
						{Name: "elsewhere", Timeout: 2 * time.Hour, Priority: -7, ThrottleFactor: 1, Retry: inherited},
					},
				},
				Handlers: map[string]Handler{
					"Send: ü.x": got.program("queues.emails.job_types[0].handler", filepath.Join(dir, "sub/folder"), []string{"A=b=c", "HOME", "E="}, "true", "1", ""),
					"send":      got.program("queues.emails.job_types.send.handler", "/srv", nil, "./run"),
				},
				RetryHandlers: map[string]Handler{
					"Send: ü.x": got.program("queues.emails.retry_handler", dir, nil, "ask"),
					"send":      got.program("queues.emails.job_types.send.retry_handler", dir, []string{"*"}, "ask", "again"),
				},
			},
			{
				Options: queue.Options{
					Name: "files", RefuseWeightless: true, Location: berlin, KeepFinished: queue.DefaultKeepFinished, KeepFailed: queue.DefaultKeepFailed,
					Order: job.ByPriority, PriorityOrder: job.LowestFirst, Shards: 1, DefaultPriority: new(500), StrictTypes: true,
					DefaultTimeout: time.Hour, DefaultRetry: &outer,
				},
				Handlers: map[string]Handler{}, RetryHandlers: map[string]Handler{},
			},
		},
	}
	dbtest.Same(t, diff(want, got), "", "(-want +got)")
	names, err := got.Names()
	dbtest.Ensure(t, err == nil && names.Activity() == "q_shop_activity", "the activity's table is %q, %v", names.Activity(), err)
}

// TestRetryIsCheckedWhereItIsSet: an outer policy may be invalid only for an inner level, and the other way round.
func TestRetryIsCheckedWhereItIsSet(t *testing.T) {
	c := mustLoad(t, "name: shop\nretry: {backoff: fixed, delay: 2h}\nqueues: [{name: q, job_types: [{name: a}, {name: b, retry: {backoff: exponential, delay: 1m}}]}]\n")
	want := job.RetryPolicy{Attempts: 3, Delay: time.Minute, Backoff: job.Exponential, MaxDelay: time.Hour, Jitter: 0.1}
	dbtest.Same(t, c.Queues[0].Types[1].Retry, want)
	_, err := load(t, "name: shop\nretry: {backoff: fixed, delay: 2h}\nqueues: [{name: q, job_types: [{name: a, retry: {backoff: exponential}}]}]\n", noEnv, nil)
	dbtest.Ensure(t, err != nil && strings.Contains(err.Error(), "queues.q.job_types.a.retry.max_delay (line 3): 1h is shorter than the delay of 2h"), "got %v", err)
}

func TestSectionsWithoutContentAreDefaults(t *testing.T) {
	got := mustLoad(t, "name: shop\ndatabase:\nworker:\n  batch:\nactivity: {}\nretry: ~\nqueues:\n  - name: q\n    job_types:\n")
	dbtest.Same(t, diff(worker.DefaultOptions, got.Worker), "", "(-want +got)")
}

// TestMistakes: an unknown key hides no other mistake, and a key that it may stand for isn't reported as missing.
func TestMistakes(t *testing.T) {
	_, err := load(t, "naem: shop\nworker: {batch: 0, lock_fro: 90s, grace: 40s}\nqueues: [{name: q, job_types: [{name: a, timeout: 3, handler: {exce: [x]}}]}]\n",
		environment("HIPQ_WORKER_CONCURENCY", "3", "HIPQ_TIMEZONE", "Mars"), nil)
	var got []string
	for _, m := range Mistakes(err) {
		got = append(got, m.Key+" "+m.From)
	}
	want := []string{
		"HIPQ_WORKER_CONCURENCY ", "naem ", "worker.lock_fro ", "worker.batch ", "queues.q.job_types.a.timeout ",
		"queues.q.job_types.a.handler.exce ", "timezone HIPQ_TIMEZONE",
	}
	diff := diff(want, got)
	dbtest.Ensure(t, diff == "", "(-want +got):\n%s\n%v", diff, err)
	_, err = load(t, "name: Shop\nqueues: [{name: q}]\n", noEnv, nil)
	dbtest.Ensure(t, errors.Is(err, schema.ErrName), "the cause is lost: %v", err)
	_, err = load(t, "\tname: x", noEnv, nil)
	if got := Mistakes(err); len(got) != 1 || got[0].Key != "" || !errors.Is(got[0], ErrInvalid) || got[0].Error() != err.Error() || Mistakes(nil) != nil {
		t.Errorf("%v", got)
	}
}

// TestRoomOfStreams: as many jobs of a stream run at once as its programs take. With jobs ahead, also if those fill the worker, because
// other handlers' jobs don't wait for its programs. A type knows how long the program of its stream may start.
func TestRoomOfStreams(t *testing.T) {
	for handler, want := range map[string]struct {
		room  int
		start time.Duration
	}{
		"{exec: ['true']}":                                         {0, 0},
		"{stream: ['true']}":                                       {0, time.Minute},
		"{stream: ['true'], processes: 3}":                         {3, time.Minute},
		"{stream: ['true'], processes: 3, in_flight: 2}":           {6, time.Minute},
		"{stream: ['true'], processes: 4, in_flight: 2}":           {0, time.Minute},
		"{stream: ['true'], processes: 2, ahead: 1}":               {4, time.Minute},
		"{stream: ['true'], processes: 4, ahead: 1}":               {8, time.Minute},
		"{stream: ['true'], processes: 4, in_flight: 2, ahead: 9}": {8, time.Minute},
		"{stream: ['true'], start_timeout: 2m}":                    {0, 2 * time.Minute},
	} {
		c := mustLoad(t, "name: shop\nworker: {concurrency: 8}\nqueues: [{name: emails, job_types: [{name: send, handler: "+handler+"}]}]\n")
		dbtest.Same(t, c.Queues[0].Types[0].Concurrency, want.room, handler)
		dbtest.Same(t, c.Queues[0].Types[0].StartTimeout, want.start, handler)
	}
}

// TestKeysWithoutValues: they are as if they were not there.
func TestKeysWithoutValues(t *testing.T) {
	for _, handler := range []string{
		"{exec: , http: {url: https://x}}", "{exec: , stream: [x]}", "{exec: [], stream: [x]}", "{exec: [x], stream: []}", "{exec: [x], processes: }",
	} {
		_, err := load(t, "name: shop\nstrict_types: true\nqueues: [{name: q, strict_types: , job_types: [{name: '*', handler: "+handler+"}]}]", nil, nil)
		dbtest.OK(t, err)
	}
}
