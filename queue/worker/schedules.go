package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/timetable"
	"github.com/hipq/hipq/schema"
)

// tendEvery is how often the schedules are looked at, at least: somebody may have resumed one.
const tendEvery = 10 * time.Second

// anyDue says whether there are slots to see to. What stands in the way of that is met again where it keeps nothing else.
func (w *worker) anyDue(ctx context.Context) bool {
	look, err := w.timetable.Look(ctx)
	return look.Due || err != nil
}

// tend sees to the slots that are due, beside the loop: what holds a schedule up holds up no job.
func (w *worker) tend() {
	if w.tending || len(w.Schedules) == 0 || time.Now().Before(w.tendAt) {
		return
	}
	w.tending = true
	queues := map[string]timetable.Queue{}
	for _, q := range w.Queues {
		queues[q.Name] = q.Rounds()
	}
	w.task(func() func() error {
		var done timetable.Tended
		look, err := w.timetable.Look(w.work)
		if err == nil && look.Due {
			done, err = w.timetable.Tend(w.work, queues, w.accepts.Load)
		}
		return func() error {
			w.tending = false
			w.tendAt = time.Now().Add(min(max(look.Wait, lookEvery), tendEvery))
			w.changed = w.changed || done.Jobs > 0
			w.untended = err
			for _, s := range w.Schedules {
				if err := done.Failed[s.Name]; err != nil && !w.db.Lacks(err, s.Queue) { // which is said of the queue
					w.untended = errors.Join(w.untended, fmt.Errorf("schedule %s: %w", s.Name, err))
				}
			}
			if w.work.Err() != nil { // the worker has ended that
				w.untended = nil
			}
			if kind, _ := schema.Diagnose(err); kind == schema.TryLater {
				return w.trouble(err) // which says so
			}
			if w.untended != nil {
				w.Log.Warn("schedules could not be seen to", "error", w.untended)
			}
			return nil
		}
	})
}

// withUntended is the worker's error, and behind it what kept it from seeing to schedules when it tried last: but for what passes,
// for the slots are still due.
func (w *worker) withUntended(err error) error {
	if kind, _ := schema.Diagnose(w.untended); kind == schema.TryLater {
		return err
	}
	return errors.Join(err, w.untended)
}
