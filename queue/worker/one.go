package worker

import (
	"context"
	"fmt"
	"slices"

	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue/job"
)

// RunJob runs one job of the one queue now, whatever its time, windows and the host's concurrency. It returns when the job is
// settled. Errors: queue.ErrNotFound, ErrFinal; admin.ErrStarted, ErrLocked, ErrNotIngested, ErrNoRoom; Run's.
func RunJob(ctx context.Context, p Params, id int64) (Summary, error) {
	return runOne(ctx, p, id, func(w *worker, s *source) (*job.Job, error) {
		return s.store().StartNow(w.work, store.NewRound(w.self), id)
	})
}

// TakeOver runs an attempt that worker from began under a token, and returns when it is settled. The process of
// Params.Quarantine calls it. admin.ErrStarted means that from no longer has the attempt; other errors are those of RunJob.
func TakeOver(ctx context.Context, p Params, id int64, from, token string) (Summary, error) {
	return runOne(ctx, p, id, func(w *worker, s *source) (*job.Job, error) {
		return s.store().TakeOver(w.work, w.ID, id, from, token)
	})
}

// runOne runs the job that start returns, and ends when it is settled.
func runOne(ctx context.Context, p Params, id int64, start func(*worker, *source) (*job.Job, error)) (Summary, error) {
	p.Quarantine = nil // this is the quarantine process, or a run beside it
	w, err := newWorker(p)
	if err != nil {
		return Summary{}, err
	}
	if err := w.bounded(ctx, w.patience(), w.begins); err != nil || w.allLeftOut() {
		return Summary{}, w.withLeftOut(err)
	}
	w.slots.own = true
	for _, l := range w.slots.lanes {
		l.slots = 1
	}
	return w.live(ctx, func() error {
		w.stopStarts()
		if ctx.Err() != nil {
			return ErrInterrupted
		}
		j, err := p.Queues[0].Get(w.work, id)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(w.sources, func(s *source) bool { return s.serves.Has(j.Type) })
		if at < 0 {
			return fmt.Errorf("job %d of %s: there is no handler for job type %q", id, p.Queues[0].Name, j.Type)
		}
		s := w.sources[at]
		if j, err = start(w, s); err != nil {
			return err
		}
		w.runner.begin(s, j)
		return nil
	})
}
