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

// progress is how far the jobs that run have come, as their handlers say, where that has not been written down yet.
type progress struct {
	*loop
	mu    sync.Mutex
	fresh map[*teller]bool
	// came is sent to when the first comes into fresh.
	came chan struct{}
	// landed is called in the loop when some was written down.
	landed func()

	// The rest is the loop's. sentAt is when the last was sent to the database, sending that it is under way, landedAt when it had
	// come back; troubled that it had gone wrong.
	sentAt, landedAt  time.Time
	sending, troubled bool
}

// teller is an attempt, as far as it says how far it has come.
type teller struct {
	to     *progress
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
func (p *progress) add(t *teller) {
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
func (p *progress) take() map[string][]*teller {
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
func (p *progress) giveBack(list []*teller) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range list {
		if !t.over {
			p.add(t)
		}
	}
}

// until is how long it is until progress is to be written down; ok is false if there is none.
func (p *progress) until() (until time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(time.Until(p.sentAt.Add(progressEvery)), p.untilAnswer()), len(p.fresh) > 0 && !p.sending
}

// send has progress written down, beside whatever else goes on, once a second. Whatever comes of that changes nothing for the jobs.
func (p *progress) send() {
	if until, ok := p.until(); !ok || until > 0 {
		return
	}
	p.sentAt, p.sending = time.Now(), true
	fresh := p.take()
	p.task(func() func() error {
		// what goes wrong is no trouble of the worker's
		ctx, cancel := context.WithTimeout(engine.Hearing(p.work, func(error) {}), progressWithin)
		defer cancel()
		var left []*teller
		var err error
		for _, name := range slices.Sorted(maps.Keys(fresh)) {
			held, failed := p.write(ctx, fresh[name])
			left, err = append(left, held...), errors.Join(err, failed)
		}
		return func() error {
			p.sending, p.landedAt = false, time.Now()
			level := slog.LevelDebug // it has been said
			if !p.troubled {
				level = slog.LevelWarn
			}
			if p.troubled = err != nil; err != nil {
				p.Log.Log(p.work, level, "the progress of jobs could not be written down yet", "error", err)
			}
			p.giveBack(left)
			p.landed()
			return nil
		}
	})
}

// write writes down the progress of jobs of a queue, and gives those for which that was not to be done now.
func (p *progress) write(ctx context.Context, list []*teller) (left []*teller, err error) {
	said, byID := make([]rounds.Said, len(list)), map[int64]*teller{}
	p.mu.Lock()
	for i, t := range list {
		said[i], byID[t.job.ID] = rounds.Said{Job: t.job, Progress: t.said}, t
	}
	p.mu.Unlock()
	held, err := list[0].source.Rounds().SetProgress(ctx, p.ID, said)
	if err != nil {
		return list, err
	}
	for _, s := range held {
		left = append(left, byID[s.Job.ID])
	}
	return left, nil
}
