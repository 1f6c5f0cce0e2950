package admin

import (
	"context"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
)

// Pause stops workers from starting jobs of the queue. What runs goes on, and jobs may be enqueued. It registers the queue if
// nothing else has, and may be repeated.
func (q *Queue) Pause(ctx context.Context) error { return q.pause(ctx, true) }

// Resume lets workers start jobs of the queue again. It may be repeated.
func (q *Queue) Resume(ctx context.Context) error { return q.pause(ctx, false) }

func (q *Queue) pause(ctx context.Context, paused bool) error {
	number, err := q.s.DivisionOf(ctx, q.s.DB().SQL)
	if err == nil && number == 0 {
		err = q.s.Register(ctx)
	}
	if err == nil {
		err = q.s.DB().SQL.Tx(ctx, func(tx *engine.Tx) error {
			if err := tx.Write(ctx, "UPDATE "+q.s.DB().Queues()+" SET paused = ? WHERE queue = ?", paused, q.s.Name); err != nil || !paused {
				return err
			}
			// a round that has its turn and hasn't seen this is over first
			return q.s.TakeAllTurns(ctx, tx)
		})
	}
	return texts.Wrap(err, "pause or resume %s", q.s.Name)
}

// Paused says whether the queue is paused.
func (q *Queue) Paused(ctx context.Context) (paused bool, err error) {
	err = q.s.DB().SQL.GetContext(ctx, &paused, "SELECT "+q.s.PausedExpr(), q.s.Name)
	return paused, texts.Wrap(err, "find out whether %s is paused", q.s.Name)
}
