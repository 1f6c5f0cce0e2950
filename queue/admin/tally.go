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
	{Scheduled, "status = 'scheduled'", ""}, // and a minute later, submitted ones
	{Held, conditions[Held], ""},
	{Locked, conditions[Locked], ""},
	{Running, "status IN ('running', 'answered')", ""},
	{Waiting, conditions[Waiting], ""},
	{Error, conditions[Error], ""},
	{Failed, conditions[Failed], ""},
	{Closed, conditions[Closed], ""},
	{Finished, conditions[Finished], ""},
}

// AtLeast formats a count that ended at most: 1,234, or 100,000+.
func AtLeast(n, most int64) string {
	return texts.Thousands(n) + map[bool]string{true: "+"}[n >= most]
}

// Tallies counts the jobs of queues of one database, each status up to TallyMost.
func Tallies(ctx context.Context, queues ...*queue.Queue) ([]Tally, error) {
	return talliesUpTo(ctx, TallyMost, queues)
}

// TalliesTo counts the jobs of queues of one database, each status up to most of it.
func TalliesTo(ctx context.Context, most int64, queues ...*queue.Queue) ([]Tally, error) {
	return talliesUpTo(ctx, func(Status) int64 { return most }, queues)
}

// talliesUpTo counts 30 queues in one query, because SQLite joins up to 500 parts.
func talliesUpTo(ctx context.Context, most func(Status) int64, queues []*queue.Queue) (all []Tally, err error) {
	for some := range slices.Chunk(queues, 30) {
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
			parts = append(parts, "SELECT ? AS queue, ? AS status, COUNT(*) AS n FROM (SELECT 1 FROM "+q.s.Table()+" "+hint+" WHERE "+where+" LIMIT ?) AS some")
			args = append(args, n, string(t.status), most(t.status))
		}
		parts = append(parts, "SELECT ? AS queue, ? AS status, COUNT(*) AS n FROM "+q.s.DB().Queues()+" WHERE queue = ? AND paused <> 0")
		args = append(args, n, string(paused), of.Name)
	}
	err := Of(queues[0]).s.DB().SQL.Read(ctx, engine.Query{SQL: strings.Join(parts, " UNION ALL "), Args: args, Scan: engine.EachRow(func(row *sql.Rows) error {
		var status Status
		var queue int
		var n int64
		err := row.Scan(&queue, &status, &n)
		if err == nil {
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
