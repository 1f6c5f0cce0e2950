package admin

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/texts"
)

// passedBy is for how long workers must have passed a job type by.
const passedBy = time.Hour

// Unhandled gives the job types that no worker seems to have a handler for, misspelt perhaps, and since when their first jobs
// have been due: for an hour in which workers ran, and none of these jobs. handled are types to leave out, which the asking
// config handles. c is what was just counted, lastSeen the last heartbeat of the latest worker, zero if there was none.
//
// If there may be such types, it reads all due jobs, in the index, and the activity since.
func (q *Queue) Unhandled(ctx context.Context, c Counts, lastSeen time.Time, handled []string) (map[string]time.Time, error) {
	before := lastSeen.Add(-passedBy)
	if c.Paused || c.OldestDue.IsZero() || c.OldestDue.After(before) {
		return nil, nil
	}
	from := " FROM " + q.s.Table() + " " + q.s.ClaimIndex()
	query := "SELECT job_type, " + q.s.DB().SQL.TimeText("since") + " FROM (SELECT job_type, MIN(since) AS since" +
		" FROM (SELECT job_type, MIN(scheduled_run_time) AS since" + from + " WHERE status = 'available'" +
		" GROUP BY " + q.s.DB().SQL.TypesOfClaim + ") AS parts GROUP BY job_type) AS due" +
		" WHERE since <= ?" + strings.Repeat(" AND job_type <> ?", len(handled)) +
		" AND NOT EXISTS (SELECT 1" + from + " WHERE status IN ('locked', 'running', 'answered', 'deciding', 'awaiting')" +
		" AND part IN ('NONE', 'stop') AND job_type = due.job_type)" +
		" AND NOT EXISTS (SELECT 1 FROM " + q.s.DB().Activity() + " WHERE at >= ? AND queue = ? AND job_type = due.job_type" +
		" AND kind = 'job' AND state = 'starting')"
	left := store.Args(handled, func(name string) any { return name })
	args := slices.Concat([]any{engine.At(before)}, left, []any{engine.At(before), q.s.Name})
	unhandled := map[string]time.Time{}
	err := q.s.DB().SQL.Read(ctx, engine.Query{SQL: query, Args: args, Scan: engine.EachRow(func(row *sql.Rows) error {
		var name string
		var since engine.Time
		err := row.Scan(&name, &since)
		unhandled[name] = since.Time
		return err
	})})
	return unhandled, texts.Wrap(err, "find the job types of %s that no worker handles", q.s.Name)
}
