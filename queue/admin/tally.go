package admin

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/schema"
)

// Tally is how many jobs a queue has by status, each counted up to some number.
type Tally map[Status]int64

// paused counts 1 for a paused queue. overdue are scheduled ones that are due.
const paused, overdue Status = "paused", "overdue"

// Paused reports whether the queue is paused.
func (t Tally) Paused() bool { return t[paused] > 0 }

// TallyMost is up to how many jobs of a status are counted, so that the cost doesn't depend on the queue's length. What
// somebody may have to mend is counted further.
func TallyMost(s Status) int64 {
	if s == Due || s == Failed || s == overdue {
		return 10_000
	}
	return 1000
}

// tallied are the ranges of the index that Tally counts, because a condition on more than the range would read all of it.
// Due jobs are in three of them.
var tallied = []struct {
	status Status
	where  string
	index  string
}{
	{Due, "status = 'available'", ""},
	{Due, "status = 'submitted' AND scheduled_run_time <= {now}", ""},
	{overdue, "wake_time <= {now} AND status = 'scheduled'", "wake"},
	{Scheduled, "status = 'scheduled'", ""},
	{Scheduled, "status = 'submitted' AND scheduled_run_time > {now}", ""},
	{Held, Held.condition(), ""},
	{Locked, Locked.condition(), ""},
	{Running, "status IN ('running', 'answered')", ""},
	{Waiting, Waiting.condition(), ""},
	{Error, Error.condition(), ""},
	{Failed, Failed.condition(), ""},
	{Closed, Closed.condition(), ""},
	{Finished, Finished.condition(), ""},
}

// AtLeast formats a count that ended at most: 1,234, or 100,000+.
func AtLeast(n, most int64) string {
	return texts.Thousands(n) + map[bool]string{true: "+"}[n >= most]
}

// waiting are the statuses of which Retry counts a part. If one of them was counted up to most only, there may be more.
var waiting = []Status{Due, Scheduled, Held, Locked}

// Tallies counts the jobs of queues of one database, each status up to most of it, for example TallyMost.
func Tallies(ctx context.Context, most func(Status) int64, queues ...*queue.Queue) (all []Tally, err error) {
	for some := range slices.Chunk(queues, 30) { // SQLite joins up to 500 parts in a query
		found, err := tallies(ctx, most, some)
		if all = append(all, found...); err != nil {
			return nil, texts.Wrap(err, "count the jobs")
		}
	}
	return all, nil
}

func tallies(ctx context.Context, most func(Status) int64, queues []*queue.Queue) ([]Tally, error) {
	var parts []string
	var args []any
	all := make([]Tally, len(queues))
	for n, of := range queues {
		q := Of(of)
		all[n] = Tally{}
		for _, t := range tallied {
			hint := q.s.Index(cmp.Or(t.index, schema.ClaimIndex))
			where := strings.ReplaceAll(t.where, "{now}", "(SELECT "+q.s.DB().SQL.NowSQL+")")
			attempt := "attempt"
			if t.index != "" { // the others have it
				attempt = "0 AS attempt"
			}
			parts = append(parts, "SELECT ? AS queue, ? AS status, COUNT(*) AS n, COALESCE(SUM(attempt > 0), 0) AS tried FROM (SELECT "+attempt+" FROM "+q.s.Table()+" "+hint+" WHERE "+where+" LIMIT ?) AS some")
			args = append(args, n, string(t.status), most(t.status))
		}
		parts = append(parts, "SELECT ? AS queue, ? AS status, COUNT(*) AS n, 0 AS tried FROM "+q.s.DB().Queues()+" WHERE queue = ? AND paused <> 0")
		args = append(args, n, string(paused), of.Name)
	}
	err := Of(queues[0]).s.DB().SQL.Read(ctx, engine.Query{SQL: strings.Join(parts, " UNION ALL "), Args: args, Scan: engine.EachRow(func(row *sql.Rows) error {
		var status Status
		var queue int
		var n, tried int64
		err := row.Scan(&queue, &status, &n, &tried)
		if err == nil {
			if slices.Contains(waiting, status) {
				all[queue][Retry] += tried
			}
			all[queue][status] = min(all[queue][status]+n, most(status))
		}
		return err
	})})
	for _, t := range all {
		t[Due] = min(t[Due]+t[overdue], most(Due))
		if t[Scheduled] < most(Scheduled) { // all were counted, with those that are due
			t[Scheduled] = max(0, t[Scheduled]-t[overdue])
		}
		delete(t, overdue)
	}
	return all, err
}
