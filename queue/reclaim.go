package queue

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/schema"
)

// reclaimMax is how many jobs one transaction reclaims or decides about.
const reclaimMax = 500

// orphans are the jobs locked by workers that are no more. A worker is no more once its row says so, never because of
// what its clock says: whoever finds it dead writes that first, and from then on its renewals fail.
func (q *Queue) orphans() string {
	return q.table + " j " + q.index("pick") + " LEFT JOIN " + q.db.Workers() + " w " + q.db.ByKey + " ON w.id = j.worker_id AND w.state = 'working'" +
		" WHERE j.line = 'locked' AND w.id IS NULL"
}

// reclaim takes jobs from dead workers: those that were never started go back to the line, at no cost in attempts;
// those that were running have failed, and wait for the retry decision. The token stays with them: it says which
// attempt it was.
func (q *Queue) reclaim(ctx context.Context) (more bool, err error) {
	var found []struct {
		ID       int64
		WorkerID string `db:"worker_id"`
		Host     *string
		PID      *int
	}
	// without locks, for those would be on the workers' rows too
	query := "SELECT j.id, j.worker_id, d.host, d.pid FROM " + q.table + " j " + q.index("pick") +
		" LEFT JOIN " + q.db.Workers() + " w " + q.db.ByKey + " ON w.id = j.worker_id AND w.state = 'working'" +
		" LEFT JOIN " + q.db.Workers() + " d " + q.db.ByKey + " ON d.id = j.worker_id" +
		" WHERE j.line = 'locked' AND w.id IS NULL LIMIT ?"
	if err := q.db.SelectContext(ctx, &found, query, reclaimMax); err != nil {
		return false, fmt.Errorf("find the jobs of dead workers in %s: %w", q.Name, err)
	}
	byWorker, lost := map[string][]any{}, map[string]string{}
	for _, f := range found {
		byWorker[f.WorkerID] = append(byWorker[f.WorkerID], f.ID)
		lost[f.WorkerID] = "worker lost: " + f.WorkerID
		if f.Host != nil && f.PID != nil {
			lost[f.WorkerID] += fmt.Sprintf(" (pid %d on %s)", *f.PID, *f.Host)
		}
	}
	for worker, ids := range byWorker {
		if err := q.reclaimFrom(ctx, worker, lost[worker], ids); err != nil {
			return false, fmt.Errorf("reclaim jobs of %s: %w", q.Name, err)
		}
	}
	return len(found) == reclaimMax, nil
}

func (q *Queue) reclaimFrom(ctx context.Context, worker, lost string, ids []any) error {
	if err := CheckTransition(Running, Error); err != nil {
		return err
	}
	return q.db.Tx(ctx, func(tx *schema.Tx) error {
		where := " WHERE line = 'locked' AND worker_id = ? AND id IN " + schema.In(len(ids))
		_, err := tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET line = 'due', worker_id = 'NONE'"+
			where+" AND state IN ('initial', 'retry')", append([]any{worker}, ids...)...)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.ByID+
			" SET state = 'error', line = 'error', error = ?, update_time = ?, worker_id = 'NONE'"+
			where+" AND state = 'running'", append([]any{lost, schema.At(tx.Now), worker}, ids...)...)
		return err
	})
}

// decide takes the retry decision for jobs of these types that wait for it, under the lock of the transaction.
func (q *Queue) decide(ctx context.Context, w Worker, types []string) (more bool, err error) {
	for _, name := range types {
		n := 0
		err := q.db.Tx(ctx, func(tx *schema.Tx) (err error) {
			n, err = q.decideType(ctx, tx, w, name)
			return err
		})
		if err != nil {
			return false, fmt.Errorf("decide about failed jobs of %s: %w", q.Name, err)
		}
		more = more || n == reclaimMax
	}
	return more, nil
}

func (q *Queue) decideType(ctx context.Context, tx *schema.Tx, w Worker, name string) (int, error) {
	var records []record
	query := "SELECT " + recordColumns + " FROM " + q.table + " " + q.index("pick") +
		" WHERE line = 'error' AND job_type = ? LIMIT ? " + q.db.SkipLocked
	if err := tx.SelectContext(ctx, &records, query, name, reclaimMax); err != nil {
		return 0, err
	}
	for _, r := range records {
		job, err := r.job(q.Name)
		if err != nil {
			return 0, err
		}
		o := Outcome{Verdict: TryAgain, Error: job.Error, Ran: tx.Now.Sub(job.StartTime)}
		next, entry, err := q.judge(job, o, tx.Now)
		if err != nil {
			return 0, err
		}
		_, err = tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.ByID+
			" SET state = ?, line = ?, scheduled_run_time = ?, wake_time = ?, update_time = ? WHERE id = ? AND state = 'error'",
			next.state, next.line, schema.At(next.scheduled), next.wake, schema.At(tx.Now), job.ID)
		if err != nil {
			return 0, err
		}
		entry.WorkerID, entry.Host, entry.PID = w.ID, w.Host, w.PID
		if err := q.log.Record(ctx, tx, []activity.Entry{entry}); err != nil {
			return 0, err
		}
	}
	return len(records), nil
}
