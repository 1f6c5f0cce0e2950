package queue

import (
	"context"
	"fmt"
	"strings"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/rules"
	"github.com/hipq/hipq/queue/job"
)

// Reshard divides the queue's jobs among its shards as the options say, while workers run: those whose options say otherwise start
// nothing of the queue any more, from now on. moved is how many waiting jobs it has moved. It may be repeated, and goes on where one
// that was interrupted stopped; so do the workers. ErrShards if another has divided the queue in another way meanwhile.
func (q *Queue) Reshard(ctx context.Context) (moved int, err error) {
	number, err := q.divisionOf(ctx, q.db)
	if err != nil {
		return 0, err
	}
	if number != 0 && number != q.division().Number() {
		if err := q.db.Tx(ctx, func(tx *engine.Tx) error { return q.divide(ctx, tx) }); err != nil {
			return 0, fmt.Errorf("divide %s: %w", q.Name, err)
		}
		q.known.Store(nil)
	}
	for more := true; more; {
		// another config's init would only move back what this one moves
		if number, err = q.divisionOf(ctx, q.db); err == nil && number != 0 && number != q.division().Number() {
			err = q.otherwiseDivided(number)
		}
		if err != nil {
			return moved, err
		}
		n, err := q.relocate(ctx, strings.TrimSuffix(misplacedOf, ")")+", 'scheduled')")
		if moved += n; err != nil {
			return moved, err
		}
		more = n == relocateMax
	}
	return moved, nil
}

// divide makes the new shards, with the limit and the rate divided among them, and moves what counts against these: the jobs that
// workers have. It takes the turns of all who could start others meanwhile.
func (q *Queue) divide(ctx context.Context, tx *engine.Tx) error {
	d := q.division()
	if err := tx.Write(ctx, "UPDATE "+q.db.Queues()+" SET division = ? WHERE queue = ?", d.Number(), q.Name); err != nil {
		return err
	}
	rows, err := q.lockShards(ctx, tx)
	if err != nil {
		return err
	}
	lately := rules.Starts{}
	for _, r := range rows {
		for at, n := range r.starts {
			lately[at] += n
		}
	}
	var running []*job.Job
	query := "SELECT id, job_type, job_key, shard_key FROM " + q.table + " " + q.claimIndex() + " WHERE status IN ('locked', 'running', 'answered', 'deciding', 'awaiting') " + q.db.ForUpdate
	// also in a queue that takes no turns, for it may be given a limit; and locked, for one that is settled meanwhile may get other
	// data, and be in another group
	if err := tx.Read(ctx, q.placing(query, nil, &running)); err != nil {
		return err
	}
	if err := q.move(ctx, tx, running, ""); err != nil {
		return err
	}
	made := make([]shardRow, d.N)
	for i := range made {
		made[i].shard, made[i].starts = i, rules.Starts{}
	}
	made[0].starts = lately
	return q.writeShards(ctx, tx, made)
}
