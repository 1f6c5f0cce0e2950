package worker

import (
	"context"
	"fmt"
	"slices"

	"github.com/hipq/hipq/internal/rounds"
)

// RunJob runs one job of the one queue, now, whatever its time and its windows, beside the host's concurrency, and ends
// when it is settled. queue.ErrNotFound, ErrFinal, ErrStarted, ErrLocked, ErrNotTakenIn and ErrNoRoom say why that can't be, the
// others are those of Run.
func RunJob(ctx context.Context, p Params, id int64) (Summary, error) {
	w, err := newWorker(p)
	if err != nil {
		return Summary{}, err
	}
	if err := w.bounded(ctx, w.patience(), w.begins); err != nil || w.allLeftOut() {
		return Summary{}, w.withLeftOut(err)
	}
	w.only = true
	for _, l := range w.lanes {
		l.slots = 1 // beside the host's other workers
	}
	return w.live(ctx, func() error {
		if ctx.Err() != nil {
			return ErrInterrupted
		}
		j, err := p.Queues[0].Get(w.work, id)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(w.sources, func(s *source) bool { return slices.Contains(s.types, j.Type) })
		if at < 0 {
			return fmt.Errorf("job %d of %s: there is no handler for job type %q", id, p.Queues[0].Name, j.Type)
		}
		s := w.sources[at]
		if j, err = s.Rounds().StartNow(w.work, rounds.New(w.self), id); err != nil {
			return err
		}
		w.begin(s, j)
		return nil
	})
}
