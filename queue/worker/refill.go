package worker

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// refill looks after the queues once a second and when a rate allows more, and keeps a pool of locked jobs for each line
// that has more.
func (w *worker) refill(ctx, work context.Context) error {
	looking := time.Since(w.lookAt) >= lookEvery || w.rationOver()
	if looking {
		if err := w.look(work); err != nil {
			return err
		}
		if err := w.claimSlots(work); err != nil {
			return err
		}
	}
	for i := range w.lines {
		l := w.lines[(w.turn+i)%len(w.lines)]
		if ctx.Err() != nil {
			break
		}
		if l.failing && len(l.undecided) < l.free() {
			if err := w.takeUndecided(work, l); err != nil {
				return err
			}
		}
		if l.more && len(l.pool) < l.width() {
			if err := w.lock(work, l); err != nil {
				return err
			}
		}
	}
	// a worker that only lingers, or waits for others to make room under a limit, holds no slot that another could use
	if claims := w.claims(); looking && w.spare(claims) {
		return w.leaveSlots(work, claims)
	}
	return nil
}

// rationOver says whether a line has waited long enough for its rate. Its slots have been left meanwhile: it takes a look
// to have some again.
func (w *worker) rationOver() bool {
	now := time.Now()
	return slices.ContainsFunc(w.lines, func(l *line) bool { return l.rationed && !now.Before(l.moreAt) })
}

// takeUndecided takes jobs about whose retry a handler is to decide, for the slots that are free.
func (w *worker) takeUndecided(work context.Context, l *line) error {
	n := l.free() - len(l.undecided)
	list, err := l.Undecided(work, w.Worker, l.asked, n)
	if err != nil {
		return err
	}
	l.failing = len(list) == n
	for _, s := range list {
		if s.Decided = true; s.Outcome.Verdict == job.Stopped {
			l.ended = append(l.ended, s) // there is nothing to ask
		} else {
			l.undecided = append(l.undecided, s)
		}
	}
	return nil
}

// nothingToDo says whether a look finds nothing at all. It writes nothing.
func (w *worker) nothingToDo(work context.Context) (bool, error) {
	if dead, err := w.roster.AnyDead(work); dead || err != nil {
		return false, err
	}
	for _, l := range w.lines {
		if found, err := l.Look(work, l.types); found != (queue.Look{}) || err != nil {
			return false, err
		}
	}
	return true, nil
}

// look finds out what there is to do in each queue, and does the upkeep.
func (w *worker) look(work context.Context) error {
	dead, err := w.roster.AnyDead(work)
	if err != nil {
		return err
	}
	if dead {
		if err := w.roster.Bury(work); err != nil {
			return err
		}
	}
	again := false
	for _, l := range w.lines {
		found, err := l.Look(work, l.types)
		if err != nil {
			return err
		}
		if found.Waking || found.New || found.Orphaned || found.Undecided || found.Held && l.ThrottleGroups == nil {
			unfinished, err := l.Upkeep(work, w.Worker, found, l.byPolicy)
			if err != nil {
				return err
			}
			found.Due = true // or may be, by now
			again = again || unfinished
		}
		l.more = (found.Due || found.Held && l.ThrottleGroups != nil || l.locker.InDoubt()) && len(l.types) > 0
		l.rationed = false
		l.failing = len(l.asked) > 0 && (found.Undecided || found.Orphaned || found.Waking)
		if err := w.stopCancelled(work, l); err != nil {
			return err
		}
	}
	if w.lookAt = time.Now(); again {
		w.lookAt = time.Time{} // at once, after a round
	}
	return nil
}

// attend is what a worker that takes in nothing does once a second for the jobs that it still runs.
func (w *worker) attend(work context.Context) error {
	if time.Since(w.lookAt) < lookEvery {
		return nil
	}
	for _, l := range w.lines {
		if err := w.stopCancelled(work, l); err != nil {
			return err
		}
	}
	w.lookAt = time.Now()
	return nil
}

// stopCancelled stops the jobs that an operator has cancelled while they run.
func (w *worker) stopCancelled(work context.Context, l *line) error {
	if len(l.cancel) == 0 {
		return nil
	}
	ids, err := l.Stopping(work, w.ID)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if cancel := l.cancel[id]; cancel != nil {
			cancel(errCancelled)
		}
	}
	return nil
}

// lock takes a batch from the line; where others could take what it doesn't start, no more than can start.
func (w *worker) lock(work context.Context, l *line) error {
	n := w.Batch
	if len(l.lanes) > 1 {
		n = min(n, l.width())
	}
	if l.Rationed() {
		n = min(n, l.free()-len(l.pool))
	}
	if w.MaxJobs > 0 {
		most := w.MaxJobs - w.summary.Started - w.pooled()
		if most <= 0 {
			// what it may start is locked already, perhaps for a lane that is full: there is nothing to wait for but the next look
			l.more = false
			return nil
		}
		n = min(n, most)
	}
	if n <= 0 || l.noSlots() {
		l.more = l.more && l.busy()
		return nil
	}
	locked, err := l.locker.Lock(work, n)
	if err != nil {
		return err
	}
	w.Log.Debug("locked", "queue", l.Name, "jobs", len(locked))
	l.pool = append(l.pool, locked...)
	l.more = l.locker.More()
	if wait := l.locker.Wait(); wait > 0 {
		l.rationed, l.moreAt = true, time.Now().Add(wait)
	}
	return nil
}

func (w *worker) pooled() int {
	n := 0
	for _, l := range w.lines {
		n += len(l.pool)
	}
	return n
}

// giveBack returns what will not be started, and the slots that are free.
func (w *worker) giveBack(work context.Context) error {
	for _, l := range w.lines {
		l.more = false
		if err := w.resume(work, l); err != nil {
			return err
		}
		if err := l.locker.GiveUp(work); err != nil {
			return err
		}
		if err := l.Release(work, l.pool); err != nil {
			return err
		}
		l.pool = nil
		if l.free() < 1 && !l.busy() {
			l.undecided = nil // no slot will come for these: others decide when this worker is no more
		}
	}
	if claims := w.claims(); w.Job == 0 && w.spare(claims) && w.all.running > 0 {
		return w.leaveSlots(work, claims)
	}
	return nil
}

// deal hands the free slots to the lines in turns, one each, so that a long one starves no other.
func (w *worker) deal() map[*line][]queue.Locked {
	most := math.MaxInt
	if w.MaxJobs > 0 {
		most = w.MaxJobs - w.summary.Started
	}
	dealt := map[*line][]queue.Locked{}
	total := 0
	for served := true; served; {
		served = false
		for range w.lines {
			if total == most || w.all.free() == 0 {
				break // the next is first next time
			}
			l := w.lines[w.turn]
			w.turn = (w.turn + 1) % len(w.lines)
			if n := len(dealt[l]); n < len(l.pool) && l.free() > 0 {
				dealt[l] = l.pool[:n+1]
				for _, lane := range l.lanes {
					lane.dealt++
				}
				total++
				served = true
			}
		}
	}
	for _, lane := range w.named() {
		lane.dealt = 0
	}
	return dealt
}
