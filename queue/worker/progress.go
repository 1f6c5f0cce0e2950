package worker

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/queue/job"
)

const (
	// progressEvery is how often the progress of jobs is written down, at most.
	progressEvery = time.Second
	// progressWithin is how long that may take, at most: a worker that ends waits for it.
	progressWithin = 3 * time.Second
)

// progressing is how far the jobs that run have come, as their handlers say, where that has not been written down yet.
type progressing struct {
	mu    sync.Mutex
	fresh map[*teller]bool
	// came is sent to when the first comes into fresh.
	came chan struct{}

	// The rest is the loop's. sentAt is when the last was sent to the database, sending that it is under way, landedAt when it had
	// come back; troubled that it had gone wrong.
	sentAt, landedAt  time.Time
	sending, troubled bool
}

func newProgress() *progressing {
	return &progressing{fresh: map[*teller]bool{}, came: make(chan struct{}, 1)}
}

// teller is an attempt, as far as it says how far it has come.
type teller struct {
	to     *progressing
	source *source
	job    *job.Job
	// said is the latest; over says that the attempt has ended, after which it says nothing. Both are under to's mutex.
	said job.Progress
	over bool
}

// say takes what a handler says, in any goroutine.
func (t *teller) say(said job.Progress) {
	t.to.mu.Lock()
	defer t.to.mu.Unlock()
	if t.over {
		return
	}
	t.said = said
	t.to.add(t)
}

// add puts an attempt among those whose progress is to be written down.
func (p *progressing) add(t *teller) {
	p.fresh[t] = true
	if len(p.fresh) == 1 {
		select {
		case p.came <- struct{}{}:
		default:
		}
	}
}

// end takes note that the attempt has ended: nobody wants to know any more how far it had come.
func (t *teller) end() {
	t.to.mu.Lock()
	defer t.to.mu.Unlock()
	t.over = true
	delete(t.to.fresh, t)
}

// take gives what is to be written down, by queue, and forgets it.
func (p *progressing) take() map[string][]*teller {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := map[string][]*teller{}
	for t := range p.fresh {
		list[t.source.Name] = append(list[t.source.Name], t)
	}
	clear(p.fresh)
	return list
}

// giveBack takes note of what could not be written down, unless its attempt has ended; it has said more by now, perhaps.
func (p *progressing) giveBack(list []*teller) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range list {
		if !t.over {
			p.add(t)
		}
	}
}

func (p *progressing) isFresh() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.fresh) > 0
}

// untilProgress is how long it is until the jobs' progress is to be written down; ok is false if there is none.
func (w *worker) untilProgress() (until time.Duration, ok bool) {
	if w.progress.sending || !w.progress.isFresh() {
		return 0, false
	}
	return max(time.Until(w.progress.sentAt.Add(progressEvery)), w.untilAnswer()), true
}

// sendProgress has the jobs' progress written down, beside whatever else goes on, once a second. Whatever comes of that changes
// nothing for the jobs.
func (w *worker) sendProgress() {
	if until, ok := w.untilProgress(); !ok || until > 0 {
		return
	}
	w.progress.sentAt, w.progress.sending = time.Now(), true
	fresh := w.progress.take()
	w.task(func() func() error {
		// what goes wrong is no trouble of the worker's
		ctx, cancel := context.WithTimeout(engine.Hearing(w.work, func(error) {}), progressWithin)
		defer cancel()
		var left []*teller
		var err error
		for _, name := range slices.Sorted(maps.Keys(fresh)) {
			held, failed := w.writeProgress(ctx, fresh[name])
			left, err = append(left, held...), errors.Join(err, failed)
		}
		return func() error {
			w.progressLanded(left, err)
			return nil
		}
	})
}

// writeProgress writes down the progress of jobs of a queue, and gives those for which that was not to be done now.
func (w *worker) writeProgress(ctx context.Context, list []*teller) (left []*teller, err error) {
	said, byID := make([]rounds.Said, len(list)), map[int64]*teller{}
	w.progress.mu.Lock()
	for i, t := range list {
		said[i], byID[t.job.ID] = rounds.Said{Job: t.job, Progress: t.said}, t
	}
	w.progress.mu.Unlock()
	held, err := list[0].source.Rounds().SetProgress(ctx, w.ID, said)
	if err != nil {
		return list, err
	}
	for _, s := range held {
		left = append(left, byID[s.Job.ID])
	}
	return left, nil
}

// progressLanded takes note that progress was written down, as far as it was.
func (w *worker) progressLanded(left []*teller, err error) {
	w.progress.sending, w.progress.landedAt = false, time.Now()
	level := slog.LevelDebug // it has been said
	if !w.progress.troubled {
		level = slog.LevelWarn
	}
	if w.progress.troubled = err != nil; err != nil {
		w.Log.Log(w.work, level, "the progress of jobs could not be written down yet", "error", err)
	}
	w.progress.giveBack(left)
	for _, s := range w.sources {
		w.settleHeld(s) // their rows may have been held for this
	}
}
