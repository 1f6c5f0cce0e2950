package crash

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// comebacks are the moments at which stopped workers resume. Their locks have expired, their handlers were killed or are
// done, and others have their jobs, so their writes must change nothing. A worker stopped while it starts a handler is
// killed before its lock expires.
var comebacks = []struct {
	name string
	when func(before, now row, book *book) bool
}{
	{"its jobs wait for their next attempt", func(before, now row, _ *book) bool {
		return before.state == "running" && (now.state == "error" || now.state == "retry")
	}},
	{"another runs its jobs", func(before, now row, book *book) bool {
		// only jobs that run long enough for the late settlement
		return before.state == "running" && now.state == "running" && now.attempt > before.attempt &&
			book.spec(now.name()).step(now.attempt).MS >= slow
	}},
	{"another decides about its jobs", func(before, now row, _ *book) bool {
		return before.state == "error" && now.worker != before.worker && now.worker != "NONE"
	}},
}

// worthwhile reports whether a worker with these jobs is worth stopping for a comeback.
func worthwhile(mode int, jobs []row, book *book) bool {
	return slices.ContainsFunc(jobs, func(j row) bool {
		switch mode {
		case 0:
			return j.state == "running"
		case 1:
			return j.state == "running" && book.spec(j.name()).step(j.attempt+1).MS >= slow
		default:
			return j.state == "error"
		}
	})
}

// stopAll stops n workers, one after the other, until other workers have their jobs.
func (f *fleet) stopAll(ctx context.Context, n int, rng *rand.Rand, book *book) {
	for i := 0; i < n && ctx.Err() == nil; {
		time.Sleep(time.Duration(20+rng.IntN(80)) * time.Millisecond)
		w := f.take(rng, anyWorker)
		if w == nil {
			continue
		}
		if f.stop(ctx, w, i%len(comebacks), book) {
			i++
		}
	}
}

// stop stops a worker until its lock has expired and its comeback is due. It returns false if that did not happen.
func (f *fleet) stop(ctx context.Context, w *worker, mode int, book *book) bool {
	defer f.leave(w)
	f.idle.Excuse(f.healed())
	defer func() { f.idle.Excuse(f.healed()) }()
	id, err := f.db.workerOf(w.cmd.Process.Pid)
	if err != nil || id == "" {
		return false
	}
	w.signal(syscall.SIGSTOP)
	defer w.signal(syscall.SIGCONT)
	// a stopped worker that holds database locks would block all others, also from taking its jobs
	stuck, err := f.db.stuck()
	dbtest.Ensure(f.t, err == nil, "%v", err)
	if stuck || err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.missed++
		return false
	}
	held, err := f.db.held(id)
	if err != nil {
		f.t.Error(err)
		return false
	}
	if !worthwhile(mode, held, book) {
		return false
	}
	reached := f.awaitComeback(ctx, w, mode, held, book)
	w.signal(syscall.SIGCONT)
	inStart := false
	select { // let it print everything before others may kill it
	case <-w.ended:
		inStart = w.endedByKill()
	case <-time.After(5 * time.Second):
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	w.id = id
	switch {
	case inStart:
		f.inStart++
	case reached:
		f.stops = append(f.stops, comebacks[mode].name)
	default:
		f.missed++
	}
	return reached && !inStart
}

// awaitComeback waits for the moment while the worker can still resume. It gives up when a transaction stays open: a busy server may
// begin that of a stopped worker late.
func (f *fleet) awaitComeback(ctx context.Context, w *worker, mode int, before []row, book *book) bool {
	was := map[jobID]row{}
	for _, j := range before {
		was[j.jobID] = j
	}
	var open map[string]bool
	looked := time.Now()
	for limit := time.Now().Add(15 * time.Second); time.Now().Before(limit) && ctx.Err() == nil; {
		select {
		case <-w.ended:
			return false
		case <-time.After(5 * time.Millisecond):
		}
		if !f.db.sqlite && time.Since(looked) > time.Second {
			now, err := f.db.transactions()
			if err != nil || slices.ContainsFunc(slices.Collect(maps.Keys(now)), func(id string) bool { return open[id] }) {
				dbtest.Ensure(f.t, err == nil, "%v", err)
				return false
			}
			open, looked = now, time.Now()
		}
		now, err := f.db.again(before)
		if err != nil {
			f.t.Error(err)
			return false
		}
		if slices.ContainsFunc(now, func(j row) bool { return comebacks[mode].when(was[j.jobID], j, book) }) {
			return true
		}
	}
	return false
}
