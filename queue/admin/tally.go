package admin

import (
	"context"
	"database/sql"
	"strings"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
)

// Tally is how many jobs a queue has by status, each up to TallyMost of it.
type Tally map[Status]int64

// paused counts 1 for a paused queue.
const paused Status = "paused"

// Paused reports whether the queue is paused.
func (t Tally) Paused() bool { return t[paused] > 0 }

// TallyMost is up to how many jobs of a status are counted, so that the cost doesn't depend on the queue's length. What
// somebody may have to mend is counted further.
func TallyMost(s Status) int64 {
	if s == Due || s == Failed {
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
	{Due, "wake_time <= {now} AND status = 'scheduled'", "wake"},
	{Scheduled, "status = 'scheduled'", ""},
	{Held, conditions[Held], ""},
	{Locked, conditions[Locked], ""},
	{Running, "status IN ('running', 'answered')", ""},
	{Waiting, conditions[Waiting], ""},
	{Error, conditions[Error], ""},
	{Failed, conditions[Failed], ""},
	{Closed, conditions[Closed], ""},
	{Finished, conditions[Finished], ""},
}

// Tallies counts the jobs of queues of one database in one query.
func Tallies(ctx context.Context, queues ...*queue.Queue) (all []Tally, err error) {
	var parts []string
	var args []any
	for n, of := range queues {
		q := Of(of)
		all = append(all, Tally{})
		for _, t := range tallied {
			hint := q.s.ClaimIndex()
			if t.index != "" {
				hint = q.s.Index(t.index)
			}
			where := strings.ReplaceAll(t.where, "{now}", "(SELECT "+q.s.DB().SQL.NowSQL+")")
			parts = append(parts, "SELECT ? AS queue, ? AS status, COUNT(*) AS n FROM (SELECT 1 FROM "+q.s.Table()+" "+hint+" WHERE "+where+" LIMIT ?) AS some")
			args = append(args, n, string(t.status), TallyMost(t.status))
		}
		parts = append(parts, "SELECT ? AS queue, ? AS status, COUNT(*) AS n FROM "+q.s.DB().Queues()+" WHERE queue = ? AND paused <> 0")
		args = append(args, n, string(paused), of.Name)
	}
	if len(queues) == 0 {
		return nil, nil
	}
	err = Of(queues[0]).s.DB().SQL.Read(ctx, engine.Query{SQL: strings.Join(parts, " UNION ALL "), Args: args, Scan: engine.EachRow(func(row *sql.Rows) error {
		var status Status
		var queue int
		var n int64
		err := row.Scan(&queue, &status, &n)
		if err == nil {
			all[queue][status] = min(all[queue][status]+n, TallyMost(status))
		}
		return err
	})})
	return all, texts.Wrap(err, "count the jobs")
}
