package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// walkMax bounds how many candidates one round looks at to find jobs whose groups have room.
const walkMax = 5000

// start locks and starts the next due jobs, as many as the slots, the limits and the rate allow. It postpones jobs whose
// windows have closed, holds jobs whose throttle groups are full, and rejects invalid rows.
func (q *Queue) start(ctx context.Context, tx *engine.Tx, r Round, first *firstRead, done *Done) error {
	room, err := q.takeTurn(ctx, tx, r.Worker.ID, r.Candidates.shard)
	if err != nil {
		return err
	}
	if !first.open && !room.open {
		r.Candidates.unread(first.due)
		return nil
	}
	slots := r.Slots
	if q.Rate.Starts > 0 {
		left, wait := q.StartsLeft(room, tx.Now)
		if room.rateShort = left < slots; left == 0 {
			if done.Wait = wait; room.Divided {
				done.Wait = min(wait, divideEvery) // the next division may free some earlier
			}
			return q.noteWaiting(ctx, tx, room, false)
		}
		slots = min(slots, left)
	}
	c := claim{q, tx, r, room}
	taken, more, err := c.take(ctx, first.due, slots)
	if err != nil {
		return err
	}
	done.More, done.Missed = done.More || more, room.missed && len(taken) == 0
	room.rateShort = room.rateShort && done.More
	starts := func(j *job.Job) bool { return j.ThrottleFactor > 0 || q.ThrottleLimit < 1 }
	if err := q.noteWaiting(ctx, tx, room, slices.ContainsFunc(taken, starts)); err != nil {
		return err
	}
	if done.Full = room.full; done.Full && len(taken) == 0 {
		if done.Full, err = q.mayGetRoom(ctx, tx, room); err != nil {
			return err
		}
	}
	if err := q.Reject(ctx, tx, r.Worker, room.flawed...); err != nil {
		return err
	}
	done.Started = taken
	return c.start(ctx, taken)
}

// claim is the part of a round that locks and starts jobs.
type claim struct {
	*Queue
	tx    *engine.Tx
	round Round
	room  *Room
}

// take locks up to n jobs that fit. due are candidates that are already locked. more says that others may be startable too.
func (c claim) take(ctx context.Context, due []candidate, n int) (taken []*job.Job, more bool, err error) {
	if err := c.addHeld(ctx, c.tx, c.round.Candidates, c.room, n); err != nil {
		return nil, false, err
	}
	stride := 1 // how many more candidates to look at if some can't be had
	if c.ThrottleGroups != nil {
		stride = 250 // it may have to pass many
	}
	began := time.Now()
	list := due              // already locked
	seen := map[int64]bool{} // a parallel round may have read them again, and a job that was read as due may be held since
	for walked, size := 0, n; ; size = max(n-len(taken), stride) {
		if walked > 0 || len(list) == 0 {
			// A settlement that waits for another transaction must not block the parallel round with the same candidates.
			if err := c.tx.Flush(ctx); err != nil {
				return nil, false, err
			}
			list, err = c.round.Candidates.next(ctx, c.tx, size, c.room, walked == 0)
			list = slices.DeleteFunc(list, func(one candidate) bool { return seen[one.ID] })
			if len(list) > 0 && err == nil {
				err = c.tx.Read(ctx, c.round.Candidates.lock(c.tx, list))
			}
			if err != nil {
				return nil, false, fmt.Errorf("lock due jobs: %w", err)
			}
		}
		fit, err := c.fitting(ctx, list, n-len(taken))
		if err != nil {
			return nil, false, err
		}
		taken = append(taken, fit...)
		for _, one := range list {
			seen[one.ID] = true
		}
		if walked += len(list); walked >= walkMax {
			return taken, true, nil
		}
		if len(taken) == n || len(list) == 0 {
			more := len(taken) == n && c.round.Candidates.more(c.room) || len(taken) == 0 && c.room.full && c.round.Candidates.mayHaveFree(began)
			return taken, c.room.unfinished || more, nil
		}
	}
}

// fitting returns up to n of the locked candidates, in order, that fit.
func (c claim) fitting(ctx context.Context, list []candidate, n int) (taken []*job.Job, err error) {
	var jobs, full []*job.Job
	for _, one := range list {
		if one.job != nil {
			jobs = append(jobs, one.job)
		}
	}
	if err := c.classify(ctx, c.tx, c.room, jobs); err != nil {
		return nil, err
	}
	var left []candidate
	for _, one := range list {
		j, waiting := one.job, false
		switch {
		case j == nil: // another transaction was faster, or holds it
			c.room.missed = true
		case j.Invalid != nil:
			c.room.flawed = append(c.room.flawed, j)
		case len(taken) == n:
			waiting = true
		case policy.Opening(j.Windows, c.Location, c.tx.Now).After(c.tx.Now):
			if err := c.postpone(ctx, c.tx, j); err != nil {
				return nil, err
			}
		default:
			c.room.full = c.room.full || len(c.room.heads) > 0 && c.room.heads[0].Compare(one.Position) < 0
			switch c.room.fit(j) {
			case fits:
				taken = append(taken, j)
			case waits:
				waiting = true
			case groupFull:
				if one.from.part != j.Group { // otherwise it is already held
					full = append(full, j)
				}
			}
		}
		if waiting {
			left = append(left, one)
		} else {
			c.room.passed(one.ID)
		}
		if one.from.once && one.from.cut && one.ID == one.from.last.ID { // parallel rounds share the other ranges
			c.room.closed[one.from.part] = true // what follows in its group is unknown to this round
		}
	}
	c.round.Candidates.unread(left)
	return taken, c.hold(ctx, c.tx, full)
}

// isOpen says whether the worker may start jobs in a queue without turns: the queue isn't paused or divided otherwise, and
// the worker isn't dead. It locks the queue's row until the round ends, so a pause returns when no such round runs. A queue
// without a row is open.
func (q *Queue) isOpen(worker string, into *bool) engine.Value {
	return engine.Value{
		SQL: q.workers.Working("?") + " AND COALESCE((SELECT paused = 0 AND division = ? FROM " + q.db.Queues() + " WHERE queue = ? " +
			q.db.SQL.ForShare + "), 1)",
		Args: []any{worker, q.Division().Number(), q.Name}, Into: into,
	}
}

// start sets locked jobs to running and counts their attempts.
func (c claim) start(ctx context.Context, jobs []*job.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	if c.ThrottleGroups != nil { // they were locked without their data
		if err := c.dataOf(ctx, c.tx, jobs, func(j *job.Job, data []byte) { j.Data = string(data) }); err != nil {
			return err
		}
	}
	now := engine.At(c.tx.Now)
	cleared := "" // all defaults for due jobs on their first attempt
	if slices.ContainsFunc(jobs, func(j *job.Job) bool { return j.Attempt > 0 || j.Status != job.StatusAvailable }) {
		cleared = " error = 'NONE', result = 'NONE', stopping = 0, wake_time = NULL,"
	}
	for _, j := range jobs {
		j.Status, j.Stopping = job.StatusRunning, false
		j.StartTime, j.UpdateTime, j.WakeTime = now.Time, now.Time, time.Time{}
		j.WorkerID, j.Token, j.AttemptToken = c.round.Worker.ID, c.round.Token, c.round.Token
		j.Attempt++
		*c.round.Tried = append(*c.round.Tried, j.ID)
	}
	size := len(jobs)
	if c.ThrottleGroups != nil {
		size = setGroupMax
	}
	for batch := range slices.Chunk(jobs, size) {
		group, groups := c.setGroup(batch)
		ids := Args(batch, func(j *job.Job) any { return j.ID })
		args := slices.Concat([]any{c.round.Worker.ID, c.round.Token, c.round.Token, now, now}, groups, ids)
		err := c.tx.Write(ctx, "UPDATE"+c.db.SQL.OrFail+" "+c.table+" "+c.db.SQL.ByID+" SET status = 'running',"+cleared+
			" attempt = attempt + 1, worker_id = ?, lock_token = ?, attempt_token = ?, start_time = ?, update_time = ?"+group+
			" WHERE id IN "+engine.In(len(batch)), args...)
		if err != nil {
			return fmt.Errorf("start jobs: %w", err)
		}
		err = c.logRows(ctx, c.tx, c.round.Worker, activity.Starting, activity.JobRows{IDs: ids, Wait: c.db.SQL.Milliseconds, Args: []any{now}})
		if err != nil {
			return err
		}
	}
	return c.countStarts(ctx, c.tx, c.room, len(jobs))
}

// postpone moves a due job to the next opening of its windows.
func (q *Queue) postpone(ctx context.Context, tx *engine.Tx, j *job.Job) error {
	opening := policy.Opening(j.Windows, q.Location, tx.Now)
	status, wake := policy.StatusAt(opening, tx.Now)
	err := tx.Write(ctx, "UPDATE "+q.table+" "+q.db.SQL.ByID+" SET status = ?, scheduled_run_time = ?, wake_time = ?, update_time = ? WHERE id = ?",
		status, engine.At(opening), engine.At(wake), engine.At(tx.Now), j.ID)
	if err != nil {
		return fmt.Errorf("postpone job %d to its window: %w", j.ID, err)
	}
	return nil
}

// startedUnder returns the jobs that a round started, if it was committed despite an error. A job that was answered
// meanwhile, before its handler began, ends as the answer says.
func (q *Queue) startedUnder(ctx context.Context, tx *engine.Tx, r Round) (started []*job.Job, err error) {
	locked, err := q.lockedUnder(ctx, tx, r)
	if err != nil {
		return nil, err
	}
	var entries []activity.Entry
	for _, j := range locked {
		if j.Status == job.StatusRunning {
			started = append(started, j)
			continue
		}
		some, err := rescue{q, tx, r.Worker, nil}.end(ctx, stuck{WorkerID: j.WorkerID, Gone: true}, j)
		if err != nil {
			return nil, fmt.Errorf("end job %d by its answer: %w", j.ID, err)
		}
		entries = append(entries, some...)
	}
	return started, q.logAs(ctx, tx, r.Worker, entries)
}

// lockedUnder returns the jobs that a round locked, if it was committed despite an error. That commit may still be under way,
// so the call waits for the rows that the round read.
func (q *Queue) lockedUnder(ctx context.Context, tx *engine.Tx, r Round) (locked []*job.Job, err error) {
	tried := *r.Tried
	if len(tried) == 0 {
		return nil, nil
	}
	in := " WHERE id IN " + engine.In(len(tried))
	if _, err := q.IDs(ctx, tx, "SELECT id FROM "+q.table+" "+q.db.SQL.ByID+in+" "+q.db.SQL.ForUpdate, tried...); err != nil {
		return nil, fmt.Errorf("wait for an earlier try of a round: %w", err)
	}
	rest := q.db.SQL.ByID + in + " AND " + schema.HasWorker + " AND worker_id = ? AND lock_token = ?"
	err = tx.Read(ctx, q.Jobs(AllColumns, rest, slices.Concat(tried, []any{r.Worker.ID, r.Token}), func(j *job.Job) { locked = append(locked, j) }))
	if err != nil {
		return nil, fmt.Errorf("find what a round has locked: %w", err)
	}
	return locked, nil
}
