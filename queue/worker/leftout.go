package worker

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hipq/hipq/queue"
)

// The worker leaves a queue out if its table is not that of this hipq, or if that or an index disappears. It starts no more of
// its jobs. It settles those that run if that can be; else they are lost. In the end its error says what it left out.

// leftOut says whether err means that a source's queue has lost its table, or has other shards, and leaves the queue out if so.
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
		s.failing, s.undecided = false, nil
		for _, r := range slices.Clone(s.rounds) {
			if !r.isOut && r.Slots > 0 {
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
