package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/scheduler"
	"github.com/hipq/hipq/schema"
)

// schedules sees to the slots of the schedules that are due, beside the loop: what holds a schedule up holds up no job.
type schedules struct {
	*loop
	scheduler *scheduler.Scheduler
	// at is when to look at the schedules again, busy says that a task does so, and err is why the last one failed.
	at   time.Time
	busy bool
	err  error
}

// tendEvery is how often the schedules are looked at, at least: somebody may have resumed one.
const tendEvery = 10 * time.Second

// run sees to the slots that are due.
func (s *schedules) run() {
	if s.busy || len(s.Schedules) == 0 || time.Now().Before(s.at) {
		return
	}
	s.busy = true
	queues := map[string]scheduler.Queue{}
	for _, q := range s.Queues {
		queues[q.Name] = q.store()
	}
	s.task(func() func() error {
		var jobs int
		var failed map[string]error
		wait, err := s.scheduler.Wait(s.work)
		if err == nil && wait == 0 {
			jobs, failed, err = s.scheduler.Run(s.work, queues, s.accepting)
		}
		return func() error {
			s.busy = false
			s.at = time.Now().Add(min(max(wait, pollEvery), tendEvery))
			if jobs > 0 {
				s.changedAt = time.Now()
			}
			s.err = err
			for _, one := range s.Schedules {
				if err := failed[one.Name]; err != nil && !s.db.Lacks(err, one.Queue) { // which is said of the queue
					s.err = errors.Join(s.err, fmt.Errorf("schedule %s: %w", one.Name, err))
				}
			}
			if s.work.Err() != nil { // the worker has ended that
				s.err = nil
			}
			if kind, _ := schema.Diagnose(err); kind == schema.TryLater {
				return s.trouble(err) // which says so
			}
			if s.err != nil {
				s.Log.Warn("the jobs of schedules could not be enqueued", "error", s.err)
			}
			return nil
		}
	})
}

// failure is the error of the last attempt to enqueue due slots, if it is permanent; the slots are still due.
func (s *schedules) failure() error {
	if kind, _ := schema.Diagnose(s.err); kind == schema.TryLater {
		return nil
	}
	return s.err
}
