package queue

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
)

// passedBy is how long workers pass a job type by until it is said that none of them has a handler for it.
const passedBy = time.Hour

// Unhandled gives the job types that no worker seems to have a handler for, misspelt ones perhaps, and since when the first of
// their jobs has been due: for an hour, while workers have run, and none of the type is running, nor was started since that hour
// began. What handlers there are is in the workers' configs, which nobody knows; handled are the types of the one that asks, which
// are left out. c is what Counts has just counted, lastSeen the last heartbeat of the latest worker, zero if there was none.
//
// Where there may be such types it reads all due jobs, in the index, and the activity since.
func (q *Queue) Unhandled(ctx context.Context, c Counts, lastSeen time.Time, handled []string) (map[string]time.Time, error) {
	before := lastSeen.Add(-passedBy)
	if c.Paused || c.OldestDue.IsZero() || c.OldestDue.After(before) {
		return nil, nil
	}
	args := []any{engine.At(before)}
	for _, name := range handled {
		args = append(args, name)
	}
	from := " FROM " + q.table + " " + q.claimIndex()
	query := "SELECT job_type, " + q.db.TimeText("since") + " FROM (SELECT job_type, MIN(since) AS since" +
		" FROM (SELECT job_type, MIN(scheduled_run_time) AS since" + from + " WHERE status = 'available'" +
		" GROUP BY " + q.db.TypesOfClaim + ") AS parts GROUP BY job_type) AS due" +
		" WHERE since <= ?" + strings.Repeat(" AND job_type <> ?", len(handled)) +
		" AND NOT EXISTS (SELECT 1" + from + " WHERE status IN ('locked', 'running', 'answered', 'deciding', 'awaiting')" +
		" AND part IN ('NONE', 'stop') AND job_type = due.job_type)" +
		" AND NOT EXISTS (SELECT 1 FROM " + q.db.Activity() + " WHERE at >= ? AND queue = ? AND job_type = due.job_type" +
		" AND kind = 'job' AND state = 'starting')"
	args = append(args, engine.At(before), q.Name)
	unhandled := map[string]time.Time{}
	err := q.db.Read(ctx, engine.Query{SQL: query, Args: args, Scan: engine.EachRow(func(row *sql.Rows) error {
		var name string
		var since engine.Time
		err := row.Scan(&name, &since)
		unhandled[name] = since.Time
		return err
	})})
	if err != nil {
		return nil, fmt.Errorf("find the job types of %s that no worker handles: %w", q.Name, err)
	}
	return unhandled, nil
}
