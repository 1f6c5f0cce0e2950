package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/claim"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// walkMax bounds how many candidates one round looks at to find jobs whose groups have room; it reads groupsWalk at once.
const walkMax, groupsWalk = 5000, 250

// start is the part of a round that locks and starts jobs.
type start struct {
	*turn
	round Round
	// head is what the round has read of the candidates' ranges, for its first look at them.
	head *heads
	// missed says that another transaction was faster, or held a due job.
	missed bool
	// waits says that jobs of this worker's types wait for a limit other than the rate.
	waits bool
	// unasked says that some wait only for slots.
	unasked bool
	// ignored are other workers' types that hold nothing up, by group.
	ignored map[[2]string]bool
	invalid []*job.Job
	// held are the groups that still hold jobs, and whether one of them is in line.
	held map[string]bool
}

// startNext locks and starts the next due jobs, as many as the slots, the limits and the rate allow. It postpones jobs whose
// windows have closed, lines up jobs that wait for a limit, and rejects invalid rows.
func (q *Queue) startNext(ctx context.Context, tx *engine.Tx, r Round, first *firstRead, done *Done) error {
	turn, err := q.takeTurn(ctx, tx, r.Worker.ID, r.Candidates.shard)
	if err != nil {
		return err
	}
	if !first.open && !turn.open {
		r.Candidates.unread(first.due)
		return nil
	}
	c := &start{turn: turn, round: r, head: &first.head, ignored: map[[2]string]bool{}, held: map[string]bool{}}
	taken, more, err := c.take(ctx, first.due, r.Slots)
	if err != nil {
		return err
	}
	done.More, done.Missed = done.More || more, c.missed && len(taken) == 0
	isLimited := func(j *job.Job) bool { return j.ThrottleFactor > 0 || c.ThrottleLimit < 1 }
	if err := c.noteWaiting(ctx, slices.ContainsFunc(taken, isLimited)); err != nil {
		return err
	}
	if err := q.Reject(ctx, tx, r.Worker, c.invalid...); err != nil {
		return err
	}
	if err := q.letIn(ctx, tx, c.overlooked()); err != nil {
		return err
	}
	if done.Started, err = taken, c.begin(ctx, taken); err != nil {
		return err
	}
	if done.WaitsForLimit = c.waits; turn.Limits.OursWait(claim.Queue) && turn.row.awaiting > 0 && !turn.recounted {
		done.RateFor = recountAfter // by a new sum there may be room
	}
	if turn.Limits.OursWait(claim.Rate) {
		if done.RateFor = q.RateWait(turn.row, tx.Now); q.isDivided() {
			done.RateFor = min(done.RateFor, divideEvery) // the next division may free some earlier
		}
		done.WaitsForLimit = done.WaitsForLimit || done.RateFor == 0 // another worker's job is first
	}
	return nil
}

// take locks up to n jobs that may start, batch after batch of candidates, in order. due is the first batch, already locked.
// more says that others may start too.
func (c *start) take(ctx context.Context, due []candidate, n int) (taken []*job.Job, more bool, err error) {
	began, seen := time.Now(), map[int64]bool{} // a parallel round may have read them again, and what was due may be held since
	for batch, walked := due, 0; len(taken) < n && walked < walkMax; walked += len(batch) {
		if walked > 0 || len(batch) == 0 {
			if batch, err = c.nextLocked(ctx, n-len(taken), walked == 0, seen); err != nil {
				return nil, false, err
			}
		}
		if len(batch) == 0 { // that was the end of the line
			if len(taken) == 0 && c.round.Candidates.lookAgain(began, c.Limits.OursWait(claim.Queue)) {
				continue
			}
			return taken, c.round.Candidates.more(c.turn), nil
		}
		if batch, err = c.withHeld(ctx, batch, n-len(taken)); err != nil {
			return nil, false, err
		}
		some, err := c.decide(ctx, batch, n-len(taken))
		if err != nil {
			return nil, false, err
		}
		taken = append(taken, some...)
		for _, one := range batch {
			seen[one.ID] = true
		}
	}
	return taken, c.unasked || c.round.Candidates.more(c.turn), nil
}

// nextLocked locks the next candidates. Those that another transaction holds come without their jobs.
func (c *start) nextLocked(ctx context.Context, n int, first bool, seen map[int64]bool) ([]candidate, error) {
	// A settlement that waits for another transaction must not block the parallel round with the same candidates.
	if err := c.tx.Flush(ctx); err != nil {
		return nil, err
	}
	if c.ThrottleGroups != nil && !first { // it may have to pass many
		n = max(n, groupsWalk)
	}
	var head *heads
	if first {
		head = c.head
	}
	for {
		list, err := c.round.Candidates.next(ctx, c.tx, n, c.turn, head)
		if err != nil || len(list) == 0 {
			return nil, err
		}
		head = nil
		if list = slices.DeleteFunc(list, func(one candidate) bool { return seen[one.ID] }); len(list) > 0 {
			return list, texts.Wrap(c.tx.Read(ctx, c.round.Candidates.lock(c.tx, list)), "lock due jobs")
		}
	}
}

// isOpen is an SQL expression: a worker may start jobs, because it isn't dead, and the queue isn't paused or divided otherwise.
// Its parameters are the worker's id and the queue's name. A queue without a row is open. lock keeps the queue's row, if a turn
// doesn't, so that a pause returns when no round runs.
func (q *Queue) isOpen(lock string) string {
	return q.workers.Working("?") + fmt.Sprintf(" AND COALESCE((SELECT paused <> 1 AND division = %d FROM %s WHERE queue = ? %s), 1)",
		q.Division().Number(), q.db.Queues(), lock)
}

// begin sets locked jobs to running and counts their attempts.
func (c *start) begin(ctx context.Context, jobs []*job.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	if c.ThrottleGroups != nil { // they were locked without their data
		if err := c.dataOf(ctx, c.tx, jobs, func(j *job.Job, data []byte) { j.Data = string(data) }); err != nil {
			return err
		}
	}
	now := engine.At(c.tx.Now)
	if c.db.SQL.LocalLocks && !c.TakesTurns() { // a pause on another node writes this row too: see Pause
		if err := c.tx.Write(ctx, "UPDATE "+c.db.Workers()+" SET heartbeat = ? WHERE id = ?", now, c.round.Worker.ID); err != nil {
			return fmt.Errorf("start jobs: %w", err)
		}
	}
	cleared := "" // all defaults for due jobs on their first attempt
	if slices.ContainsFunc(jobs, func(j *job.Job) bool { return j.Attempt > 0 || j.Status != job.StatusAvailable }) {
		cleared = " error = 'NONE', result = 'NONE', stopping = 0, wake_time = NULL, asked_time = NULL,"
	}
	for _, j := range jobs {
		j.Status, j.Stopping = job.StatusRunning, false
		j.StartTime, j.UpdateTime, j.WakeTime, j.AskedTime = now.Time, now.Time, time.Time{}, time.Time{}
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
		ids := texts.Map(batch, func(j *job.Job) any { return j.ID })
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
	return c.countStarts(ctx, len(jobs))
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
		some, err := rescue{q, r.Worker, nil}.end(ctx, tx, stuck{WorkerID: j.WorkerID, Gone: true}, j)
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
	rest := q.db.SQL.ByID + " WHERE id IN " + engine.In(len(tried)) + " AND " + schema.HasWorker +
		" AND worker_id = ? AND lock_token = ? " + q.db.SQL.ForUpdate
	err = tx.Read(ctx, q.Jobs(AllColumns, rest, slices.Concat(tried, []any{r.Worker.ID, r.Token}), func(j *job.Job) { locked = append(locked, j) }))
	return locked, texts.Wrap(err, "find what a round has locked")
}

// StartNow locks and starts one waiting job. It ignores the job's time and windows, the order, and a pause, but not the
// limits or the rate. It fails with ErrStarted, ErrFinal, ErrNotFound, ErrNotIngested or ErrNoRoom, or with ErrLocked if a
// worker has the job. It may be repeated with the same round.
func (q *Queue) StartNow(ctx context.Context, r Round, id int64) (j *job.Job, err error) {
	try := func(tx *engine.Tx) (err error) {
		if j, err = q.Get(ctx, tx, id, q.db.SQL.ForUpdate); err != nil || j.Token == r.Token && j.Status == job.StatusRunning {
			return err
		}
		return q.startOne(ctx, tx, r, j)
	}
	if err = q.db.SQL.Tx(ctx, try); errors.Is(err, errShareFull) {
		if err = q.shards().divideShares(ctx, j); err == nil {
			err = q.db.SQL.Tx(ctx, try)
		}
	}
	return j, texts.Wrap(err, "start job %d of %s", id, q.Name)
}

// errShareFull is the ErrNoRoom of a job whose shard has too small a share: other shards may have some left.
var errShareFull = fmt.Errorf("%w: hipq why says what its shard holds", ErrNoRoom)

func (q *Queue) startOne(ctx context.Context, tx *engine.Tx, r Round, j *job.Job) error {
	switch {
	case j.Status.IsFinal():
		return ErrFinal
	case j.Invalid != nil:
		return j.Invalid
	case j.State() != job.Initial && j.State() != job.Retry:
		return ErrStarted
	case j.Status == job.StatusLocked:
		return ErrLocked
	case j.Status == job.StatusSubmitted:
		return ErrNotIngested
	}
	shard, ok := q.shardOf(j.Place)
	if !ok {
		return ErrNotIngested // a worker has yet to place it
	}
	turn, err := q.takeTurn(ctx, tx, r.Worker.ID, shard)
	if err != nil {
		return err
	}
	if q.TakesTurns() && turn.row.Place == 0 { // the shard's row is missing
		return cmp.Or(q.checkDivision(ctx, tx), ErrShards)
	}
	if err := q.classify(ctx, tx, []*job.Job{j}); err != nil {
		return err
	}
	if _, err := turn.lookAt(ctx, map[string]bool{j.Group: true}); err != nil {
		return err
	}
	if limit := turn.Limits[claim.Queue]; limit != nil && !limit.HasRoom(j.ThrottleFactor) && !turn.recounted {
		if err := turn.recount(ctx); err != nil {
			return err
		}
	}
	r.Candidates = q.Candidates(shard, []string{j.Type})
	c := &start{turn: turn, round: r}
	one := c.asClaimed(candidate{job: j})
	one.Opens, one.Held, one.InLine = time.Time{}, false, false // it waits for nothing but room
	switch d := turn.Limits.Decide([]claim.Job{one}, 1, tx.Now)[0]; {
	case d.Action == claim.Start:
	case d.Lacks == one.Group || !q.isDivided():
		return ErrNoRoom
	default:
		return errShareFull
	}
	j.Error, j.Result = job.None, job.None
	return c.begin(ctx, []*job.Job{j})
}

// TakeOver transfers a running attempt from the worker that began it under the token to another worker. It fails with
// ErrStarted if the first worker no longer has it. It may be repeated.
func (q *Queue) TakeOver(ctx context.Context, worker string, id int64, from, token string) (j *job.Job, err error) {
	err = q.db.SQL.Tx(ctx, func(tx *engine.Tx) (err error) {
		if j, err = q.Get(ctx, tx, id, q.db.SQL.ForUpdate); err != nil {
			return err
		}
		if j.Status != job.StatusRunning || j.Token != token || j.WorkerID != from && j.WorkerID != worker {
			return ErrStarted
		}
		j.WorkerID = worker
		return tx.Write(ctx, "UPDATE "+q.table+" "+q.db.SQL.ByID+" SET worker_id = ? WHERE id = ?", worker, id)
	})
	return j, texts.Wrap(err, "take over job %d of %s", id, q.Name)
}
