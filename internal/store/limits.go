package store

import (
	"context"
	"time"

	"github.com/hipq/hipq/internal/claim"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

// limited says whether other jobs' weights may hold back the queue's jobs.
func (q *Queue) limited() bool { return q.ThrottleLimit > 0 || q.ThrottleGroups != nil }

// TakesTurns says whether starts in the queue take turns, because each leaves less for the others.
func (q *Queue) TakesTurns() bool { return q.limited() || q.Rate.Starts > 0 }

// TakeTurns waits until no other transaction has the turn of these shards, by their numbers in the table. The database goes
// through them in their order.
func (q *Queue) TakeTurns(ctx context.Context, tx *engine.Tx, shards ...int) error {
	args := append([]any{q.Name}, engine.Args(shards)...)
	err := tx.Write(ctx, "UPDATE "+q.db.Shards()+" SET turn = turn % 1000000000 + 1 WHERE queue = ? AND shard IN "+engine.In(len(shards)), args...)
	return texts.Wrap(err, "wait for a turn at %s", q.Name)
}

// LimitsOf returns the queue's limit and its rate, or a shard's shares of them, without what is in use of the limit.
func (q *Queue) LimitsOf(row ShardRow, shares bool) claim.Limits {
	l := claim.Limits{}
	if limit := q.ThrottleLimit; limit > 0 {
		l[claim.Queue] = &claim.Limit{Max: limit, Whole: limit}
		if shares {
			l[claim.Queue].Max, l[claim.Queue].Whole = row.Share, max(limit, row.Share) // a share of a limit that has just been raised
		}
	}
	if n := q.Rate.Starts; n > 0 {
		l[claim.Rate] = &claim.Limit{Max: n, Whole: n, Used: row.StartsLately(q.Rate)}
		if shares {
			l[claim.Rate].Max = row.RateShare
		}
	}
	return l
}

// LimitOf is the limit of a group; 0 means none.
func (q *Queue) LimitOf(group string) int {
	if q.ThrottleGroups == nil || group == job.None {
		return 0
	}
	return q.ThrottleGroups.Limit(group)
}

// RateWait is how long the queue's rate, or the shard's share of it, blocks the next start; 0 if it doesn't.
func (q *Queue) RateWait(row ShardRow, now time.Time) time.Duration {
	rate := q.Rate
	if rate.Starts < 1 {
		return 0
	}
	if q.isDivided() {
		rate.Starts = row.RateShare
	}
	_, wait := row.starts.Left(rate, now)
	return wait
}
