package queue

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/rules"
	"github.com/hipq/hipq/queue/job"
)

// hanging is the condition for an attempt that is over its timeout, and by so much that its worker had time to say so
// itself. One about which an answer has come hangs too: its handler still counts against the limits. Of MariaDB and MySQL.
const hanging = "(j.state = 'running' OR j.state = 'error' AND j.answered = 1)" +
	" AND j.start_time + INTERVAL (j.timeout + 5) SECOND <= UTC_TIMESTAMP(6)"

// abandon ends the hanging attempts of workers that registered by the stored procedures: hipq work stops its own handlers, and
// can't stop any in another program. The jobs wait for the retry decision, and are no suspects, for no worker has died of them.
// What the handler says later is refused, for the job is its worker's no more.
func (q *Queue) abandon(ctx context.Context, met *[]any) (more bool, err error) {
	if err := rules.CheckTransition(job.Running, job.Error); err != nil {
		return false, err
	}
	// without locks, for those would be on the workers' rows too
	query := "SELECT j.id FROM " + q.table + " j " + q.pick() + " JOIN " + q.db.Workers() + " w " + q.db.ByKey + " ON w.id = j.worker_id" +
		" WHERE j.line = 'locked' AND w.by_sql = 1 AND " + hanging + " LIMIT ?"
	var ids []any
	var found []int64
	if err := q.db.SelectContext(ctx, &found, query, reclaimMax); err != nil {
		return false, fmt.Errorf("find the attempts in %s that are over their time: %w", q.Name, err)
	}
	for _, id := range found {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return false, nil
	}
	*met = ids
	err = q.db.TxInParts(ctx, nil, func(tx *engine.Tx) error {
		// whoever else has taken a job by now has begun a new attempt: it is not hanging
		var late []*job.Job
		query := "SELECT " + q.selected(bulky...) + " FROM " + q.table + " j " + q.db.ByID + " WHERE j.line = 'locked' AND " + hanging +
			" AND j.id IN " + engine.In(len(ids)) + " " + tx.SkipLocked
		if err := tx.Read(ctx, q.jobs(query, ids, func(j *job.Job) { late = append(late, j) })); err != nil {
			return err
		}
		for _, j := range late {
			// an answer has said why already, and what it wishes of a retry
			_, err := tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.ByID+
				" SET error = IF(state = 'running', ?, error), wish = IF(state = 'running', 'NONE', wish), result = 'NONE',"+
				" state = 'error', line = 'error', suspect = 0, answered = 0, worker_id = 'NONE', update_time = ?"+
				" WHERE id = ? AND line = 'locked'",
				rules.TimeoutError(j.Timeout), engine.At(tx.Now), j.ID)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("end attempts of %s that are over their time: %w", q.Name, err)
	}
	return len(found) == reclaimMax, nil
}
