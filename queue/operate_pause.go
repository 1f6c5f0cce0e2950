package queue

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/internal/engine"
)

// Pause holds off new starts in the queue, by whatever worker, or with false lets them go on. What runs goes on running,
// and jobs may be enqueued. It registers the queue if nobody has yet, and may be repeated.
func (q *Queue) Pause(ctx context.Context, paused bool) error {
	value := 0
	if paused {
		value = 1
	}
	var known bool
	err := q.db.GetContext(ctx, &known, "SELECT EXISTS (SELECT 1 FROM "+q.db.Queues()+" WHERE queue = ?)", q.Name)
	if err == nil && !known {
		err = q.Register(ctx)
	}
	if err != nil {
		return fmt.Errorf("pause or resume %s: %w", q.Name, err)
	}
	err = q.db.Tx(ctx, func(tx *engine.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE "+q.db.Queues()+" SET paused = ? WHERE queue = ?", value, q.Name)
		return err
	})
	if err != nil {
		return fmt.Errorf("pause or resume %s: %w", q.Name, err)
	}
	return nil
}

// isPaused is the condition that a queue's own row says so.
const isPaused = "paused = 1"

// paused is whether the queue is paused, as an expression; its parameter is the queue's name.
func (q *Queue) paused() string {
	return "EXISTS (SELECT 1 FROM " + q.db.Queues() + " WHERE queue = ? AND " + isPaused + ")"
}

// Paused says whether the queue is paused.
func (q *Queue) Paused(ctx context.Context) (paused bool, err error) {
	if err := q.db.GetContext(ctx, &paused, "SELECT "+q.paused(), q.Name); err != nil {
		return false, fmt.Errorf("find out whether %s is paused: %w", q.Name, err)
	}
	return paused, nil
}
