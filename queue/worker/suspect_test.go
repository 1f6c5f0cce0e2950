package worker_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// A job whose last attempt ended with its worker runs alone, whatever else is due: what it may kill is nobody else's.
func TestSuspectRunsAlone(t *testing.T) {
	suite(t, func(s shop) {
		ids := append(s.add(s.emails, "send", 6), s.addSuspects(s.emails, slices.Repeat([]job.New{{Type: "send"}}, 3)...)...)
		others := s.add(s.reports, "once", 3)
		running := newTally()
		p := s.worker(all(func(ctx context.Context, j *job.Job) error {
			defer running.enter("all")()
			if j.Suspect {
				defer running.enter("suspects")()
			}
			s.pass(50 * time.Millisecond)
			running.mu.Lock()
			defer running.mu.Unlock()
			if running.now["suspects"] > 0 && running.now["all"] > 1 {
				t.Errorf("job %d runs beside a suspect: %v", j.ID, running.now)
			}
			return nil
		}))
		wantSummary(t, s.work(p), worker.Summary{Started: 12, Finished: 12})
		running.want(t, "suspects", 1)
		running.wantMost(t, "all", 4)
		s.wantHistory(s.reports, atOnce, others...)
		for _, id := range ids {
			if j := s.get(s.emails, id); j.State != job.Final || j.Suspect {
				t.Errorf("%+v", j)
			}
		}
	})
}

// Where there is always something else to do, a suspect has its turn all the same: the worker clears itself for it.
func TestSuspectHasItsTurn(t *testing.T) {
	suite(t, func(s shop) {
		s.addSuspects(s.emails, job.New{Type: "send"})
		s.add(s.emails, "once", 4000)
		alone, ended := newTally(), make(chan int, 1)
		p := only(s.emails, s.worker(all(func(_ context.Context, j *job.Job) error {
			leave := alone.enter("all")
			time.Sleep(20 * time.Millisecond)
			alone.mu.Lock()
			n := alone.now["all"]
			alone.mu.Unlock()
			leave()
			if j.Suspect {
				ended <- n
			}
			return nil
		})))
		p.Linger = true
		r := s.start(p)
		if n := receive(t, "the suspect has run", ended); n != 1 {
			t.Errorf("the suspect ran beside %d others", n-1)
		}
		if c := s.counts(s.emails); c.Due == 0 {
			t.Error("there was nothing else to do any more: this shows nothing")
		}
		r.stop()
		r.ended()
		alone.wantMost(t, "all", 4)
	})
}

// A suspect is not started beside what runs, and what is due goes on meanwhile.
func TestSuspectWaitsForTheOthers(t *testing.T) {
	suite(t, func(s shop) {
		s.add(s.emails, "once", 1)
		g := s.gate()
		p := only(s.emails, s.worker(all(g.handle)))
		p.Linger = true
		r := s.start(p)
		g.holds(1)
		suspect := s.addSuspects(s.emails, job.New{Type: "send"})
		s.pass(2500 * time.Millisecond)
		s.wantJob(s.emails, suspect[0], job.Retry, "due", job.None, 1)
		g.let()
		if j := g.next(); j.ID != suspect[0] {
			t.Errorf("job %d has been started", j.ID)
		}
		next := s.add(s.emails, "once", 3)
		s.pass(1500 * time.Millisecond)
		s.wantJob(s.emails, next[0], job.Initial, "due", job.None, 0)
		g.open()
		eventually(s.t, "all are done", func() bool { return s.counts(s.emails).Finished == 5 })
		r.stop()
		r.ended()
		s.wantHistory(s.emails, atOnce, next...)
	})
}

// What a dead worker had started are suspects, until they are started again.
func TestJobsOfDeadWorkerAreSuspects(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.add(s.emails, "send", 2)
		dead := s.worker(nil)
		s.exec("UPDATE shop_emails SET line = 'locked', state = 'running', attempt = 1, worker_id = ?", dead.ID)
		suspects := 0
		s.work(only(s.emails, s.worker(all(func(_ context.Context, j *job.Job) error {
			if row := s.get(s.emails, j.ID); j.Suspect && !row.Suspect {
				suspects++ // they follow one another
			}
			return nil
		}))))
		if suspects != 2 {
			t.Errorf("%d of 2 ran as suspects", suspects)
		}
		s.wantHistory(s.emails, "added/0 error/1 starting/2 finished/2", ids...)
	})
}

// A suspect of whose start the worker learns late is one all the same, and the others go on after it.
func TestSuspectWhoseStartWasNotAnswered(t *testing.T) {
	t.Parallel()
	s, proxy := proxied(t)
	s.addSuspects(s.emails, job.New{Type: "send"})
	s.add(s.emails, "once", 3)
	losesFirst(proxy, "start", func() {})
	s.start(only(s.emails, s.worker(all(nothing))))
	eventually(t, "all are done", func() bool { return s.counts(s.emails).Finished == 4 })
}

// The decision about a suspect may end while the next one runs, which stays alone.
func TestDecisionAboutASuspect(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.addSuspects(s.emails, job.New{Type: "send"}, job.New{Type: "send"})
		s.add(s.emails, "once", 3)
		running := newTally()
		p := only(s.emails, s.worker(all(func(ctx context.Context, j *job.Job) error {
			defer running.enter("all")()
			if j.ID == ids[0] {
				return errors.New("no luck")
			}
			if j.Suspect {
				defer running.enter("suspects")()
			}
			s.pass(600 * time.Millisecond)
			running.mu.Lock()
			defer running.mu.Unlock()
			if running.now["suspects"] > 0 && running.now["all"] > 1 {
				t.Errorf("job %d runs beside a suspect: %v", j.ID, running.now)
			}
			return nil
		})))
		p = asking(p, func(context.Context, *job.Job, job.Outcome) (job.Decision, error) {
			return job.Decision{}, nil
		})
		s.work(p)
	})
}

// A worker for which others on its host leave no slots ends, although a suspect is due.
func TestSuspectAndNoSlots(t *testing.T) {
	suite(t, func(s shop) {
		s.add(s.emails, "once", 4)
		g := s.gate()
		s.start(only(s.emails, s.worker(all(g.handle))))
		g.holds(4)
		s.addSuspects(s.emails, job.New{Type: "send"})
		r := s.start(only(s.emails, s.elsewhere().worker(all(nothing))))
		within(t, 25*time.Second, "the one without slots ends", func() bool {
			select {
			case <-r.done:
				return true
			default:
				return false
			}
		})
		g.open()
	})
}

// No worker clears itself for a suspect that was cancelled.
func TestSuspectThatIsGone(t *testing.T) {
	suite(t, func(s shop) {
		s.add(s.emails, "once", 1)
		g := s.gate()
		p := only(s.emails, s.worker(all(g.handle)))
		p.Linger = true
		s.start(p)
		g.holds(1)
		id := s.addSuspects(s.emails, job.New{Type: "send"})[0]
		s.pass(1500 * time.Millisecond)
		must[any](t)(nil, s.emails.Cancel(t.Context(), id))
		s.add(s.emails, "once", 1)
		within(t, 8*time.Second, "the next starts", func() bool { return s.counts(s.emails).Running == 2 })
		g.open()
	})
}

// A suspect that fills a whole limit has its room kept for it.
func TestHeavySuspectIsNotOvertaken(t *testing.T) {
	t.Parallel()
	s := openShop(t, "mysql", dbtest.MySQL(t))
	s.emails = s.reopen(queue.Options{Name: "emails", ThrottleLimit: 8}, nil)
	one, first := 1, 1
	heavy := 8
	var jobs []job.New
	for range 500 {
		jobs = append(jobs, job.New{Type: "once", ThrottleFactor: &one})
	}
	s.addJobs(s.emails, jobs...)
	h := all(func(ctx context.Context, j *job.Job) error {
		time.Sleep(time.Duration(300+37*(j.ID%5)) * time.Millisecond)
		return nil
	})
	a, b := only(s.emails, s.worker(h)), only(s.emails, s.worker(h))
	b.Host = "there"
	s.start(a)
	time.Sleep(500 * time.Millisecond)
	s.start(b)
	time.Sleep(time.Second)
	id := s.addSuspects(s.emails, job.New{Type: "send", ThrottleFactor: &heavy, Priority: &first})[0]
	eventually(t, "the heavy suspect is done", func() bool { return s.get(s.emails, id).State == job.Final })
}

// A suspect that weighs nothing is held back by no limit.
func TestWeightlessSuspect(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = s.reopen(queue.Options{Name: "emails", ThrottleLimit: 1}, nil)
		s.add(s.emails, "once", 1)
		g := s.gate()
		s.start(only(s.emails, s.worker(all(g.handle))))
		g.holds(1)
		none := 0
		ids := s.addSuspects(s.emails, job.New{Type: "send"}, job.New{Type: "send", ThrottleFactor: &none})
		p := only(s.emails, s.worker(all(nothing)))
		p.Linger, p.Host = true, "there"
		s.start(p)
		eventually(t, "the weightless one is done", func() bool { return s.get(s.emails, ids[1]).State == job.Final })
		g.open()
	})
}

// Suspects keep no other queue waiting until the last of them has run.
func TestSuspectsAreNotAlwaysFirst(t *testing.T) {
	suite(t, func(s shop) {
		s.addSuspects(s.emails, slices.Repeat([]job.New{{Type: "send"}}, 6)...)
		other := s.add(s.reports, "once", 1)[0]
		s.start(s.worker(all(func(ctx context.Context, j *job.Job) error {
			time.Sleep(3 * time.Second)
			return nil
		})))
		within(t, 12*time.Second, "the other queue's job starts", func() bool { return s.get(s.reports, other).Attempt == 1 })
	})
}
