package ui

import (
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// TestFailuresAgain: failures that are grouped again are news only if they differ. Open pages ask again after news.
func TestFailuresAgain(t *testing.T) {
	t.Parallel()
	db := dbtest.Open(t, "sqlite", dbtest.SQLite(t), "emails")
	q := dbtest.Must(queue.New(db, queue.Options{Name: "emails"}))(t)
	k := &group{}
	for n, want := range []bool{true, false, true, false} {
		if n%2 == 0 {
			dbtest.Must(q.Enqueue(t.Context(), job.Params{Type: "send"}))(t)
			dbtest.Must(db.SQL.Exec("UPDATE shop_emails SET status = 'failed', attempt = 1, error = 'no route to host'"))(t)
		}
		k.value = dbtest.Must(k.group(t.Context(), admin.NewGrouping(admin.Filter{}, q)))(t)
		_, jobs, done := k.value.Causes()
		dbtest.Ensure(t, done && int(jobs) == 1+n/2, "%d jobs, done %t", jobs, done)
		dbtest.Same(t, k.differs, want, "round %d: news", n)
	}
}
