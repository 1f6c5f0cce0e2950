package queuetest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/queuetest"
	"github.com/hipq/hipq/queue/schedule"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newShop makes an instance with a queue of emails and these types.
func newShop(t testing.TB, types ...job.Type) (*queuetest.Instance, *queuetest.Queue) {
	in := queuetest.New(t, "shop", queue.Options{Name: "emails", Types: types})
	return in, in.Queue("emails")
}

// sending is a worker with one handler, for type send.
func sending(q *queuetest.Queue, f handler.Func) worker.Params {
	return worker.Params{Queues: []worker.Queue{{Queue: q.Queue, Handlers: map[string]handler.Handler{"send": f}}}}
}

func enqueue(t testing.TB, q *queuetest.Queue, jobs ...job.Params) (ids []int64) {
	t.Helper()
	added := dbtest.Must(q.EnqueueMany(t.Context(), jobs))(t)
	for _, a := range added {
		ids = append(ids, a.ID)
	}
	return ids
}

func exec(t testing.TB, db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, statement string,
) {
	t.Helper()
	dbtest.Must(db.ExecContext(t.Context(), statement))(t)
}

func want[T comparable](t testing.TB, what string, is, wanted T) {
	t.Helper()
	dbtest.Ensure(t, is == wanted, "%s is %v, not %v", what, is, wanted)
}

func wantTimes(t testing.TB, are, wanted []time.Time) {
	t.Helper()
	dbtest.Ensure(t, slices.EqualFunc(are, wanted, time.Time.Equal), "it ran at\n%v, not at\n%v", are, wanted)
}

// TestClock: all users of the database get the clock's time: hipq, SQL, table defaults, and other connections. Another
// instance has another clock.
func TestClock(t *testing.T) {
	t.Parallel()
	in, emails := newShop(t)
	other, _ := newShop(t)
	own := dbtest.Must(sql.Open("sqlite", in.DSN))(t)
	defer func() { _ = own.Close() }()
	read := func(db *sql.DB, expression string) (now string) {
		t.Helper()
		dbtest.OK(t, db.QueryRowContext(t.Context(), "SELECT "+expression).Scan(&now))
		return now
	}
	exec(t, in.App, "CREATE TABLE orders (id INTEGER PRIMARY KEY, at TEXT DEFAULT CURRENT_TIMESTAMP)")
	for _, at := range []time.Time{
		in.Clock.Now(),
		time.Date(2031, time.March, 30, 0, 59, 59, 123e6, time.UTC),
		time.Date(1999, time.December, 31, 23, 59, 59, 999e6, time.FixedZone("", 3600)),
	} {
		in.Clock.Set(at)
		const layout = "2006-01-02 15:04:05.000"
		wanted := at.UTC().Format(layout)
		now := dbtest.Must(in.DB.SQL.Clock(t.Context()))(t)
		want(t, "hipq's clock", now.Format(layout), wanted)
		want(t, "the clock", in.Clock.Now().Format(layout), wanted)
		want(t, "strftime", read(in.App, "strftime('%Y-%m-%d %H:%M:%f', 'now')"), wanted)
		want(t, "CURRENT_TIMESTAMP", read(in.App, "CURRENT_TIMESTAMP"), wanted[:19])
		want(t, "datetime of one's own connection", read(own, "datetime()"), wanted[:19])
		want(t, "the other clock", read(other.App, "datetime()"), queuetest.Start().Format(layout)[:19])
		exec(t, in.App, "INSERT INTO orders DEFAULT VALUES")
		want(t, "a column's default", read(in.App, "at FROM orders ORDER BY id DESC LIMIT 1"), wanted[:19])
		exec(t, in.App, "INSERT INTO shop_emails (job_type) VALUES ('send')")
		emails.WantJob(job.Params{Type: "send", At: at})
		in.Work(sending(emails, func(context.Context, *job.Job) error { return nil }))
		emails.WantEmpty()
	}
	in.Clock.Set(queuetest.Start())
	in.Clock.Advance(90 * time.Minute)
	want(t, "the clock", in.Clock.Now(), queuetest.Start().Add(90*time.Minute))
}

// TestNamed: an instance may have its own name and naming scheme; others' files are no templates for it.
func TestNamed(t *testing.T) {
	t.Parallel()
	for _, template := range []string{"q_{instance}_{queue}", "{queue}_of_{instance}"} {
		names := dbtest.Must(schema.NewNames("office", template))(t)
		in := queuetest.NewNamed(t, names, queue.Options{Name: "emails"}, queue.Options{Name: "reports"})
		table := strings.NewReplacer("{instance}", "office", "{queue}", "emails").Replace(template)
		exec(t, in.App, "INSERT INTO "+table+" (job_type) VALUES ('send')")
		in.Work(sending(in.Queue("emails"), func(context.Context, *job.Job) error { return nil }))
		in.Queue("emails").WantFinished(job.Params{})
		in.Queue("reports").WantEmpty()
	}
}

// TestTransaction: a job exists once the application's transaction commits, by EnqueueTx and by plain SQL.
func TestTransaction(t *testing.T) {
	t.Parallel()
	in, emails := newShop(t)
	for _, commit := range []bool{false, true} {
		tx := dbtest.Must(in.App.BeginTx(t.Context(), nil))(t)
		letter := job.Params{Type: "send", Data: `{"order":4711,"to":["ann"]}`, In: time.Hour}
		dbtest.Must(emails.EnqueueTx(t.Context(), tx, letter))(t)
		exec(t, tx, `INSERT INTO shop_emails (job_type, job_key) VALUES ('remind', 'order-4711')`)
		emails.WantEmpty() // invisible to others so far
		if !commit {
			_ = tx.Rollback()
			emails.WantEmpty()
			continue
		}
		dbtest.OK(t, tx.Commit())
		found := emails.WantOnly(
			job.Params{Type: "remind", Key: "order-4711", At: in.Clock.Now()},
			job.Params{Type: "send", Data: `{"to": ["ann"], "order": 4711}`, At: queuetest.Start().Add(time.Hour)},
		)
		want(t, "the first that is wanted", found[0].Type, "remind")
	}
}

// TestWork: a worker runs due jobs one by one, by priority, and ignores jobs that aren't due or have no handler.
func TestWork(t *testing.T) {
	t.Parallel()
	in, emails := newShop(t)
	urgent := 5
	ids := enqueue(t, emails, job.Params{Type: "send", Data: "b"}, job.Params{Type: "send", Data: "a", Priority: &urgent},
		job.Params{Type: "send", Data: "c", In: time.Minute}, job.Params{Type: "print"})
	exec(t, in.App, "INSERT INTO shop_emails (job_type, job_data) VALUES ('send', 'd')")
	running := 0
	var told []string
	p := sending(emails, func(_ context.Context, j *job.Job) error {
		running++
		dbtest.Ensure(t, running <= 1, "jobs run beside one another")
		defer func() { running-- }()
		if j.Data == "b" {
			return handler.DoNotRetry(errors.New("no such address"))
		}
		return nil
	})
	p.Concurrency = 4
	p.Ended = func(a worker.Attempt) { told = append(told, a.Job.Data) }
	var ended []string
	for _, a := range in.Work(p) {
		ended = append(ended, a.Job.Data+" "+string(a.Outcome.Verdict))
	}
	want(t, "what ended", fmt.Sprint(ended), "[a finished b failed d finished]")
	want(t, "what Ended was told", fmt.Sprint(told), "[a b d]")
	want(t, "what failed", emails.WantFailed(job.Params{}).Error, "no such address")
	want(t, "the urgent one", emails.WantFinished(job.Params{Priority: &urgent}).ID, ids[1])
	emails.WantOnly(job.Params{Type: "send", Data: "c"}, job.Params{Type: "print"})
	want(t, "how many end when nothing is due", len(in.Work(p)), 0)
	in.Clock.Advance(time.Minute)
	want(t, "how many end in a minute", len(in.Work(p)), 1)
	emails.WantJob(job.Params{})
}

// TestRetries: retries run at the policy's times when the clock reaches them.
func TestRetries(t *testing.T) {
	t.Parallel()
	send := job.DefaultType("send")
	send.Retry = job.RetryPolicy{Attempts: 4, Delay: time.Minute, Backoff: job.Exponential, MaxDelay: time.Hour}
	in, emails := newShop(t, send)
	enqueue(t, emails, job.Params{Type: "send"})
	var at []time.Time
	p := sending(emails, func(_ context.Context, j *job.Job) error {
		at = append(at, in.Clock.Now())
		dbtest.Ensure(t, len(at) == j.Attempt, "attempt %d is the %d.", j.Attempt, len(at))
		return errors.New("no answer")
	})
	in.Work(p)
	waiting := emails.WantJob(job.Params{Type: "send", In: time.Minute})
	want(t, "its state", waiting.State(), job.Retry)
	want(t, "its error", waiting.Error, "no answer")
	start := queuetest.Start()
	want(t, "how many attempts end", len(in.WorkUntil(start.Add(150*time.Second), p)), 1)
	want(t, "the clock", in.Clock.Now(), start.Add(150*time.Second))
	emails.WantJob(job.Params{At: start.Add(3 * time.Minute)})
	p.Close = func() string {
		want(t, "how many attempts ended before Close", len(at), 4)
		return ""
	}
	want(t, "how many attempts end", len(in.WorkUntil(start.Add(24*time.Hour), p)), 2)
	wantTimes(t, at, []time.Time{start, start.Add(time.Minute), start.Add(3 * time.Minute), start.Add(7 * time.Minute)})
	want(t, "its attempts", emails.WantFailed(job.Params{}).Attempt, 4)
	want(t, "the clock", in.Clock.Now(), start.Add(24*time.Hour))
}

// TestHandlerThatTakesLong: a handler may set the clock without losing the worker's lock. Jobs that become due run too.
func TestHandlerThatTakesLong(t *testing.T) {
	t.Parallel()
	send := job.DefaultType("send")
	send.Retry = job.RetryPolicy{Attempts: 2, Backoff: job.Fixed}
	in, emails := newShop(t, send)
	enqueue(t, emails, job.Params{Type: "send", Data: "long"}, job.Params{Type: "send", Data: "later", In: 24 * time.Hour})
	var at []time.Time
	p := sending(emails, func(_ context.Context, j *job.Job) error {
		if at = append(at, in.Clock.Now()); j.Attempt == 1 && j.Data == "long" {
			in.Clock.Advance(48 * time.Hour)
			return errors.New("interrupted")
		}
		return nil
	})
	want(t, "how many attempts end", len(in.Work(p)), 3)
	after := queuetest.Start().Add(48 * time.Hour)
	wantTimes(t, at, []time.Time{queuetest.Start(), after, after})
	emails.WantEmpty()
	want(t, "its attempts", emails.WantFinished(job.Params{Data: "long"}).Attempt, 2)
}

// TestWindows: time windows follow the clock in the queue's zone, also on a day of 23 hours.
func TestWindows(t *testing.T) {
	t.Parallel()
	berlin := dbtest.Must(time.LoadLocation("Europe/Berlin"))(t)
	send := job.DefaultType("send")
	opens := dbtest.Must(job.ParseWindow("sun 09:00-10:00"))(t)
	send.Windows = job.Windows{opens}
	in := queuetest.New(t, "shop", queue.Options{Name: "emails", Types: []job.Type{send}, Location: berlin})
	emails := in.Queue("emails")
	in.Clock.Set(time.Date(2026, time.March, 28, 12, 0, 0, 0, berlin)) // the next night has the clock change
	enqueue(t, emails, job.Params{Type: "send", Data: "enqueued"})
	exec(t, in.App, "INSERT INTO shop_emails (job_type, job_data) VALUES ('send', 'inserted')")
	var at []time.Time
	p := sending(emails, func(context.Context, *job.Job) error {
		at = append(at, in.Clock.Now())
		return nil
	})
	want(t, "how many attempts end", len(in.Work(p)), 0)
	opening := time.Date(2026, time.March, 29, 7, 0, 0, 0, time.UTC)
	emails.WantOnly(job.Params{At: opening}, job.Params{At: opening})
	in.WorkUntil(opening.Add(time.Hour), p)
	wantTimes(t, at, []time.Time{opening, opening})
}

// TestSchedules: recurring jobs appear when the clock reaches their slots.
func TestSchedules(t *testing.T) {
	t.Parallel()
	in := queuetest.New(t, "shop", queue.Options{Name: "emails"})
	in.Clock.Set(time.Date(2026, time.March, 28, 11, 30, 0, 0, time.UTC))
	hourly := dbtest.Must(schedule.ParseSpec("@hourly"))(t)
	var at []time.Time
	p := sending(in.Queue("emails"), func(_ context.Context, j *job.Job) error {
		at = append(at, in.Clock.Now())
		return nil
	})
	p.Schedules = []schedule.Schedule{{Name: "digest", Spec: hourly, Queue: "emails", Job: job.Params{Type: "send"}}}
	in.WorkUntil(in.Clock.Now().Add(2*time.Hour), p)
	noon := time.Date(2026, time.March, 28, 12, 0, 0, 0, time.UTC)
	wantTimes(t, at, []time.Time{noon, noon.Add(time.Hour)})
}

// TestRate: a queue with a rate starts the allowed jobs, and others as the clock advances. Neither the worker nor other
// queues wait.
func TestRate(t *testing.T) {
	t.Parallel()
	limited := queue.Options{Name: "emails", Rate: job.Rate{Starts: 2, Per: time.Minute}}
	in := queuetest.New(t, "shop", limited, queue.Options{Name: "reports"})
	emails, reports := in.Queue("emails"), in.Queue("reports")
	enqueue(t, emails, slices.Repeat([]job.Params{{Type: "send"}}, 5)...)
	enqueue(t, reports, slices.Repeat([]job.Params{{Type: "send"}}, 3)...)
	var at []time.Time
	p := sending(emails, func(context.Context, *job.Job) error {
		at = append(at, in.Clock.Now())
		return nil
	})
	p.Queues = append(p.Queues, sending(reports, func(context.Context, *job.Job) error { return nil }).Queues...)
	want(t, "how many attempts end", len(in.Work(p)), 5)
	reports.WantEmpty()
	emails.WantOnly(job.Params{}, job.Params{}, job.Params{})
	want(t, "how many attempts end", len(in.Work(p)), 0)
	in.WorkUntil(queuetest.Start().Add(time.Hour), p)
	emails.WantEmpty()
	for i := range at {
		apart := at[i].Sub(at[max(0, i-2)])
		dbtest.Ensure(t, i < 2 || apart >= time.Minute && apart <= time.Minute+2*time.Second, "job %d starts %s after the one two before it", i, apart)
	}
}

// TestNothingToWait: paused and held jobs don't keep Work and WorkUntil busy.
func TestNothingToWait(t *testing.T) {
	t.Parallel()
	send := job.DefaultType("send")
	send.Async = true
	in := queuetest.New(t, "shop",
		queue.Options{Name: "full", ThrottleLimit: 1, Rate: job.Rate{Starts: 1, Per: time.Second}, Types: []job.Type{send}},
		queue.Options{Name: "paused", Rate: job.Rate{Starts: 1, Per: time.Second}})
	p := worker.Params{}
	for _, name := range []string{"full", "paused"} {
		enqueue(t, in.Queue(name), slices.Repeat([]job.Params{{Type: "send"}}, 3)...)
		p.Queues = append(p.Queues, sending(in.Queue(name), func(context.Context, *job.Job) error { return nil }).Queues...)
	}
	in.Work(p)
	dbtest.OK(t, admin.Of(in.Queue("paused").Queue).Pause(t.Context()))
	in.WorkUntil(queuetest.Start().Add(time.Hour), p)
	in.Queue("full").WantOnly(job.Params{}, job.Params{}, job.Params{}) // the first waits for its answer
	in.Queue("paused").WantOnly(job.Params{}, job.Params{})
}
