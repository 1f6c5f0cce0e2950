package worker

import (
	"context"
	"errors"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/store"
)

const (
	// progressEvery is how often the progress of jobs is written down, at most.
	progressEvery = time.Second
	// progressWithin is how long that may take, at most: a worker that ends waits for it.
	progressWithin = 3 * time.Second
)

type progress struct {
	*loop
	// askedAt is when the attempts were last asked.
	askedAt time.Time
	// sending says that some is being written down, troubled that the last time failed.
	sending, troubled bool
}

// until is how long it is until the attempts are to be asked.
func (p *progress) until() time.Duration { return time.Until(p.askedAt.Add(progressEvery)) }

func (p *progress) send() {
	if p.until() > 0 {
		return
	}
	p.askedAt = time.Now()
	said := map[*source][]store.Said{}
	for _, s := range p.sources {
		for _, a := range s.attempts {
			a.context() // a handler that never asks for it is abandoned in time, too
			if p.sending || p.untilAnswer() > 0 {
				continue
			}
			if latest := a.said.Swap(nil); latest != nil {
				said[s] = append(said[s], store.Said{Job: a.Job, Progress: *latest})
			}
		}
	}
	if len(said) == 0 {
		return
	}
	p.sending = true
	p.task(func() func() error {
		// what goes wrong is no trouble of the worker's
		ctx, cancel := context.WithTimeout(engine.Hearing(p.work, func(error) {}), progressWithin)
		defer cancel()
		var err error
		for s, list := range said {
			left, failed := s.store().SetProgress(ctx, p.ID, list)
			if failed == nil {
				said[s] = left
			}
			err = errors.Join(err, failed)
		}
		return func() error {
			p.land(said, err)
			return nil
		}
	})
}

// land takes note of what could not be written down: it is said again, unless the handler has said more by now.
func (p *progress) land(left map[*source][]store.Said, err error) {
	if err != nil {
		p.Log.Log(p.work, levelOf(p.troubled), "the progress of jobs could not be written down yet", "error", err)
	}
	p.sending, p.troubled = false, err != nil
	for s, list := range left {
		s.freedAt = time.Now() // the rows of attempts that have ended meanwhile
		for _, one := range list {
			if a := s.attempts[one.Job.ID]; a != nil && a.Job == one.Job {
				a.said.CompareAndSwap(nil, &one.Progress)
			}
		}
	}
}
