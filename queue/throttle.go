package queue

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// limited says whether the queue's jobs may be held back by what others weigh.
func (q *Queue) limited() bool { return q.ThrottleLimit > 0 || q.ThrottleGroups != nil }

// Rationed says whether a job that is locked takes something from the others before it starts: then a worker should lock
// no more than it can start.
func (q *Queue) Rationed() bool { return q.limited() || q.Rate.Starts > 0 }

// room is what the throttle limits leave.
type room struct {
	limit  int
	groups *job.ThrottleGroups
	// used is what the locked and running jobs weigh; usedBy the same by group.
	used   int
	usedBy map[string]int
	// full says that the next job in order waits for room, and so do all behind it; closed the same by group.
	full   bool
	closed map[string]bool
	// checked are the groups of which it is known whether jobs are held; surveyed says that all others hold none.
	checked  map[string]bool
	surveyed bool
	// ended says that the last of the groups that hold jobs back was among those looked at.
	ended bool
}

// room reads what counts against the queue's limits. It makes those who lock jobs of this queue take turns until they
// have committed, for a sum over rows says nothing of what another is about to lock.
func (q *Queue) room(ctx context.Context, tx *schema.Tx) (*room, error) {
	r := &room{limit: q.ThrottleLimit, groups: q.ThrottleGroups, closed: map[string]bool{}, checked: map[string]bool{}}
	if !q.limited() {
		return r, nil
	}
	res, err := tx.ExecContext(ctx, "UPDATE "+q.db.Queues()+" SET turn = turn + 1 WHERE queue = ?", q.Name)
	if err != nil {
		return nil, fmt.Errorf("wait for a turn: %w", err)
	}
	if err := mustHit(res, 1); err != nil {
		return nil, fmt.Errorf("wait for a turn: queue %s is not registered: %w", q.Name, err)
	}
	r.used, r.usedBy, err = q.used(ctx, tx)
	return r, err
}

// used is what the locked and running jobs weigh, all and by group. Those that are only being decided about don't count.
func (q *Queue) used(ctx context.Context, from sqlx.QueryerContext) (all int, byGroup map[string]int, err error) {
	var rows []struct {
		Group string `db:"throttle_group"`
		Used  int
	}
	query := "SELECT throttle_group, SUM(throttle_factor) AS used FROM " + q.table + " " + q.index("pick") +
		" WHERE line IN ('locked', 'waiting') AND state <> 'error' GROUP BY throttle_group"
	if err := sqlx.SelectContext(ctx, from, &rows, query); err != nil {
		return 0, nil, fmt.Errorf("sum up the throttle factors: %w", err)
	}
	byGroup = make(map[string]int, len(rows))
	for _, r := range rows {
		all += r.Used
		byGroup[r.Group] = r.Used
	}
	return all, byGroup, nil
}

// fit judges jobs one after the other, in their order. Weight 0 is neither counted nor held back; of the others the first
// that doesn't fit waits and none overtakes it, in its group or in all of the queue; one heavier than the whole limit goes
// alone.
func (r *room) fit(j candidate) job.Fit {
	switch {
	case j.ThrottleFactor == 0 || r.limit < 1 && r.groups == nil:
		return job.Fits
	case r.full:
		return job.Waits
	case r.limitOf(j.Group) > 0 && (r.closed[j.Group] || !job.Allows(r.limitOf(j.Group), r.usedBy[j.Group], j.ThrottleFactor)):
		r.closed[j.Group] = true
		return job.GroupFull
	case r.limit > 0 && !job.Allows(r.limit, r.used, j.ThrottleFactor):
		r.full = true
		return job.Waits
	}
	r.used += j.ThrottleFactor
	r.usedBy[j.Group] += j.ThrottleFactor
	return job.Fits
}

func (r *room) limitOf(group string) int {
	if r.groups == nil {
		return 0
	}
	return r.groups.Limit(group)
}
