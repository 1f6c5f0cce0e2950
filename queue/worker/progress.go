package worker

import (
	"context"
	"errors"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/store"
)

const (
	// progressEvery is how often progress is stored, at most.
	progressEvery = time.Second
	// progressWithin bounds the time to store it, because an ending worker waits for that.
	progressWithin = 3 * time.Second
)

type progress struct {
	*loop
	// askedAt is when the worker last collected the progress.
	askedAt time.Time
	// sending says that progress is being stored. troubled says that the last time failed.
	sending, troubled bool
}

// until returns how long until progress is collected again.
func (p *progress) until() time.Duration { return time.Until(p.askedAt.Add(progressEvery)) }

func (p *progress) send() {
	if p.until() > 0 {
		return
	}
	p.askedAt = time.Now()
	said := map[*source][]store.Said{}
	for _, s := range p.sources {
		for _, a := range s.attempts {
			a.context() // arms the timeout of handlers that never use their context
			if p.sending || p.untilAnswer() > 0 {
				continue
			}
			if latest := a.said.Swap(nil); latest != nil {
				a.reported = true
				said[s] = append(said[s], store.Said{Job: a.Job, Progress: *latest})
			}
		}
	}
	if len(said) == 0 {
		return
	}
	p.sending = true
	p.task(func() func() error {
		// errors here are not the worker's trouble
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

// land keeps progress that couldn't be stored for the next time, unless the handler has reported more.
func (p *progress) land(left map[*source][]store.Said, err error) {
	if err != nil {
		p.Log.Log(p.work, levelOf(p.troubled), "the progress of jobs could not be saved yet", "error", err)
	}
	p.sending, p.troubled = false, err != nil
	for s, list := range left {
		for _, one := range list {
			if a := s.attempts[one.Job.ID]; a != nil && a.Job == one.Job {
				a.said.CompareAndSwap(nil, &one.Progress)
				a.reported = a.reported && err == nil
			}
		}
	}
}
