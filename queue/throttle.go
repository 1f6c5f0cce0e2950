package queue

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/hipq/hipq/schema"
)

// room is what the throttle limit leaves.
type room struct {
	limit int
	// used is what the locked and running jobs weigh.
	used int
}

// throttle reads what counts against the queue's limit. It makes those who lock jobs of this queue take turns until
// they have committed, for a sum over rows says nothing of what another is about to lock.
func (q *Queue) throttle(ctx context.Context, tx *schema.Tx) (room, error) {
	if q.ThrottleLimit < 1 {
		return room{}, nil
	}
	res, err := tx.ExecContext(ctx, "UPDATE "+q.db.Queues()+" SET turn = turn + 1 WHERE queue = ?", q.Name)
	if err != nil {
		return room{}, fmt.Errorf("wait for a turn: %w", err)
	}
	if err := mustHit(res, 1); err != nil {
		return room{}, fmt.Errorf("wait for a turn: queue %s is not registered: %w", q.Name, err)
	}
	used, err := q.used(ctx, tx)
	return room{limit: q.ThrottleLimit, used: used}, err
}

// used is what the locked and running jobs weigh.
func (q *Queue) used(ctx context.Context, from sqlx.QueryerContext) (used int, err error) {
	query := "SELECT COALESCE(SUM(throttle_factor), 0) FROM " + q.table + " " + q.index("pick") + " WHERE line IN ('locked', 'waiting')"
	if err := sqlx.GetContext(ctx, from, &used, query); err != nil {
		return 0, fmt.Errorf("sum up the throttle factors: %w", err)
	}
	return used, nil
}

// fit gives those of the jobs, which are in order, that there is room for. Weight 0 is neither counted nor held back;
// of the others the first that doesn't fit waits and none overtakes it; one heavier than the whole limit goes alone.
func (r room) fit(jobs []candidate) []candidate {
	if r.limit < 1 {
		return jobs
	}
	var fitting []candidate
	full := false
	for _, j := range jobs {
		switch {
		case j.ThrottleFactor == 0:
		case full:
			continue
		case r.used == 0 || r.used+j.ThrottleFactor <= r.limit:
			r.used += j.ThrottleFactor
		default:
			full = true
			continue
		}
		fitting = append(fitting, j)
	}
	return fitting
}
