package store_test

import (
	"testing"
	"time"

	"github.com/hipq/hipq/queue/job"
)

// besideBusy has shard 1 settle and start short jobs, while shard 0 tries to start one, until it has: a shard that is in line for the
// others' room gets it, whatever runs on in it.
func (s env) besideBusy(running []*job.Job) {
	s.t.Helper()
	for until := time.Now().Add(20 * time.Second); len(s.in(0, 1).Started) == 0; {
		if time.Now().After(until) {
			s.t.Fatalf("shard 0 has started nothing: %+v", s.sums())
		}
		var ended []*job.Job
		if len(running) > 0 {
			ended, running = running[:1], running[1:]
		}
		running = append(running, s.in(1, 9, ended...).Started...)
		s.divided()
	}
}

// A job that runs for days holds up no other of its shard while there are others whose shards' jobs end.
func TestBesideALongJob(t *testing.T) {
	suiteWith(t, inEight(2), func(s env) {
		s.add(append(s.goingTo(0, 2, 1), s.goingTo(1, 900, 1)...)...)
		s.shared(0, 1, 1)
		s.besideBusy(s.shared(1, 1, 1))
	})
}

// So does one that is heavier than what its shard could have in the place of the long one.
func TestHeavyBesideALongJob(t *testing.T) {
	suiteWith(t, inEight(8), func(s env) {
		s.add(s.goingTo(0, 1, 3)...)
		s.shared(0, 1, 1)
		s.add(append(s.goingTo(0, 1, 5), s.goingTo(1, 900, 1)...)...)
		s.besideBusy(s.shared(1, 5, 5))
	})
}
