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

// walkMax is how many candidates one round looks at, at most, on its way to jobs whose groups have room.
const walkMax = 5000

// start locks and starts the next due jobs: as many as there are slots, limits, and the rate have room for. Those whose
// windows have closed go to the next opening, those whose throttle groups are full are held back, and those whose rows can't
// be jobs are refused.
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
				done.Wait = min(wait, divideEvery) // the next division may give it more before that
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
	done.More = done.More || more
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

// take locks n jobs that there is room for, at most. due are candidates that are locked already. more says that there may be others.
func (c claim) take(ctx context.Context, due []candidate, n int) (taken []*job.Job, more bool, err error) {
	if err := c.addHeld(ctx, c.tx, c.round.Candidates, c.room, n); err != nil {
		return nil, false, err
	}
	stride := 1 // how many more candidates are looked at where some were not to be had
	if c.ThrottleGroups != nil {
		stride = 250 // it may have to pass many
	}
	list := due              // which are locked already
	seen := map[int64]bool{} // a round beside this one may have them read again; and a job may be held back once it was read as due
	for walked, size := 0, n; ; size = max(n-len(taken), stride) {
		if walked > 0 || len(list) == 0 {
			// a settlement that waits for another transaction must not hold up the round beside this one, which shares the candidates
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
			return taken, c.room.unfinished || len(taken) == n && c.round.Candidates.more(c.room), nil
		}
	}
}

// fitting gives those of the candidates that were locked and there is room for, n at most, in order.
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
		case j == nil: // another was faster, or holds it
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
				if one.from.part != j.Group { // else it is held already
					full = append(full, j)
				}
			}
		}
		if waiting {
			left = append(left, one)
		} else {
			c.room.passed(one.ID)
		}
		if one.from.once && one.from.cut && one.ID == one.from.last.ID { // the other ranges are shared with the rounds beside this one
			c.room.closed[one.from.part] = true // what comes behind it in its group isn't known to this round
		}
	}
	c.round.Candidates.unread(left)
	return taken, c.hold(ctx, c.tx, full)
}

// isOpen says whether a worker may start jobs where those who do take no turns: not in a paused queue, nor once it was declared dead.
// It holds the queue's row until the round is over: so a pause waits for that, and means now. A queue without a row is neither paused nor
// divided.
func (q *Queue) isOpen(worker string, into *bool) engine.Value {
	return engine.Value{
		SQL: q.workers.Working("?") + " AND COALESCE((SELECT paused = 0 AND division = ? FROM " + q.db.Queues() + " WHERE queue = ? " +
			q.db.SQL.ForShare + "), 1)",
		Args: []any{worker, q.Division().Number(), q.Name}, Into: into,
	}
}

// start moves locked jobs to running and counts their attempts.
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
	cleared := "" // of which a job that was never tried, and was due, has nothing
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

// postpone moves a due job to the opening of its windows.
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

// startedUnder gives the jobs that a round has started, if it was committed although it ended in an error. A job that was answered
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
			return nil, fmt.Errorf("end job %d as it was answered: %w", j.ID, err)
		}
		entries = append(entries, some...)
	}
	return started, q.logAs(ctx, tx, r.Worker, entries)
}

// lockedUnder gives the jobs that a round has locked, if it was committed although it ended in an error. That commit may
// still be under way: so it waits for the rows that the round had read.
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
