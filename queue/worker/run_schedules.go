package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/scheduler"
)

// schedules enqueues due slots beside the loop, so that a blocked schedule blocks no job.
type schedules struct {
	*loop
	scheduler *scheduler.Scheduler
	// at is when to look at the schedules again.
	at   time.Time
	busy bool
	err  error
}

// tendEvery is how often schedules are checked at least, because an operator may have resumed one.
const tendEvery = 10 * time.Second

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
				if err := failed[one.Name]; err != nil && !s.db.Lacks(err, one.Queue) { // the queue's own error covers the rest
					s.err = errors.Join(s.err, fmt.Errorf("schedule %s: %w", one.Name, err))
				}
			}
			if s.work.Err() != nil { // the worker ended the task
				s.err = nil
			}
			if passes(err) {
				return s.trouble(err) // trouble logs it
			}
			if s.err != nil {
				s.Log.Warn("the jobs of schedules could not be enqueued", "error", s.err)
			}
			return nil
		}
	})
}

// failure returns the error of the last attempt to enqueue due slots, if it is permanent, or if a slot has waited for long:
// an application's transaction may hold its key for ever. The slots are still due.
func (s *schedules) failure() error {
	if passes(s.err) && !errors.Is(s.err, scheduler.ErrOverdue) {
		return nil
	}
	return s.err
}
