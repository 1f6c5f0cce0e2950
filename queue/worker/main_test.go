package worker_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/google/uuid"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// these tests mostly wait, so four run for each of -parallel; 16 at most, because each has connections
	parallel := flag.Lookup("test.parallel").Value
	if n, err := strconv.Atoi(parallel.String()); err == nil && n > 1 {
		_ = parallel.Set(strconv.Itoa(min(4*n, 16)))
	}
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what must happen.
const patience = 2 * time.Minute

// shop is an instance with two queues in its own database.
type shop struct {
	t               *testing.T
	driver, source  string
	db              *schema.DB
	emails, reports *queue.Queue
}

// suite runs a test on both engines, in parallel with others.
func suite(t *testing.T, f func(s shop)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		t.Parallel()
		f(openShop(t, driver, source))
	})
}

// suites runs a test once for each of these cases, by name.
func suites[T any](t *testing.T, cases map[string]T, f func(s shop, name string, one T)) {
	t.Helper()
	t.Parallel()
	for name, one := range cases {
		t.Run(name, func(t *testing.T) { suite(t, func(s shop) { f(s, name, one) }) })
	}
}

// openShop opens the shop at source, on its own connections.
func openShop(t *testing.T, driver, source string) shop {
	t.Helper()
	db := dbtest.Open(t, driver, source, "emails", "reports")
	return shop{t, driver, source, db, openQueue(t, db, "emails", 0), openQueue(t, db, "reports", 0)}
}

// openQueue opens a queue with three job types: send has three attempts without delay, later two an hour apart, once one.
func openQueue(t *testing.T, db *schema.DB, name string, limit int) *queue.Queue {
	t.Helper()
	send, later, once := job.DefaultType("send"), job.DefaultType("later"), job.DefaultType("once")
	send.Retry = job.RetryPolicy{Attempts: 3, Backoff: job.Fixed}
	later.Retry = job.RetryPolicy{Attempts: 2, Delay: time.Hour, Backoff: job.Fixed}
	once.Retry = job.RetryPolicy{Attempts: 1, Backoff: job.Fixed}
	q := dbtest.Must(queue.New(db, queue.Options{Name: name, ThrottleLimit: limit, Types: []job.Type{send, later, once}}))(t)
	if err := q.Register(t.Context()); !errors.Is(err, queue.ErrLimits) {
		dbtest.OK(t, err)
	} else if limit > 0 { // otherwise the test has given the queue others
		dbtest.Must(admin.Of(q).Reshard(t.Context()))(t)
	}
	return q
}

// elsewhere returns the same shop on other connections, past any proxy.
func (s shop) elsewhere() shop {
	s.t.Helper()
	return openShop(s.t, s.driver, s.source)
}

// add enqueues n jobs of a type, in order.
func (s shop) add(q *queue.Queue, jobType string, n int) (ids []int64) {
	s.t.Helper()
	jobs := make([]job.Params, n)
	for i := range jobs {
		jobs[i].Type = jobType
	}
	return s.addJobs(q, jobs...)
}

func (s shop) addJobs(q *queue.Queue, jobs ...job.Params) (ids []int64) {
	s.t.Helper()
	for _, a := range dbtest.Must(q.EnqueueMany(s.t.Context(), jobs))(s.t) {
		ids = append(ids, a.ID)
	}
	return ids
}

func (s shop) get(q *queue.Queue, id int64) *job.Job {
	s.t.Helper()
	return dbtest.Must(q.Get(s.t.Context(), id))(s.t)
}

func (s shop) counts(q *queue.Queue) admin.Counts {
	s.t.Helper()
	return dbtest.Must(admin.Of(q).Overview(s.t.Context()))(s.t).Counts
}

func (s shop) wantCounts(q *queue.Queue, want admin.Counts) {
	s.t.Helper()
	got := s.counts(q)
	got.OldestDue = want.OldestDue
	dbtest.Ensure(s.t, got == want, "%s: %+v, want %+v", q.Name, got, want)
}

func (s shop) exec(query string, args ...any) {
	s.t.Helper()
	dbtest.OK(s.t, s.db.SQL.Tx(s.t.Context(), func(tx *engine.Tx) error {
		_, err := tx.ExecContext(s.t.Context(), query, args...)
		return err
	}))
}

// count reads one number.
func (s shop) count(query string, args ...any) (n int64) {
	s.t.Helper()
	dbtest.OK(s.t, s.db.SQL.GetContext(s.t.Context(), &n, query, args...))
	return n
}

func (s shop) clock() time.Time {
	s.t.Helper()
	return dbtest.Must(s.db.SQL.Clock(s.t.Context()))(s.t)
}

// workerRow is a worker's row.
type workerRow struct {
	ID        string
	Host      string
	PID       int
	State     string
	Slots     int
	StartTime engine.Time `db:"start_time"`
	Heartbeat engine.Time
	LockUntil engine.Time `db:"lock_until"`
	EndTime   engine.Time `db:"end_time"`
}

// row reads a worker's row, or the zero row if it doesn't exist yet.
func (s shop) row(id string) workerRow {
	s.t.Helper()
	var rows []workerRow
	query := "SELECT id, host, pid, state, slots, start_time, heartbeat, lock_until, end_time FROM shop_workers WHERE id = ?"
	dbtest.OK(s.t, s.db.SQL.SelectContext(s.t.Context(), &rows, query, id))
	if len(rows) == 0 {
		return workerRow{}
	}
	return rows[0]
}

// entries returns activity entries, oldest first.
func (s shop) entries(by activity.Filter) (all []activity.Entry) {
	s.t.Helper()
	dbtest.OK(s.t, activity.New(s.db).Find(s.t.Context(), by, func(e activity.Entry) error {
		all = append(all, e)
		return nil
	}))
	return all
}

// life returns a worker's states in the activity.
func (s shop) life(id string) string {
	s.t.Helper()
	var states []string
	for _, e := range s.entries(activity.Filter{Kind: activity.Worker, Worker: id}) {
		states = append(states, string(e.State))
	}
	return strings.Join(states, " ")
}

func (s shop) wantLife(id, want string) {
	s.t.Helper()
	dbtest.Same(s.t, s.life(id), want, "the worker")
}

// histories returns the states and attempts of a queue's jobs in the activity.
func (s shop) histories(q *queue.Queue) map[int64]string {
	s.t.Helper()
	all := map[int64]string{}
	for _, e := range s.entries(activity.Filter{Kind: activity.Job, Queue: q.Name}) {
		all[e.JobID] = strings.TrimSpace(fmt.Sprintf("%s %s/%d", all[e.JobID], e.State, e.Attempt))
	}
	return all
}

// Histories of a job.
const (
	untouched = "added/0"
	atOnce    = "added/0 starting/1 finished/1"
	atSecond  = "added/0 starting/1 error/1 starting/2 finished/2"
)

func (s shop) wantHistory(q *queue.Queue, want string, ids ...int64) {
	s.t.Helper()
	all := s.histories(q)
	for _, id := range ids {
		dbtest.Ensure(s.t, all[id] == want, "activity of job %d of %s: %s; want %s", id, q.Name, all[id], want)
	}
}

func (s shop) wantJob(q *queue.Queue, id int64, state job.State, status job.Status, problem string, attempt int) {
	s.t.Helper()
	j := s.get(q, id)
	if j.State() != state || j.Status != status || j.Error != problem || j.Attempt != attempt {
		s.t.Errorf("job %d of %s is %s, %s, attempt %d, error %s; want %s, %s, attempt %d, error %s",
			id, q.Name, j.State(), j.Status, j.Attempt, j.Error, state, status, attempt, problem)
	}
}

func wantSummary(t *testing.T, got, want worker.Summary) {
	t.Helper()
	dbtest.Ensure(t, got == want, "summary %+v, want %+v", got, want)
}

// eventually waits until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for look := time.NewTicker(10 * time.Millisecond); ; {
		if ok() {
			look.Stop()
			return
		}
		select {
		case <-look.C:
		case <-deadline.C:
			look.Stop()
			t.Fatalf("not in %s: %s", patience, what)
		}
	}
}

// receive receives from a channel.
func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("not in %s: %s", patience, what)
		panic("unreachable")
	}
}

// wantCause waits for a handler to be stopped with this cause.
func wantCause(t *testing.T, what string, stopped <-chan error, want error) {
	t.Helper()
	cause := receive(t, what, stopped)
	dbtest.Ensure(t, errors.Is(cause, want), "the context ends with %v, want %v", cause, want)
}

// all handles every configured job type alike.
func all(f handler.Func) map[string]handler.Handler {
	return map[string]handler.Handler{"send": f, "later": f, "once": f}
}

func nothing(context.Context, *job.Job) error { return nil }

// worker returns the params of a worker of host "here" for both queues.
func (s shop) worker(handlers map[string]handler.Handler) worker.Params {
	s.t.Helper()
	return worker.Params{
		ID: uuid.NewString(), Host: "here", PID: 4711,
		Queues: []worker.Queue{{Queue: s.emails, Handlers: handlers}, {Queue: s.reports, Handlers: handlers}},
		Options: worker.Options{
			Concurrency: 4, Batch: 100, RunFor: 3 * patience, LockFor: time.Minute, Grace: 2 * time.Second,
		},
	}
}

// only makes it a worker of one queue.
func only(q *queue.Queue, p worker.Params) worker.Params {
	p.Queues = []worker.Queue{{Queue: q, Handlers: p.Queues[0].Handlers}}
	return p
}

// run is a running worker.
type run struct {
	t       *testing.T
	stop    context.CancelFunc
	done    chan struct{}
	summary worker.Summary
	err     error
}

func (s shop) start(p worker.Params) *run {
	r, _ := s.startWatched(p)
	return r
}

// end waits for the worker's end.
func (r *run) end() (worker.Summary, error) {
	r.t.Helper()
	receive(r.t, "the worker's end", r.done)
	dbtest.Ensure(r.t, r.err == nil || !strings.Contains(r.err.Error(), "context "), "the worker ends with %v", r.err)
	return r.summary, r.err
}

// endsWith waits for the worker's end with this error.
func (r *run) endsWith(want error) {
	r.t.Helper()
	_, err := r.end()
	dbtest.Ensure(r.t, errors.Is(err, want), "the worker ends with %v, want %v", err, want)
}

// ended waits for the worker's end without error.
func (r *run) ended() worker.Summary {
	r.t.Helper()
	summary, err := r.end()
	dbtest.Require(r.t, err == nil, "the worker ends with %v", err)
	return summary
}

// work runs a worker to its end.
func (s shop) work(p worker.Params) worker.Summary {
	s.t.Helper()
	return s.start(p).ended()
}

// gate is a handler that holds its jobs until let through.
type gate struct {
	t       *testing.T
	started chan *job.Job
	through chan struct{}
	// stopped receives the cause of each context that ended first.
	stopped chan error
}

func (s shop) gate() *gate {
	return &gate{s.t, make(chan *job.Job, 1000), make(chan struct{}), make(chan error, 1000)}
}

func (g *gate) handle(ctx context.Context, j *job.Job) error {
	g.started <- j
	select {
	case <-g.through:
		return nil
	case <-ctx.Done():
		g.stopped <- context.Cause(ctx)
		return ctx.Err()
	}
}

// next waits for the start of a job.
func (g *gate) next() *job.Job {
	g.t.Helper()
	return receive(g.t, "the start of a job", g.started)
}

// holds waits for the start of n jobs.
func (g *gate) holds(n int) (jobs []*job.Job) {
	g.t.Helper()
	for range n {
		jobs = append(jobs, g.next())
	}
	return jobs
}

// let lets one job through.
func (g *gate) let() {
	g.t.Helper()
	select {
	case g.through <- struct{}{}:
	case <-time.After(patience):
		g.t.Fatal("no job waits at the gate")
	}
}

// open lets all further jobs through.
func (g *gate) open() { close(g.through) }

// journal is a worker's log that can be read meanwhile.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) log() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

func (j *journal) count(what string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.text.String(), what)
}

// jobErrors returns the activity of attempts to be retried.
func (s shop) jobErrors() []activity.Entry {
	s.t.Helper()
	return s.entries(activity.Filter{Kind: activity.Job, State: activity.Error})
}
