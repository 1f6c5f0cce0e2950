package queue

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/hipq/hipq/internal/engine"
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
	for n := relocateMax; n == relocateMax; moved += n {
		if n, err = q.relocate(ctx, strings.TrimSuffix(misplacedOf, ")")+", 'scheduled')"); err != nil {
			return moved, err
		}
	}
	// another config's init would only move back what this one moves
	if number, err = q.divisionOf(ctx, q.db); err == nil && number != 0 && number != q.division().Number() {
		err = q.otherwiseDivided(number)
	}
	return moved, err
}

// divide makes the new shards, and moves what counts against the limit and the rate: the jobs that workers have. It takes the turns
// of all who could start others meanwhile.
func (q *Queue) divide(ctx context.Context, tx *engine.Tx) error {
	if err := tx.Write(ctx, "UPDATE "+q.db.Queues()+" SET division = ? WHERE queue = ?", q.division().Number(), q.Name); err != nil {
		return err
	}
	if err := q.takeAllTurns(ctx, tx); err != nil {
		return err
	}
	// also in a queue that takes no turns, for it may be given a limit; and locked, for one that is settled meanwhile may get other
	// data, and be in another group
	if _, err := q.move(ctx, tx, "status IN ('locked', 'running', 'answered', 'deciding', 'awaiting')", math.MaxInt32, q.db.ForUpdate); err != nil {
		return err
	}
	return q.makeShards(ctx, tx)
}
