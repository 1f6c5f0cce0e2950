package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/hipq/hipq/schema"
)

// Rate bounds how many jobs of a queue are started in any stretch of time, over all workers. The zero Rate doesn't.
type Rate struct {
	Starts int           `json:"starts"`
	Per    time.Duration `json:"per"`
}

// rateSlices is into how many parts a rate's time is cut to count in: starts are forgotten a part late at most.
const rateSlices = 60

// starts are the jobs started lately: how many, by the time of a slice in microseconds. They are in the queue's own row;
// a start can't be taken back, so unlike a count of running jobs this one can't leak.
type starts map[int64]int

func (r Rate) slice() time.Duration { return max(r.Per/rateSlices, time.Millisecond) }

// left is how many more may be started at now, and if none, how long until one may be.
func (r Rate) left(s starts, now time.Time) (left int, wait time.Duration) {
	left = r.Starts
	wait = r.Per + r.slice()
	for at, n := range s {
		over := time.UnixMicro(at).Add(r.slice() + r.Per)
		if over.After(now) {
			left -= n
			wait = min(wait, over.Sub(now))
		}
	}
	if left > 0 {
		return left, 0
	}
	return 0, wait
}

// add counts n starts and forgets those that don't matter any more.
func (r Rate) add(s starts, n int, now time.Time) starts {
	kept := starts{}
	for at, n := range s {
		if time.UnixMicro(at).Add(r.slice() + r.Per).After(now) {
			kept[at] = n
		}
	}
	kept[now.Truncate(r.slice()).UnixMicro()] += n
	return kept
}

// startsLately reads the starts that count against the queue's rate.
func (q *Queue) startsLately(ctx context.Context, from sqlx.QueryerContext, lock string) (starts, error) {
	var text string
	if err := sqlx.GetContext(ctx, from, &text, "SELECT starts FROM "+q.db.Queues()+" WHERE queue = ? "+lock, q.Name); err != nil {
		return nil, fmt.Errorf("read the latest starts of %s: %w", q.Name, err)
	}
	s := starts{}
	if text == None {
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
	left, _ := q.Rate.left(lately, tx.Now)
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
	text, err := json.Marshal(q.Rate.add(lately, n, tx.Now))
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE "+q.db.Queues()+" SET starts = ? WHERE queue = ?", string(text), q.Name); err != nil {
		return fmt.Errorf("count the starts of %s: %w", q.Name, err)
	}
	return nil
}
