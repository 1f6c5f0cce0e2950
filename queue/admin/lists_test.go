package admin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

const listed = "job_type, job_key, status, attempt, timeout, priority, throttle_factor, time_windows, error, create_time, update_time, scheduled_run_time"

func execute(t *testing.T, db *schema.DB, statement string, args ...any) {
	t.Helper()
	dbtest.Must(db.SQL.ExecContext(t.Context(), statement, args...))(t)
}

// insert adds n jobs of a status, which were added, due and over at a time, and doubles them several times.
func insert(t *testing.T, db *schema.DB, jobType string, status job.Status, at time.Time, n, times int) {
	t.Helper()
	row, args := "(?, ?, ?, ?, 60, 1, 1, 'NONE', ?, ?, ?, ?)", []any{}
	for i := range n {
		args = append(args, jobType, fmt.Sprint(jobType, "-", status, "-", i), status, map[bool]int{true: 1}[status.IsFinal()],
			map[bool]string{true: "broken", false: "NONE"}[status == "failed"], engine.At(at), engine.At(at), engine.At(at))
	}
	execute(t, db, "INSERT INTO shop_emails ("+listed+") VALUES "+engine.Rows(row, n), args...)
	for n := range times {
		columns := strings.Replace(listed, "job_key", "CONCAT(job_key, '-', ?)", 1)
		execute(t, db, "INSERT INTO shop_emails ("+listed+") SELECT "+columns+" FROM shop_emails WHERE status = ?", n, status)
	}
}

// TestListsReadLittle: what a person asks for reads about what she gets, whatever else the table has.
func TestListsReadLittle(t *testing.T) {
	t.Parallel()
	db := dbtest.Open(t, "mysql", dbtest.MySQL(t), "emails")
	q := dbtest.Must(queue.New(db, queue.Options{Name: "emails", KeepFinished: 20 * 24 * time.Hour, KeepFailed: 20 * 24 * time.Hour}))(t)
	db.SQL.SetMaxOpenConns(1) // the connection whose reads are counted
	now := dbtest.Must(db.SQL.Clock(t.Context()))(t)
	insert(t, db, "send", "finished", now.Add(-30*24*time.Hour), 100, 0)
	execute(t, db, "UPDATE shop_emails SET status = 'closed'")
	insert(t, db, "send", "finished", now.Add(-24*time.Hour), 100, 10) // 102,400
	insert(t, db, "send", "failed", now.Add(-24*time.Hour), 100, 0)
	insert(t, db, "send", "available", now.Add(-2*time.Hour), 100, 6)
	execute(t, db, "ANALYZE TABLE shop_emails")
	of, ids := admin.Of(q), 0
	find := func(by admin.Filter) func() error {
		return func() error {
			found, err := of.FindIDs(t.Context(), by)
			ids = len(found)
			return err
		}
	}
	for _, c := range []struct {
		what      string
		most      int64
		do        func() error
		wantedIDs int
	}{
		{"a key", 100, find(admin.Filter{Key: "send-failed-7", Limit: 100}), 1},
		{"a key of a status", 100, find(admin.Filter{Key: "send-failed-7", Status: admin.Failed}), 1},
		{"a type without jobs", 100, find(admin.Filter{Type: "none", Limit: 100}), 0},
		{"a type", 25_000, find(admin.Filter{Type: "send", Limit: 100}), 100},
		{"a time", 3000, find(admin.Filter{Until: now.Add(-13 * 24 * time.Hour), Limit: 1000}), 100},
		{"finished", 60_000, find(admin.Filter{Status: admin.Finished, Limit: 5000}), 5000},
		{"a stored status", 100, find(admin.Filter{Status: "undecided", Limit: 100}), 0},
		{"failed", 10_000, find(admin.Filter{Status: admin.Failed, Limit: 500}), 100},
		{"a sketch", 10_000, func() error { _, _, err := of.Sketch(t.Context(), 1000); return err }, 0},
		{"unhandled", 200, func() error { _, err := of.Unhandled(t.Context(), false, now, nil); return err }, 0},
		{"purge", 2000, func() error {
			_, failed, err := of.Purge(t.Context(), admin.PurgeOptions{DryRun: true})
			ids = int(failed)
			return err
		}, 100},
		{"an id", 300, func() error {
			f, err := admin.Find(t.Context(), []*queue.Queue{q}, admin.Search{Text: "emails/50000"})
			ids = len(f.Hits)
			return err
		}, 1},
		{"the newest with a text", 20_000, func() error {
			f, err := admin.Find(t.Context(), []*queue.Queue{q}, admin.Search{Text: "available-7", Limit: 10, Within: time.Minute})
			ids = len(f.Hits)
			return err
		}, 10},
	} {
		before := dbtest.Reads(t, db.SQL)
		ids = 0
		dbtest.OK(t, c.do())
		n := dbtest.Reads(t, db.SQL) - before
		dbtest.Ensure(t, n <= c.most && ids == c.wantedIDs, "%s read %d times and found %d", c.what, n, ids)
	}
}

// TestFindText: a search finds an id, a key and texts in each column, the newest first over all queues, in parts.
func TestFindText(t *testing.T) {
	t.Parallel()
	dbtest.EachOpen(t, func(t *testing.T, db *schema.DB) {
		queues := []*queue.Queue{dbtest.Must(queue.New(db, queue.Options{Name: "emails"}))(t), dbtest.Must(queue.New(db, queue.Options{Name: "bills"}))(t)}
		var at time.Time
		add := func(n int, key, data string) {
			a := dbtest.Must(queues[n].Enqueue(t.Context(), job.Params{Type: "send", Key: key, Data: data}))(t)
			at = at.Add(time.Hour)
			execute(t, db, "UPDATE shop_"+queues[n].Name+" SET create_time = ? WHERE id = ?", engine.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(at.Hour())*time.Hour)), a.ID)
		}
		add(0, "order-1", "for anna")
		add(1, "order-2", "for berta")
		add(0, "order-3", "for anna")
		add(1, "order-4", "100% of Anna")
		add(0, "42", "for anna, too")
		execute(t, db, "UPDATE shop_bills SET status = 'failed', error = 'no anna here' WHERE job_key = 'order-2'")
		execute(t, db, "UPDATE shop_emails SET result = 'anna' WHERE job_key = 'order-3'")
		search := func(text string, limit int) (said []string) {
			s, looked := admin.Search{Text: text, Limit: limit, Within: time.Minute}, int64(0)
			for {
				f := dbtest.Must(admin.Find(t.Context(), queues, s))(t)
				for _, h := range f.Hits {
					said = append(said, h.Job.Queue+" "+h.Job.Key+" "+h.In)
				}
				dbtest.Ensure(t, len(f.Hits) <= max(limit, 2) && (f.Next == "") == (f.Left == 0), "%d hits of %d, %d left, then %q", len(f.Hits), limit, f.Left, f.Next)
				if looked, s.After = looked+f.Looked, f.Next; f.Next == "" {
					dbtest.Same(t, looked, int64(5), text)
					return said
				}
			}
		}
		for _, limit := range []int{1, 2, 50} {
			for text, want := range map[string]string{
				"anna": "emails 42 data, bills order-4 data, emails order-3 data, bills order-2 error, emails order-1 data", "100% of": "bills order-4 data", "order-3": "emails order-3 key",
				"42": "emails 42 key", "ANNA, TOO": "emails 42 data", "RDER-4": "bills order-4 key", "emails/1": "emails order-1 id", "rder-4": "bills order-4 key",
			} {
				said := search(text, limit)
				if limit < 50 {
					slices.Sort(said)
					sorted := strings.Split(want, ", ")
					slices.Sort(sorted)
					want = strings.Join(sorted, ", ")
				}
				dbtest.Same(t, strings.Join(said, ", "), want, text)
			}
		}
		dbtest.Same(t, len(search("1", 1)), 3, "an id of both queues, and 100 of Anna")
		for text, want := range map[string]int{"No ANNA": 1, "no_anna": 0, "none": 0} {
			ids := dbtest.Must(admin.Of(queues[1]).FindIDs(t.Context(), admin.Filter{Error: text}))(t)
			dbtest.Same(t, len(ids), want, text)
		}
		_, err := admin.Find(t.Context(), queues, admin.Search{Text: "x", After: "nonsense"})
		dbtest.Ensure(t, err != nil, "it goes on after nonsense")
	}, "emails", "bills")
}

// TestCauses: errors that differ in names and numbers only are one cause of several kinds, and the count is right when it is done.
func TestCauses(t *testing.T) {
	t.Parallel()
	dbtest.EachOpen(t, func(t *testing.T, db *schema.DB) {
		var queues []*queue.Queue
		now := dbtest.Must(db.SQL.Clock(t.Context()))(t)
		for n, name := range []string{"emails", "bills"} {
			queues = append(queues, dbtest.Must(queue.New(db, queue.Options{Name: name}))(t))
			insert(t, db, "send", "failed", now, 300, 0)
			insert(t, db, "remind", "failed", now, 100, 0)
			execute(t, db, map[int]string{1: "UPDATE shop_emails SET error = 'other' WHERE job_type = 'remind'", 0: "UPDATE shop_emails SET error = 'x' WHERE id < 0"}[n])
		}
		execute(t, db, "DELETE FROM shop_emails WHERE id > 400")
		execute(t, db, "UPDATE shop_emails SET error = 'emails/send: no answer from host 7' WHERE job_type = 'send'")
		execute(t, db, "INSERT INTO shop_bills ("+listed+") SELECT "+listed+" FROM shop_emails WHERE job_type = 'send'")
		execute(t, db, "UPDATE shop_bills SET job_type = 'charge', error = 'bills/charge: no answer from host 8'")
		g := admin.NewGrouping(admin.Filter{}, queues...)
		for done, n := false, 0; !done; n++ {
			_, jobs, all := g.Causes()
			dbtest.Ensure(t, !all && jobs < 700, "%d jobs after %d steps", jobs, n)
			done = dbtest.Must(g.GoOn(t.Context(), time.Nanosecond))(t)
		}
		causes, jobs, done := g.Causes()
		dbtest.Ensure(t, done && jobs == 700 && len(causes) == 2, "%d jobs, %+v", jobs, causes)
		dbtest.Ensure(t, causes[0].Jobs == 600 && len(causes[0].Kinds) == 2 && causes[1].Jobs == 100, "%+v", causes)
		for _, k := range causes[0].Kinds {
			by := admin.Filter{Status: admin.Failed, Type: k.Type, Fingerprint: k.Fingerprint}
			of := admin.Of(queues[slices.IndexFunc(queues, func(q *queue.Queue) bool { return q.Name == k.Queue })])
			n, next, err := of.Count(t.Context(), by, admin.PageOptions{Within: time.Minute})
			dbtest.Ensure(t, n == k.Jobs && next == "" && err == nil && k.Jobs == 300, "%d of %+v, %q, %v", n, k, next, err)
		}
	}, "emails", "bills")
}

// TestOperatorsLeaveTraces: the activity says who did what, to how many.
func TestOperatorsLeaveTraces(t *testing.T) {
	t.Parallel()
	dbtest.EachOpen(t, func(t *testing.T, db *schema.DB) {
		q := dbtest.Must(queue.New(db, queue.Options{Name: "emails"}))(t)
		now := dbtest.Must(db.SQL.Clock(t.Context()))(t)
		insert(t, db, "send", "failed", now, 3, 0)
		insert(t, db, "send", "available", now, 2, 0)
		anna := admin.Of(q).By("anna")
		dbtest.OK(t, anna.Among(1200).Dismiss(t.Context(), 1, 2))
		dbtest.OK(t, anna.Dismiss(t.Context(), 1)) // it was dismissed
		added := dbtest.Must(anna.Retry(t.Context(), false, 3))(t)
		dbtest.OK(t, anna.Reschedule(t.Context(), 4, admin.RescheduleOptions{In: new(time.Hour)}))
		dbtest.OK(t, anna.Cancel(t.Context(), 5))
		for range 2 {
			dbtest.OK(t, anna.Pause(t.Context()))
		}
		dbtest.OK(t, admin.Of(q).Resume(t.Context()))
		var got []string
		dbtest.OK(t, activity.New(db).Find(t.Context(), activity.Filter{}, func(e activity.Entry) error {
			got = append(got, fmt.Sprintf("%s %s %d %s", e.Kind, e.State, e.JobID, e.Output))
			return nil
		}))
		dbtest.Same(t, strings.Join(got, "\n"), fmt.Sprintf(`job dismissed 1 by anna, one of 1,200
job dismissed 2 by anna, one of 1,200
job added %d by anna
job retried 3 by anna
job rescheduled 4 by anna
job cancelled 5 by anna
queue paused 0 by anna
queue resumed 0 NONE`, added[0].ID))
	}, "emails")
}

// TestListsJumpOverGaps: a gap in the ids costs no time, in a list, a page and a search.
func TestListsJumpOverGaps(t *testing.T) {
	dbtest.EachOpen(t, func(t *testing.T, db *schema.DB) {
		q := dbtest.Must(queue.New(db, queue.Options{Name: "emails"}))(t)
		ctx := dbtest.Within(t, 20*time.Second)
		var want []int64
		for range 2 {
			added := dbtest.Must(q.Enqueue(ctx, job.Params{Type: "send", Data: "text"}))(t)
			want = append(want, added.ID)
		}
		execute(t, db, "UPDATE shop_emails SET id = ? WHERE id = ?", int64(1)<<61, want[1])
		want[1] = 1 << 61
		ids := dbtest.Must(admin.Of(q).FindIDs(ctx, admin.Filter{Limit: 10}))(t)
		dbtest.Ensure(t, slices.Equal(ids, want), "found %v, want %v", ids, want)
		n, next, err := admin.Of(q).Count(ctx, admin.Filter{}, admin.PageOptions{Within: 10 * time.Second})
		dbtest.OK(t, err)
		dbtest.Ensure(t, n == 2 && next == "", "counted %d, next %q", n, next)
		found := dbtest.Must(admin.Find(ctx, []*queue.Queue{q}, admin.Search{Text: "tex", Within: 10 * time.Second}))(t)
		dbtest.Ensure(t, len(found.Hits) == 2 && found.Next == "", "%+v", found)
	}, "emails")
}
