package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
)

// passedBy is how long workers pass a job type by until it is said that none of them has a handler for it.
const passedBy = time.Hour

// Unhandled gives the job types that no worker seems to have a handler for, misspelt ones perhaps, and since when the first of
// their jobs has been due: for an hour, while workers have run, and none of the type is running, nor was started in that hour.
// What handlers there are is in the workers' configs, which nobody knows; handled are the types of the one that asks, which are
// left out. c is what Counts has just counted, lastSeen the last heartbeat of the latest worker, zero if there was none.
//
// Where there may be such types it reads all due jobs, in the index, and the activity of an hour.
func (q *Queue) Unhandled(ctx context.Context, c Counts, lastSeen time.Time, handled []string) (map[string]time.Time, error) {
	if c.Paused || c.OldestDue.IsZero() || lastSeen.Sub(c.OldestDue) < passedBy {
		return nil, nil
	}
	var due []struct {
		Type  string `db:"job_type"`
		Since engine.Time
	}
	err := q.db.SelectContext(ctx, &due, "SELECT job_type, "+q.db.TimeText("MIN(scheduled_run_time)")+" AS since FROM "+q.table+" "+q.claimIndex()+" WHERE status = 'available' GROUP BY "+q.db.TypesOfClaim)
	if err != nil {
		return nil, fmt.Errorf("find the oldest due jobs of %s: %w", q.Name, err)
	}
	oldest := map[string]time.Time{}
	for _, d := range due { // there may be one of each part
		if first, ok := oldest[d.Type]; !ok || d.Since.Before(first) {
			oldest[d.Type] = d.Since.Time
		}
	}
	unhandled := map[string]time.Time{}
	for name, since := range oldest {
		if slices.Contains(handled, name) || lastSeen.Sub(since) < passedBy {
			continue
		}
		passed, err := q.isPassedBy(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("find out whether job type %s of %s is handled: %w", name, q.Name, err)
		}
		if passed {
			unhandled[name] = since
		}
	}
	return unhandled, nil
}

// isPassedBy says whether no job of a type is running, nor was started for a while.
func (q *Queue) isPassedBy(ctx context.Context, jobType string) (bool, error) {
	var running bool
	err := q.db.GetContext(ctx, &running, "SELECT EXISTS (SELECT 1 FROM "+q.table+" "+q.claimIndex()+
		" WHERE status IN ('locked', 'running', 'answered', 'deciding', 'awaiting') AND part IN ('NONE', 'stop') AND job_type = ?)", jobType)
	if err != nil || running {
		return false, err
	}
	now, err := q.db.Clock(ctx)
	if err != nil {
		return false, err
	}
	var started bool
	err = q.db.GetContext(ctx, &started, "SELECT EXISTS (SELECT 1 FROM "+q.db.Activity()+
		" WHERE at >= ? AND queue = ? AND job_type = ? AND kind = 'job' AND state = 'starting')", engine.At(now.Add(-passedBy)), q.Name, jobType)
	return !started, err
}
