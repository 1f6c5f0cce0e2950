package worker

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hipq/hipq/queue"
)

// The worker leaves out a queue whose table doesn't fit, or loses its table or an index. It starts no more of its jobs,
// settles running ones if possible, and finally reports the queue in its error.

// leftOut says whether err means that the queue lost its table or has other shards, and then leaves it out.
func (d *dispatcher) leftOut(s *source, err error) bool {
	if err == nil || !d.db.Lacks(err, s.Name) && !errors.Is(err, queue.ErrShards) {
		return false
	}
	d.leaveOut(s.Name, err)
	return true
}

func (d *dispatcher) leaveOut(name string, err error) {
	for _, s := range d.sources {
		if s.Name != name {
			continue
		}
		if s.gone == nil {
			d.Log.Warn("a queue is left out", "queue", name, "error", err)
			s.gone = err
		}
		s.nothing()
		s.failing = false
		for _, r := range slices.Clone(s.rounds) {
			if !r.isOut && !r.Again && r.Slots > 0 {
				d.drop(s, r)
			}
		}
	}
}

func (l *loop) allLeftOut() bool {
	return !slices.ContainsFunc(l.sources, func(s *source) bool { return s.gone == nil })
}

func (l *loop) withLeftOut(err error) error {
	told := map[string]bool{}
	for _, s := range l.sources {
		if s.gone != nil && !told[s.Name] {
			told[s.Name] = true
			err = errors.Join(err, fmt.Errorf("queue %s is left out: %w", s.Name, s.gone))
		}
	}
	return err
}
