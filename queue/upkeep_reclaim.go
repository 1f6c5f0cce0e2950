package queue

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/rules"
	"github.com/hipq/hipq/queue/job"
)

// reclaimMax is how many jobs one transaction reclaims or decides about.
const reclaimMax = 500

// orphans are the jobs locked by workers that are no more. A worker is no more once its row says so, never because of
// what its clock says: whoever finds it dead writes that first, and from then on its renewals fail. Beside them are those whose
// worker lives and can't be made to end them in time, found by the same walk.
func (q *Queue) orphans() string {
	join, wanted := q.workers.Missing("j.worker_id")
	if q.db.Name == engine.MySQL.Name {
		wanted = "(" + wanted + " OR w.by_sql = 1 AND " + hanging + ")"
	}
	return q.table + " j " + q.pick() + " " + join + " WHERE j.line = 'locked' AND " + wanted
}

// reclaim takes jobs from dead workers: those that were running have failed, are suspects, and wait for the retry decision,
// as do those about which one was being taken. The token stays with them: it says which attempt it was. Those that were never started
// are due again, at no cost in attempts: of a program that locks jobs and starts them later, for a round starts what it
// locks. Before any of that, dead is called with each worker that is known to have been one: what a job's row says of its
// worker may be another instance's, written by a hand other than hipq's.
func (q *Queue) reclaim(ctx context.Context, dead func(workerID string), met *[]any) (more bool, err error) {
	var found []struct {
		ID       int64
		WorkerID string `db:"worker_id"`
		Host     *string
		PID      *string
		Heard    engine.Time
	}
	// without locks, for those would be on the workers' rows too
	join, missing := q.workers.Missing("j.worker_id")
	query := "SELECT j.id, j.worker_id, d.host, d.pid, d.heartbeat AS heard FROM " + q.table + " j " + q.pick() + " " + join +
		" " + q.workers.Known("j.worker_id") + " WHERE j.line = 'locked' AND " + missing + " LIMIT ?"
	if err := q.db.SelectContext(ctx, &found, query, reclaimMax); err != nil {
		return false, fmt.Errorf("find the jobs of dead workers in %s: %w", q.Name, err)
	}
	byWorker, lost, known, wish := map[string][]any{}, map[string]string{}, map[string]bool{}, map[string]string{}
	for _, f := range found {
		byWorker[f.WorkerID], *met = append(byWorker[f.WorkerID], f.ID), append(*met, f.ID)
		lost[f.WorkerID], wish[f.WorkerID] = "worker lost: "+f.WorkerID, job.LostWish(f.Heard.Time)
		if f.Host != nil && f.PID != nil {
			lost[f.WorkerID] += fmt.Sprintf(" (pid %s on %s)", *f.PID, *f.Host)
			known[f.WorkerID] = true
		}
	}
	reclaimed := 0
	for worker, ids := range byWorker {
		if dead != nil && known[worker] {
			dead(worker)
		}
		n, err := q.reclaimFrom(ctx, worker, lost[worker], wish[worker], ids)
		if err != nil {
			return false, fmt.Errorf("reclaim jobs of %s: %w", q.Name, err)
		}
		reclaimed += n
	}
	return reclaimed == reclaimMax, nil
}

// backInLine is the part of an update that gives back what was locked and not started: perhaps before its time. It takes
// the time of now twice.
const backInLine = "line = CASE WHEN scheduled_run_time > ? THEN 'later' ELSE 'due' END," +
	" wake_time = CASE WHEN scheduled_run_time > ? THEN scheduled_run_time ELSE NULL END"

// reclaimFrom takes these jobs from a dead worker, but for those that another transaction holds: a later look finds them.
func (q *Queue) reclaimFrom(ctx context.Context, worker, lost, wish string, ids []any) (reclaimed int, err error) {
	if err := rules.CheckTransition(job.Running, job.Error); err != nil {
		return 0, err
	}
	err = q.db.TxInParts(ctx, nil, func(tx *engine.Tx) error {
		free, err := q.lockedBy(ctx, tx, worker, ids)
		if reclaimed = len(free); err != nil || reclaimed == 0 {
			return err
		}
		where := " WHERE id IN " + engine.In(len(free))
		now := engine.At(tx.Now)
		err = tx.Write(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET "+backInLine+", worker_id = 'NONE'"+
			where+" AND state IN ('initial', 'retry')", append([]any{now, now}, free...)...)
		if err != nil {
			return err
		}
		err = tx.Write(ctx, "UPDATE "+q.table+" "+q.db.ByID+
			" SET state = 'error', line = 'error', error = ?, wish = ?, suspect = 1, update_time = ?, worker_id = 'NONE'"+
			where+" AND state = 'running'", append([]any{lost, wish, now}, free...)...)
		if err != nil {
			return err
		}
		return tx.Write(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET line = 'error', worker_id = 'NONE', answered = 0"+
			where+" AND state = 'error'", free...)
	})
	return reclaimed, err
}

// lockedBy locks those of the jobs that a worker still has. It compares what it reads, for what may be in the column that only
// a hand other than hipq's has written, MariaDB finds by no text.
func (q *Queue) lockedBy(ctx context.Context, tx *engine.Tx, worker string, ids []any) (free []any, err error) {
	var found []struct {
		ID       int64
		WorkerID string `db:"worker_id"`
	}
	query := "SELECT id, worker_id FROM " + q.table + " " + q.db.ByID + " WHERE line = 'locked' AND id IN " + engine.In(len(ids)) + " " + tx.SkipLocked
	if err := tx.SelectContext(ctx, &found, query, ids...); err != nil {
		return nil, err
	}
	for _, f := range found {
		if f.WorkerID == worker {
			free = append(free, f.ID)
		}
	}
	return free, nil
}
