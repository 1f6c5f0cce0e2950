package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/schedule"
)

// Queue enqueues the jobs of schedules; store.Queue implements it.
type Queue interface {
	EnqueueSlot(ctx context.Context, tx *engine.Tx, j job.Params, by string) (id int64, isNew bool, err error)
}

// tick is how long after a slot the first tick with a new schedule may come: crontab has one a minute.
const tick = time.Minute

// ErrOverdue means that a slot waits longer than for the next ticks, for whatever reason: somebody has to know.
var ErrOverdue = errors.New("a slot has been due")

// Run stores new schedules, restarts changed ones, and enqueues the jobs of due slots into queues by name. Each schedule has
// its own transaction, which moves the row's seen_until if it is unchanged and enqueues the jobs. So each slot gets one
// job, even with concurrent workers or a commit without a reply. Run stops before a schedule when goesOn returns false. jobs
// counts the enqueued jobs. failed maps schedules that are still due to the errors.
func (t *Scheduler) Run(ctx context.Context, queues map[string]Queue, goesOn func() bool) (jobs int, failed map[string]error, err error) {
	rows, failed, err := t.Load(ctx, tick)
	if err != nil {
		return 0, nil, err
	}
	for _, s := range t.schedules {
		r := rows[s.Name]
		if !r.isOf(s) || !r.isDue() {
			continue
		}
		if !goesOn() {
			break
		}
		n, err := t.take(ctx, s, r, queues[s.Queue])
		if ctx.Err() != nil {
			return jobs, failed, err
		}
		if err != nil {
			if r.Overdue() >= OverdueFor {
				err = fmt.Errorf("%w since %s: %w", ErrOverdue, engine.Text(r.NextSlot.Time), err)
			}
			failed[s.Name] = err
		} else {
			jobs += n
		}
	}
	return jobs, failed, nil
}

// Load stores the config's schedules. A new one starts at ago before now. So does one with changed slots, but not before the
// last handled slot. It returns the rows and the errors of failed schedules, by name. It may be repeated.
func (t *Scheduler) Load(ctx context.Context, ago time.Duration) (rows map[string]Row, failed map[string]error, err error) {
	failed = map[string]error{}
	if rows, err = t.Rows(ctx); err != nil {
		return nil, nil, err
	}
	same := true
	for _, s := range t.schedules {
		r := rows[s.Name]
		if r.isOf(s) {
			continue
		}
		same = false
		if err := t.db.SQL.TxInParts(ctx, nil, func(tx *engine.Tx) error { return t.put(ctx, tx, s, r, tx.Now.Add(-ago)) }); err != nil {
			failed[s.Name] = err
		}
	}
	if !same {
		rows, err = t.Rows(ctx)
	}
	return rows, failed, err
}

// put stores one of the config's schedules. A new one, with an empty row, starts at since. One with changed slots starts at
// since or after the last handled slot, whichever is later. If the clock was set far back, it starts now.
func (t *Scheduler) put(ctx context.Context, tx *engine.Tx, s schedule.Schedule, r Row, since time.Time) error {
	to := r
	switch {
	case r.Name == "":
		_, err := tx.ExecContext(ctx, "INSERT INTO "+t.db.Schedules()+" (name, spec, queue, job_type, seen_until, next_slot)"+
			" VALUES (?, ?, ?, ?, ?, ?)", s.Name, SpecOf(s), s.Queue, s.Job.Type, engine.At(since), engine.At(nextOf(s, since)))
		if engine.IsDuplicate(err) {
			return nil // another worker has stored it
		}
		return err
	case r.isFarAhead():
		to.SeenUntil.Time = tx.Now
	case !hasSlotsOf(r.Spec, s):
		if since.After(r.SeenUntil.Time) {
			to.SeenUntil.Time = since
		}
		to.FormerSpec, to.AnewTime.Time, to.AnewCount = r.Spec, tx.Now, 1
		if r.AnewTime.After(tx.Now.Add(-anewWithin)) {
			to.AnewCount = r.AnewCount + 1
		}
	}
	if to.NextSlot.Time = nextOf(s, to.SeenUntil.Time); r.Paused {
		to.NextSlot.Time = time.Time{}
	}
	return tx.Write(ctx, "UPDATE "+t.db.Schedules()+" SET spec = ?, queue = ?, job_type = ?, seen_until = ?, next_slot = ?,"+
		" anew_time = ?, former_spec = ?, anew_count = ? WHERE name = ? AND spec = ? AND seen_until = ?",
		SpecOf(s), s.Queue, s.Job.Type, to.SeenUntil, to.NextSlot, to.AnewTime, to.FormerSpec, to.AnewCount, s.Name, r.Spec, r.SeenUntil)
}

// take enqueues the jobs of a schedule's due slots, unless another worker has done so since the row was read.
func (t *Scheduler) take(ctx context.Context, s schedule.Schedule, r Row, q Queue) (jobs int, err error) {
	err = t.db.SQL.TxInParts(ctx, nil, func(tx *engine.Tx) error {
		if !tx.MayBeDone { // the earlier try is undone
			jobs = 0
		}
		slots, until, left := s.Due(r.SeenUntil.Time, tx.Now)
		if until.IsZero() { // only the next slot has to be found
			until = r.SeenUntil.Time
		}
		ours, err := engine.Changed(tx.ExecContext(ctx, "UPDATE "+t.db.Schedules()+" SET seen_until = ?, next_slot = ?"+
			" WHERE name = ? AND seen_until = ? AND spec = ? AND paused = 0",
			engine.At(until), engine.At(nextOf(s, until)), s.Name, r.SeenUntil, r.Spec))
		if err != nil || !ours {
			return err // another worker's, or its own by a commit without a reply, whose jobs are counted
		}
		jobs = 0
		to := r
		for _, slot := range slots {
			added, isNew, err := q.EnqueueSlot(ctx, tx, s.JobOf(slot), fmt.Sprintf(by, s.Name, slot.Format(time.RFC3339)))
			if err != nil {
				return err
			}
			if isNew {
				jobs++
				to.LastSlot.Time, to.LastJobID, to.LastQueue, to.LastTime.Time = slot, added, s.Queue, tx.Now
			} else {
				left = schedule.LeftOut{Slot: slot, Why: fmt.Sprintf("job %d"+hasKey+"and was not final", added)}
			}
		}
		if !left.Slot.IsZero() {
			to.LeftSlot.Time, to.LeftWhy = left.Slot, left.Why
		}
		if to == r {
			return nil
		}
		return tx.Write(ctx, "UPDATE "+t.db.Schedules()+" SET left_slot = ?, left_why = ?, last_slot = ?, last_job_id = ?, last_queue = ?, last_time = ?"+
			" WHERE name = ?", to.LeftSlot, to.LeftWhy, to.LastSlot, to.LastJobID, to.LastQueue, to.LastTime, s.Name)
	})
	return jobs, err
}

const by = "schedule %s, slot %s"

// Of returns the schedule and the slot that added a job, according to the activity; an empty name if no schedule did.
func Of(added string) (name string, slot time.Time) {
	rest, is := strings.CutPrefix(added, "schedule ")
	name, at, cut := strings.Cut(rest, ", slot ")
	slot, err := time.Parse(time.RFC3339, at)
	if !is || !cut || err != nil {
		return "", time.Time{}
	}
	return name, slot
}
