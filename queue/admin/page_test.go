package admin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
)

// TestManyGroups: SQLite joins up to 500 parts in a query, and an instance may have more queues, groups and priorities. Tabs show as
// many jobs as their lists.
func TestManyGroups(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db := dbtest.Open(t, driver, source, "emails")
		q := dbtest.Must(queue.New(db, queue.Options{Name: "emails"}))(t)
		var rows []string
		add := func(status, group, run string, priority int) {
			wake := map[bool]string{true: "'" + run + "'", false: "NULL"}[status == "scheduled"]
			rows = append(rows, fmt.Sprintf("('send', '%s', %s, '%s', '%s', 1, 60, %d, 1, 'NONE', 'broken')", status, wake, group, run, priority))
		}
		const past, future = "2020-01-01 00:00:00.000000", "2100-01-01 00:00:00.000000"
		for n := range 600 {
			add("throttled", fmt.Sprint("customer ", n), past, 1)
			add("available", "NONE", past, n)
			add("failed", "NONE", past, n)
		}
		for _, run := range []string{past, past, past, future, future} {
			add("scheduled", "NONE", run, 1)
			add("submitted", "NONE", run, 1)
		}
		execute(t, db, "INSERT INTO shop_emails (job_type, status, wake_time, throttle_group, scheduled_run_time, attempt, timeout, priority, throttle_factor, time_windows, error) VALUES "+strings.Join(rows, ","))
		of := admin.Of(q)
		tallies := dbtest.Must(admin.Tallies(t.Context(), admin.TallyMost, slices.Repeat([]*queue.Queue{q}, 70)...))(t)
		dbtest.Same(t, len(tallies), 70)
		for status, want := range map[admin.Status]int{admin.Due: 606, admin.Held: 600, admin.Failed: 600, admin.Scheduled: 4, admin.Retry: 1210} {
			dbtest.Same(t, len(dbtest.Must(of.FindIDs(t.Context(), admin.Filter{Status: status}))(t)), want, status)
			if status != admin.Retry {
				dbtest.Same(t, tallies[69][status], int64(want), status)
			}
			ranges, seen := &admin.Ranges{}, 0
			for after := ""; ; {
				l := dbtest.Must(of.Page(t.Context(), admin.Filter{Status: status, Limit: 100}, admin.PageOptions{After: after, Ranges: ranges, Within: time.Minute}))(t)
				if seen, after = seen+len(l.Jobs), l.Next; after == "" {
					break
				}
			}
			dbtest.Same(t, seen, want, status)
		}
		dbtest.Same(t, len(dbtest.Must(of.Page(t.Context(), admin.Filter{}, admin.PageOptions{}))(t).Jobs), 100, "a page by default")
		failures := dbtest.Must(of.NewestFailures(t.Context(), admin.Filter{Status: admin.Retry}, 5000, time.Minute))(t)
		dbtest.Same(t, failures.Kinds[0].Jobs, 1210)
		var last int64
		dbtest.OK(t, db.SQL.GetContext(t.Context(), &last, "SELECT id FROM shop_emails WHERE status = 'available' AND priority = 599"))
		dbtest.Same(t, dbtest.Must(of.Why(t.Context(), last, admin.Asker{Handled: []string{"send"}}))(t).Ahead, 599)
	})
}

// TestPagesReadLittle: what the pages of a browser ask for reads about what they show, whatever else the table has. The statistics
// are those of a table that was empty a moment ago.
func TestPagesReadLittle(t *testing.T) {
	t.Parallel()
	db := dbtest.Open(t, "mysql", dbtest.MySQL(t), "emails")
	q := dbtest.Must(queue.New(db, queue.Options{Name: "emails"}))(t)
	db.SQL.SetMaxOpenConns(1) // the connection whose reads are counted
	const columns = "job_type, status, wake_time, attempt, timeout, priority, throttle_factor, time_windows, error"
	for n, status := range []string{"finished", "failed", "scheduled", "available", "closed"} {
		wake := "NULL"
		if status == "scheduled" {
			wake = "'2100-01-01'"
		}
		for k := range 100 {
			execute(t, db, fmt.Sprintf("INSERT INTO shop_emails (%s) VALUES ('%s', '%s', %s, %d, 60, 1, 1, 'NONE', 'broken')", columns, []string{"send", "digest"}[k%2], status, wake, n%2))
		}
		for range 6 { // 6,400
			execute(t, db, "INSERT INTO shop_emails ("+columns+") SELECT "+columns+" FROM shop_emails WHERE status = ?", status)
		}
	}
	execute(t, db, "INSERT INTO shop_activity (at, kind, state, queue, job_id) SELECT UTC_TIMESTAMP(6), 'job', 'added', 'emails', id FROM shop_emails")
	of, last := admin.Of(q), int64(0)
	dbtest.OK(t, db.SQL.GetContext(t.Context(), &last, "SELECT MAX(id) FROM shop_emails WHERE status = 'available'"))
	for _, c := range []struct {
		what string
		most int64
		do   func() error
	}{
		{"tallies", 35_000, func() error { _, err := admin.Tallies(t.Context(), admin.TallyMost, q); return err }},
		{"newest", 300, func() error {
			_, err := of.Page(t.Context(), admin.Filter{Limit: 50}, admin.PageOptions{})
			return err
		}},
		{"due", 1000, func() error {
			_, err := of.Page(t.Context(), admin.Filter{Status: admin.Due, Limit: 50}, admin.PageOptions{})
			return err
		}},
		{"finished", 1000, func() error {
			_, err := of.Page(t.Context(), admin.Filter{Status: admin.Finished, Type: "digest", Limit: 50}, admin.PageOptions{Oldest: true})
			return err
		}},
		{"second page", 2000, func() error {
			first, err := of.Page(t.Context(), admin.Filter{Status: admin.Failed, Limit: 50}, admin.PageOptions{})
			if err == nil {
				_, err = of.Page(t.Context(), admin.Filter{Status: admin.Failed, Limit: 50}, admin.PageOptions{After: first.Next})
			}
			return err
		}},
		{"failures", 10_000, func() error { _, err := of.NewestFailures(t.Context(), admin.Filter{}, 1000, time.Minute); return err }},
		{"why", 1500, func() error { _, err := of.Why(t.Context(), last, admin.Asker{AheadMost: 100}); return err }},
		{"activity", 300, func() error { _, err := activity.New(db).Touched(t.Context(), 20_000, 100); return err }},
	} {
		before := dbtest.Reads(t, db.SQL)
		dbtest.OK(t, c.do())
		n := dbtest.Reads(t, db.SQL) - before
		dbtest.Ensure(t, n <= c.most, "%s read %d times", c.what, n)
	}
}
