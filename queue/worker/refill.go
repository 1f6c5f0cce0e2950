package worker

import (
	"context"
	"time"

	"github.com/hipq/hipq/queue"
)

// refill looks after the queues once a second, and keeps a pool of locked jobs for each that has more.
func (w *worker) refill(ctx, work context.Context) error {
	looking := time.Since(w.lookAt) >= lookEvery
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
		if !l.more || len(l.pool) >= w.Concurrency || ctx.Err() != nil {
			continue
		}
		if err := w.lock(work, l); err != nil {
			return err
		}
	}
	// a worker that only lingers, or waits for others to make room under a limit, holds no slot that another could use
	if looking && !w.anyMore() && w.slots > w.running+w.pooled() {
		return w.keepSlots(work, w.running+w.pooled())
	}
	return nil
}

// nothingToDo says whether a look finds nothing at all. It writes nothing.
func (w *worker) nothingToDo(work context.Context) (bool, error) {
	if dead, err := w.registry.anyDead(work); dead || err != nil {
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
	dead, err := w.registry.anyDead(work)
	if err != nil {
		return err
	}
	if dead {
		if err := w.registry.bury(work); err != nil {
			return err
		}
	}
	again := false
	for _, l := range w.lines {
		found, err := l.Look(work, l.types)
		if err != nil {
			return err
		}
		if found.Waking || found.New || found.Orphaned || found.Undecided {
			unfinished, err := l.Upkeep(work, w.Worker, found, l.types)
			if err != nil {
				return err
			}
			found.Due = true // or may be, by now
			again = again || unfinished
		}
		l.more = (found.Due || l.locker.InDoubt()) && len(l.types) > 0
	}
	if w.lookAt = time.Now(); again {
		w.lookAt = time.Time{} // at once, after a round
	}
	return nil
}

// claimSlots asks for the slots that are missing, if there is anything to start.
func (w *worker) claimSlots(work context.Context) (err error) {
	if w.slots < w.Concurrency && (w.pooled() > 0 || w.anyMore()) {
		w.slots, err = w.registry.claimSlots(work, w.running, w.Concurrency)
	}
	return err
}

// keepSlots leaves all slots but n to the host's other workers.
func (w *worker) keepSlots(work context.Context, n int) error {
	if err := w.registry.leaveSlots(work, n); err != nil {
		return err
	}
	w.slots = n
	return nil
}

// lock takes a batch from the line; from one with a throttle limit no more than can start, so as to hoard nothing.
func (w *worker) lock(work context.Context, l *line) error {
	n := w.Batch
	if l.ThrottleLimit > 0 {
		n = min(n, w.slots-w.running-len(l.pool))
	}
	if w.MaxJobs > 0 {
		n = min(n, w.MaxJobs-w.summary.Started-w.pooled())
	}
	if n <= 0 || w.slots == 0 {
		l.more = l.more && w.running > 0
		return nil
	}
	locked, err := l.locker.Lock(work, n)
	if err != nil {
		return err
	}
	w.Log.Debug("locked", "queue", l.Name, "jobs", len(locked))
	l.pool = append(l.pool, locked...)
	l.more = len(locked) == n
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
	}
	if w.slots > w.running && w.running > 0 {
		return w.keepSlots(work, w.running)
	}
	return nil
}

// deal hands the free slots to the queues in turns, one each, so that a long one starves no other.
func (w *worker) deal() map[*line][]queue.Locked {
	free := w.slots - w.running
	if w.MaxJobs > 0 {
		free = min(free, w.MaxJobs-w.summary.Started)
	}
	dealt := map[*line][]queue.Locked{}
	for served := true; free > 0 && served; {
		served = false
		for range w.lines {
			if free == 0 {
				break // the next is first next time
			}
			l := w.lines[w.turn]
			w.turn = (w.turn + 1) % len(w.lines)
			if n := len(dealt[l]); n < len(l.pool) {
				dealt[l] = l.pool[:n+1]
				free--
				served = true
			}
		}
	}
	return dealt
}
