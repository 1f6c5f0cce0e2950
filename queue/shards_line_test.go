package queue_test

import (
	"testing"
	"time"

	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/queue/job"
)

// besideBusy has shard 1 settle and start short jobs, while shard 0 tries to start one, until it has: a shard that is in line for the
// others' room gets it, whatever runs on in it.
func (s store) besideBusy(running []*job.Job) {
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
		time.Sleep(20 * time.Millisecond)
	}
}

// A job that runs for days holds up no other of its shard while there are others whose shards' jobs end.
func TestBesideALongJob(t *testing.T) {
	suiteWith(t, inEight(2), func(s store) {
		s.add(append(s.goingTo(0, 2, 1), s.goingTo(1, 900, 1)...)...)
		s.borrowed(0, 1, 1)
		s.besideBusy(s.borrowed(1, 1, 1))
	})
}

// So does one that is heavier than what its shard could have in the place of the long one.
func TestHeavyBesideALongJob(t *testing.T) {
	suiteWith(t, inEight(8), func(s store) {
		s.add(s.goingTo(0, 1, 3)...)
		s.borrowed(0, 1, 1)
		s.add(append(s.goingTo(0, 1, 5), s.goingTo(1, 900, 1)...)...)
		s.besideBusy(s.borrowed(1, 5, 5))
	})
}

// What is asked for a job of one worker is not taken back by those who start jobs of other types in the same shard.
func TestOthersLeaveWhatIsAskedFor(t *testing.T) {
	suiteWith(t, inEight(8), func(s store) {
		s.hire("w")
		heavy := s.goingTo(0, 1, 6)
		heavy[0].Type = "report"
		s.add(s.goingTo(1, 8, 1)...)
		ended := s.borrowed(1, 8, 8)
		s.add(heavy...)
		of := func(jobType string) rounds.Done {
			r := s.newRound("w", 1)
			r.Candidates = s.Rounds().Candidates(0, []string{jobType})
			return s.do(r)
		}
		demand := func() (text string) {
			first, _ := s.places8()
			must[any](s.t)(nil, s.db.GetContext(s.t.Context(), &text, "SELECT demand FROM shop_shards WHERE queue = 'emails' AND shard = ?", first))
			return text
		}
		if of("report"); demand() == job.None {
			s.t.Fatal("the heavy job has asked for nothing")
		}
		if of("send"); demand() == job.None {
			s.t.Error("a round that found nothing of its types took back what the heavy job has asked for")
		}
		s.settle("w", finished, ended...)
		for until := time.Now().Add(20 * time.Second); len(of("report").Started) == 0; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(until) {
				s.t.Fatal("the heavy job was not started")
			}
		}
		if of("report"); demand() != job.None {
			s.t.Errorf("what was asked for a job that runs is asked for still: %s", demand())
		}
	})
}
