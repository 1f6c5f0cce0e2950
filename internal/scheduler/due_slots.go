package scheduler

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/schedule"
)

// Queue is a queue to which jobs of schedules are added, as store.Queue does.
type Queue interface {
	EnqueueSlot(ctx context.Context, tx *engine.Tx, j job.Params, by string) (id int64, isNew bool, err error)
}

// tick is how long after a slot the first tick may come that knows a schedule: crontab has one a minute.
const tick = time.Minute

// Run does what a look has found: it makes new schedules known, has changed ones start over, and enqueues the jobs of slots
// that are due, into queues of these names. Each schedule has a transaction of its own, which moves the row's seen_until, on
// condition of its old value, and enqueues the jobs. So each slot has its job once, even if workers call Run at once, or a
// commit gets no answer. Run stops before a schedule when goesOn says no. jobs is how many it has enqueued; failed says, by
// name, why some schedules are due as before.
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
			failed[s.Name] = err
		} else {
			jobs += n
		}
	}
	return jobs, failed, nil
}

// Load writes the config's schedules to the table. A new one starts at ago before now; so does one whose slots have changed, but not
// before the last slot that was handled. It returns the rows by name, and the errors of those that failed. It may be repeated.
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

// put writes one schedule of the config. A new one, whose row is empty, starts at since. One whose slots have changed starts at since,
// or after the last slot that was handled; if the clock was set back far, it starts now.
func (t *Scheduler) put(ctx context.Context, tx *engine.Tx, s schedule.Schedule, r Row, since time.Time) error {
	to := r
	switch {
	case r.Name == "":
		_, err := tx.ExecContext(ctx, "INSERT INTO "+t.db.Schedules()+" (name, spec, queue, job_type, seen_until, next_slot)"+
			" VALUES (?, ?, ?, ?, ?, ?)", s.Name, SpecOf(s), s.Queue, s.Job.Type, engine.At(since), engine.At(nextOf(s, since)))
		if engine.IsDuplicate(err) {
			return nil // another worker has made it known
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

// take enqueues the jobs of the slots of a schedule that are due, if no other worker has done so since its row was read.
func (t *Scheduler) take(ctx context.Context, s schedule.Schedule, r Row, q Queue) (jobs int, err error) {
	err = t.db.SQL.TxInParts(ctx, nil, func(tx *engine.Tx) error {
		slots, until, left := s.Due(r.SeenUntil.Time, tx.Now)
		if until.IsZero() { // there is only the next one to be found
			until = r.SeenUntil.Time
		}
		jobs = 0
		ours, err := engine.Changed(tx.ExecContext(ctx, "UPDATE "+t.db.Schedules()+" SET seen_until = ?, next_slot = ?"+
			" WHERE name = ? AND seen_until = ? AND spec = ? AND paused = 0",
			engine.At(until), engine.At(nextOf(s, until)), s.Name, r.SeenUntil, r.Spec))
		if err != nil || !ours {
			return err // another's; or this one's own, whose commit was not answered
		}
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

// Of is the schedule and the slot that added a job, as the activity says; no name if it was no schedule.
func Of(added string) (name string, slot time.Time) {
	rest, is := strings.CutPrefix(added, "schedule ")
	name, at, cut := strings.Cut(rest, ", slot ")
	slot, err := time.Parse(time.RFC3339, at)
	if !is || !cut || err != nil {
		return "", time.Time{}
	}
	return name, slot
}
