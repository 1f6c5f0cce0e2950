package worker

import (
	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/queue/job"
)

// askAbout asks the retry handlers about jobs that wait for it, in slots that are free: that may take as long as an attempt.
// If there may be more such jobs, and it still takes on any, it takes them. A worker that is told to stop leaves all to others.
func (d *dispatcher) askAbout(s *source) {
	accepting := d.accepting.Load()
	if d.stopped() {
		s.undecided, s.failing = nil, false
	}
	for len(s.undecided) > 0 && s.lane.free() > 0 {
		u := s.undecided[0]
		s.undecided = s.undecided[1:]
		s.began()
		go d.runner.ask(s, u)
	}
	if !accepting && len(s.undecided) > 0 && s.lane.free() < 1 && !s.lane.occupied() {
		s.undecided = nil // no slot will come for these: others decide when this worker is no more
	}
	if n := s.lane.free(); accepting && s.failing && n > 0 && d.untilAnswer() <= 0 {
		d.takeUndecided(s, n)
	}
}

// takeUndecided takes jobs about whose retry a handler is to decide, for n slots.
func (d *dispatcher) takeUndecided(s *source, n int) {
	s.failing = false
	d.reserve(s, n)
	r := rounds.New(d.self)
	if s.untaken != nil {
		r, s.untaken = *s.untaken, nil
	}
	r.Slots = n
	d.task(func() func() error {
		list, err := s.Rounds().Undecided(d.work, r, s.asked)
		return func() error {
			d.reserve(s, -n)
			if d.leftOut(s, err) {
				return nil
			}
			if s.failing = err != nil || len(list) >= n; err != nil {
				r.Again = true
				s.untaken = &r
			}
			for _, u := range list {
				if u.Asked = true; u.Outcome.Verdict == job.Stopped {
					s.ended = append(s.ended, u) // there is nothing to ask
				} else {
					s.undecided = append(s.undecided, u)
				}
			}
			return d.trouble(err)
		}
	})
}
