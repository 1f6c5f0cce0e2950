package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
)

// Poll says what there is to do in a queue.
type Poll struct {
	// Due: a job of the given types is startable; never in a paused queue.
	Due bool
	// Held: held jobs wait for room in their groups.
	Held bool
	// Shards has Due and Held for each shard.
	Shards []startable
	// Waking: a scheduled job is due, or an answer is overdue.
	Waking bool
	// New: plain SQL inserted a row to ingest.
	New bool
	// Misplaced: a job was placed under another division.
	Misplaced bool
	// Dividing: a shard has too small a share, and the last division is over a second old.
	Dividing bool
	// Stuck: a dead worker still has jobs.
	Stuck bool
	// Undecided: a job of the given types waits for its retry decision.
	Undecided bool
}

// Nothing says that there is nothing to do.
func (l Poll) Nothing() bool {
	return !l.Due && !l.Held && !l.Waking && !l.New && !l.Misplaced && !l.Dividing && !l.Stuck && !l.Undecided
}

type startable struct {
	Due, Held bool
}

// Poll finds out in one query, without locks, what there is to do. It fails with ErrShards if the division differs.
func (q *Queue) Poll(ctx context.Context, types []string) (l Poll, err error) {
	names := []any{""} // no type has this name
	if len(types) > 0 {
		names = Args(types, func(t string) any { return t })
	}
	undecided := slices.Clone(names)
	for t, c := range q.configured { // also of types that no worker here handles: see rescue
		if !c.RetryHandler && !slices.Contains(types, t) {
			undecided = append(undecided, t)
		}
	}
	pick := q.table + " " + q.ClaimIndex()
	misplaced := q.misplaced()
	orphans, _ := q.stuckFrom("")
	var paused bool
	var number sql.NullInt64
	into := []any{&paused, &number, &l.Undecided, &l.Waking, &l.New, &l.Misplaced, &l.Stuck}
	args := append([]any{q.Name, q.Name}, undecided...)
	query := "SELECT " + q.PausedExpr() + ", (SELECT division FROM " + q.db.Queues() + " WHERE queue = ?)," +
		" EXISTS (SELECT 1 FROM " + pick + " WHERE status = 'undecided' AND" + q.inShards() + " AND part = 'NONE' AND job_type IN " + engine.In(len(undecided)) + ")," +
		" EXISTS (SELECT 1 FROM " + q.table + " " + q.Index("wake") + " WHERE wake_time <= (SELECT " + q.db.SQL.NowSQL + "))," +
		" EXISTS (SELECT 1 FROM " + pick + " WHERE status = 'submitted')," +
		" EXISTS (SELECT 1 FROM " + pick + " WHERE " + misplacedOf + " AND " + misplaced[0] + ")" +
		" OR EXISTS (SELECT 1 FROM " + pick + " WHERE " + misplacedOf + " AND " + misplaced[1] + ")," +
		" EXISTS (SELECT 1 FROM " + orphans + ")"
	l.Shards = make([]startable, q.Division().N)
	for shard := range l.Shards {
		s := &l.Shards[shard]
		query += ", EXISTS (SELECT 1 FROM " + pick + " WHERE status = 'available' AND" + q.inShard(shard) + " AND part IN ('NONE', 'free') AND job_type IN " + engine.In(len(names)) + ")," +
			" EXISTS (SELECT 1 FROM " + pick + " WHERE status = 'throttled' AND" + q.inShard(shard) + ")"
		into = append(into, &s.Due, &s.Held)
		args = append(args, names...)
	}
	if err := q.db.SQL.QueryRowContext(ctx, query, args...).Scan(into...); err != nil {
		return Poll{}, fmt.Errorf("look at %s: %w", q.Name, err)
	}
	if err := q.OtherwiseDivided(int(number.Int64)); err != nil {
		return Poll{}, err
	}
	for i := range l.Shards {
		s := &l.Shards[i]
		if paused {
			*s = startable{}
		}
		l.Due, l.Held = l.Due || s.Due, l.Held || s.Held
	}
	if q.isShared() && (l.Due || l.Held) {
		l.Dividing, err = q.isShort(ctx)
	}
	return l, err
}

// Upkeep does what a poll found, except for rounds: it ingests, divides limits among shards, promotes and rescues. Any number
// of workers may call it at once. It does a bounded part of each; more says that some may be left. handled maps the worker's
// types to whether they have a retry handler. If dead isn't nil, it is called with each dead worker before its jobs are
// rescued, perhaps repeatedly. A step that hits a lock timeout doesn't stop the others: the error is then
// engine.IsLockTimeout.
func (q *Queue) Upkeep(ctx context.Context, w workers.Worker, l Poll, handled map[string]bool, dead func(workerID string)) (more bool, err error) {
	var held error
	for _, step := range []struct {
		wanted bool
		do     func() (bool, error)
	}{
		{l.New, func() (bool, error) { return q.ingest(ctx, w) }},
		{l.Misplaced, func() (bool, error) { n, err := q.moveMisplaced(ctx); return n == relocateMax, err }},
		{l.Dividing, func() (bool, error) { return false, q.divideShares(ctx, nil) }},
		{l.Waking, func() (bool, error) {
			promoting, err := q.makeAvailable(ctx, job.StatusScheduled,
				q.Index("wake")+" WHERE wake_time <= (SELECT "+q.db.SQL.NowSQL+") AND status = 'scheduled' ORDER BY wake_time")
			l.Waking = !promoting // otherwise overdue answers follow the remaining scheduled jobs in the same index
			return promoting, err
		}},
		{l.Held && q.ThrottleGroups == nil, func() (bool, error) { // its groups were removed from the config
			return q.makeAvailable(ctx, job.StatusThrottled, q.ClaimIndex()+" WHERE status = 'throttled'")
		}},
		{l.Undecided || l.Stuck || l.Waking, func() (bool, error) { return q.rescue(ctx, w, l, handled, dead) }},
	} {
		if !step.wanted {
			continue
		}
		again, err := step.do()
		switch {
		case engine.IsLockTimeout(err):
			held = err
		case err != nil:
			return false, err
		}
		more = more || again
	}
	return more, held
}

// Stopping returns those of a worker's running jobs that it should stop, however the queue is divided by now.
func (q *Queue) Stopping(ctx context.Context, workerID string, running []int64) (ids []int64, err error) {
	args := append(Args(running, func(id int64) any { return id }), workerID)
	err = q.db.SQL.SelectContext(ctx, &ids, "SELECT id FROM "+q.table+" "+q.db.SQL.ByID+
		" WHERE id IN "+engine.In(len(running))+" AND stopping = 1 AND worker_id = ?", args...)
	if err != nil {
		return nil, fmt.Errorf("find the jobs of %s to stop: %w", q.Name, err)
	}
	return ids, nil
}
