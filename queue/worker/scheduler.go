package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/timetable"
	"github.com/hipq/hipq/schema"
)

// scheduler sees to the slots of the schedules that are due, beside the loop: what holds a schedule up holds up no job.
type scheduler struct {
	*loop
	timetable *timetable.Timetable
	// at is when to look at the schedules again.
	at time.Time
	// err is what kept some from being seen to when it tried last, unless that passes: their slots are still due.
	err error
}

// tendEvery is how often the schedules are looked at, at least: somebody may have resumed one.
const tendEvery = 10 * time.Second

// anyDue says whether there are slots to see to. What stands in the way of that is met again where it keeps nothing else.
func (s *scheduler) anyDue(ctx context.Context) bool {
	look, err := s.timetable.Look(ctx)
	return look.Due || err != nil
}

// tend sees to the slots that are due.
func (s *scheduler) tend() {
	if len(s.Schedules) == 0 || time.Now().Before(s.at) {
		return
	}
	s.at = time.Now().Add(time.Hour) // until that has come back
	queues := map[string]timetable.Queue{}
	for _, q := range s.Queues {
		queues[q.Name] = q.Rounds()
	}
	s.task(func() func() error {
		var done timetable.Tended
		look, err := s.timetable.Look(s.work)
		if err == nil && look.Due {
			done, err = s.timetable.Tend(s.work, queues, s.accepting)
		}
		return func() error {
			s.at = time.Now().Add(min(max(look.Wait, lookEvery), tendEvery))
			s.changed = s.changed || done.Jobs > 0
			if kind, _ := schema.Diagnose(err); kind == schema.TryLater || s.work.Err() != nil {
				s.err = nil
				return s.trouble(err)
			}
			for _, one := range s.Schedules {
				if failed := done.Failed[one.Name]; failed != nil && !s.db.Lacks(failed, one.Queue) { // which is said of the queue
					err = errors.Join(err, fmt.Errorf("schedule %s: %w", one.Name, failed))
				}
			}
			if s.err = err; err != nil {
				s.Log.Warn("schedules could not be seen to", "error", err)
			}
			if kind, _ := schema.Diagnose(err); kind == schema.TryLater {
				s.err = nil
			}
			return nil
		}
	})
}
