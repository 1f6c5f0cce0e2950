package queue

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// startsLately reads the starts that count against the queue's rate.
func (q *Queue) startsLately(ctx context.Context, from sqlx.QueryerContext, lock string) (job.Starts, error) {
	var text string
	if err := sqlx.GetContext(ctx, from, &text, "SELECT starts FROM "+q.db.Queues()+" WHERE queue = ? "+lock, q.Name); err != nil {
		return nil, fmt.Errorf("read the latest starts of %s: %w", q.Name, err)
	}
	s := job.Starts{}
	if text == job.None {
		return s, nil
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return nil, fmt.Errorf("read the latest starts of %s: %w", q.Name, err)
	}
	return s, nil
}

// ration gives how many of n jobs may be started now. Those who start jobs of a queue with a rate take turns from here
// until they have committed; what they started they tell by count. They start it when their turn has come, so that is their
// time from here: from an earlier one the rate would be over too soon.
func (q *Queue) ration(ctx context.Context, tx *schema.Tx, n int) (allowed int, err error) {
	if q.Rate.Starts < 1 || n == 0 {
		return n, nil
	}
	lately, err := q.startsLately(ctx, tx, q.db.ForUpdate)
	if err != nil {
		return 0, err
	}
	if err := q.db.SetClock(ctx, tx); err != nil {
		return 0, err
	}
	left, _ := q.Rate.Left(lately, tx.Now)
	return min(n, left), nil
}

// countStarts adds to the starts of a queue with a rate.
func (q *Queue) countStarts(ctx context.Context, tx *schema.Tx, n int) error {
	if q.Rate.Starts < 1 || n == 0 {
		return nil
	}
	lately, err := q.startsLately(ctx, tx, q.db.ForUpdate)
	if err != nil {
		return err
	}
	text, err := json.Marshal(q.Rate.Add(lately, n, tx.Now))
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE "+q.db.Queues()+" SET starts = ? WHERE queue = ?", string(text), q.Name); err != nil {
		return fmt.Errorf("count the starts of %s: %w", q.Name, err)
	}
	return nil
}
