package store

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hipq/hipq/internal/claim"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Poll says what there is to do in a queue.
type Poll struct {
	// Due: a job of the given types may be startable; never in a paused queue.
	Due bool
	// RoomMayCome: a job of the given types waits for a limit, and a job that runs may make room, or one that waits before it may start.
	RoomMayCome bool
	// Shards has Due for each shard. Free says that its share of the rate has room, as after a division.
	Shards, Free []bool
	// Overlooked: it is time to look for groups that have room but still hold jobs.
	Overlooked bool
	// Waking: a scheduled job is due, or an answer is overdue.
	Waking bool
	// New: plain SQL inserted a row to ingest.
	New bool
	// Misplaced: a job was placed under another division.
	Misplaced bool
	// Dividing: a shard has too small a share, and it is time to divide again.
	Dividing bool
	// Stuck: a dead worker still has jobs.
	Stuck bool
	// Undecided: a job of the given types, or of a type that has left every config, waits for its retry decision.
	Undecided bool
}

// Nothing says that there is nothing to do.
func (l Poll) Nothing() bool {
	return !l.Due && !l.RoomMayCome && !l.Overlooked && !l.Waking && !l.New && !l.Misplaced && !l.Dividing && !l.Stuck && !l.Undecided
}

// Poll finds out in one query, without locks, what there is to do. It fails with ErrShards if the division or
// the limits differ.
func (q *Queue) Poll(ctx context.Context, types Types) (l Poll, err error) {
	ofTypes, names := types.condition()
	anyOf, args := rescue{Queue: q}.decidedHere().condition() // of others, any worker of this config applies the policy
	pick := q.table + " " + q.ClaimIndex()
	misplaced := q.misplaced()
	former, known := q.undecidedOfFormer(types)
	locked := "0 AS locked, 0 AS stuck"
	searching := q.stuck.isDue()
	if searching {
		from, wanted, _ := q.stuckFrom("")
		locked = "COUNT(*) AS locked, COALESCE(SUM(" + wanted + "), 0) AS stuck FROM " + from
	}
	var paused bool
	there := queueRecord{Queue: q.Name}
	var lockedJobs, stuck, held, heldOfTypes, running int
	into := []any{&paused, &there.Division, &there.ThrottleLimit, &there.Settings, &l.Undecided, &l.Waking, &l.New, &l.Misplaced, &lockedJobs, &stuck, &held, &heldOfTypes, &running}
	args = slices.Concat(names, args, known)
	undecided := "EXISTS (SELECT 1 FROM " + q.table + " " + q.whereUndecided()
	query := "SELECT COALESCE(r.paused, 0) = 1, COALESCE(r.division, 0), COALESCE(r.throttle_limit, 0), COALESCE(r.settings, 'NONE')," +
		" " + undecided + ofTypes + ") OR " + undecided + anyOf + ") OR EXISTS (SELECT 1" + former + ")," +
		" EXISTS (SELECT 1 FROM " + q.table + " " + q.Index("wake") + " WHERE wake_time <= (SELECT " + q.db.SQL.NowSQL + "))," +
		" EXISTS (SELECT 1 FROM " + pick + " WHERE status = 'submitted')," +
		" EXISTS (SELECT 1 FROM " + pick + " WHERE " + misplacedOf + " AND " + misplaced[0] + ")" +
		" OR EXISTS (SELECT 1 FROM " + pick + " WHERE " + misplacedOf + " AND " + misplaced[1] + ")," +
		" locked, stuck, held, held_of_types, EXISTS (SELECT 1 FROM " + pick + " WHERE " + schema.Runs + ")"
	l.Shards, l.Free = make([]bool, q.Division().N), make([]bool, q.Division().N)
	for shard := range l.Shards {
		due, of := types.exist("SELECT 1 FROM " + pick + " WHERE status = 'available' AND" + q.inShard(shard) + " AND part IN ('NONE', 'free')")
		query += ", " + due +
			" OR EXISTS (SELECT 1 FROM " + pick + " WHERE status = 'throttled' AND" + q.inShard(shard) + " AND part = 'line')"
		into = append(into, &l.Shards[shard])
		args = append(args, of...)
	}
	some := fmt.Sprintf("(SELECT job_type FROM %s WHERE status = 'throttled' LIMIT %d) AS some", pick, heldMost)
	query += " FROM (SELECT " + locked + ") AS l, (SELECT COUNT(*) AS held, COALESCE(SUM(" + ofTypes + "), 0) AS held_of_types FROM " + some + ") AS h" +
		" LEFT JOIN " + q.db.Queues() + " AS r ON r.queue = ?"
	args = append(append(args, names...), q.Name)
	if err := q.db.SQL.QueryRowContext(ctx, query, args...).Scan(into...); err != nil {
		return Poll{}, fmt.Errorf("look at %s: %w", q.Name, err)
	}
	if l.Stuck = stuck > 0; searching && !l.Stuck {
		q.stuck.rest(restAfter(lockedJobs))
	}
	if agreed := q.agreed.Load(); agreed == nil || *agreed != there {
		if err := q.otherwise(there); err != nil {
			return Poll{}, fmt.Errorf("changed since this worker started: %w", err)
		}
		q.agreed.Store(&there)
	}
	for i := range l.Shards {
		l.Shards[i] = l.Shards[i] && !paused
		l.Due = l.Due || l.Shards[i]
	}
	waits := heldOfTypes > 0 || held == heldMost || l.Due && q.TakesTurns()
	l.RoomMayCome = waits && running > 0 && !paused
	l.Overlooked = held > 0 && q.overlooked.isDue()
	if q.isShared() && l.Due {
		room, err := q.shards().look(ctx, &l)
		if err != nil {
			return Poll{}, err
		}
		l.RoomMayCome = l.RoomMayCome || room
	}
	if waits && !l.RoomMayCome && !paused { // last, so that it sees who has taken the room since
		l.RoomMayCome, err = q.otherMayStart(ctx, ofTypes, names)
	}
	return l, err
}

// otherMayStart says whether a job in line is another worker's, who starts it as soon as it has room, or has started one since
// the caller's look.
func (q *Queue) otherMayStart(ctx context.Context, ofTypes string, args []any) (is bool, err error) {
	var now, asked engine.Time
	query := "SELECT " + q.db.SQL.TimeText(q.db.SQL.NowSQL) + ", " + q.db.SQL.TimeText("MAX(asked_time)") +
		", EXISTS (SELECT 1 FROM " + q.table + " " + q.ClaimIndex() + " WHERE " + schema.Runs + ") FROM " + q.table + " " + q.ClaimIndex() +
		" WHERE status = 'throttled' AND" + q.inShards() + " AND part = 'line' AND NOT (" + ofTypes + ")"
	err = q.db.SQL.Read(ctx, engine.Query{SQL: query, Args: args, Scan: engine.Row(&now, &asked, &is)})
	return is || now.Sub(asked.Time).Abs() < claim.AskLasts, texts.Wrap(err, "look at the line of %s", q.Name)
}

// heldMost is among how many held jobs a poll looks for its types. If all are others', it assumes that more follow.
const heldMost = 8

// pacer says when this process may do something again, whatever the host's clock does meanwhile.
type pacer struct{ next atomic.Pointer[time.Time] }

func (p *pacer) isDue() bool {
	next := p.next.Load()
	return next == nil || !time.Now().Before(*next)
}

func (p *pacer) rest(d time.Duration) { p.next.Store(new(time.Now().Add(d))) }

// restAfter is how long a search rests that has read so many rows: it reads some 200 a second.
func restAfter(rows int) time.Duration {
	return min(time.Duration(rows/100)*500*time.Millisecond, 20*time.Second)
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
		{l.Misplaced, func() (bool, error) { n, err := q.shards().moveMisplaced(ctx); return n == relocateMax, err }},
		{l.Dividing, func() (bool, error) { return false, q.shards().divideShares(ctx, nil) }},
		{l.Waking, func() (bool, error) {
			promoting, err := q.makeAvailable(ctx, job.StatusScheduled,
				q.Index("wake")+" WHERE wake_time <= (SELECT "+q.db.SQL.NowSQL+") AND status = 'scheduled' ORDER BY wake_time")
			l.Waking = !promoting // otherwise overdue answers follow the remaining scheduled jobs in the same index
			return promoting, err
		}},
		{l.Overlooked, func() (bool, error) { return q.letInOverlooked(ctx) }},
		{l.Undecided || l.Stuck || l.Waking, func() (bool, error) { return rescue{q, w, handled}.run(ctx, l, dead) }},
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
	args := append(engine.Args(running), workerID)
	err = q.db.SQL.SelectContext(ctx, &ids, "SELECT id FROM "+q.table+" "+q.db.SQL.ByID+
		" WHERE id IN "+engine.In(len(running))+" AND stopping = 1 AND worker_id = ?", args...)
	return ids, texts.Wrap(err, "find the jobs of %s to stop", q.Name)
}

// promoteMax bounds the jobs of one promotion, earliest first. Order holds among jobs promoted together.
const promoteMax = 10_000

// makeAvailable makes the first jobs that match a condition available. It skips rows that another transaction locks.
func (q *Queue) makeAvailable(ctx context.Context, from job.Status, where string) (more bool, err error) {
	var ids []any
	err = q.db.SQL.TxInParts(ctx, nil, func(tx *engine.Tx) (err error) {
		if ids, err = q.IDs(ctx, tx, "SELECT id FROM "+q.table+" "+where+" LIMIT ? "+tx.SkipLocked, promoteMax); err != nil {
			return err
		}
		for batch := range slices.Chunk(ids, 1000) {
			_, err := tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.SQL.ByID+" SET status = 'available', wake_time = NULL, asked_time = NULL WHERE status = ? AND id IN "+
				engine.In(len(batch)), slices.Concat([]any{from}, batch)...)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return len(ids) == promoteMax, texts.Wrap(err, "make %s jobs of %s available", from, q.Name)
}

// IDs reads a column of ids.
func (q *Queue) IDs(ctx context.Context, tx *engine.Tx, query string, args ...any) (ids []any, err error) {
	var found []int64
	err = tx.SelectContext(ctx, &found, query, args...)
	return engine.Args(found), err
}
