package worker

import (
	"context"

	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/queue/job"
)

// RunJob runs one job of the one queue, now, whatever its time and its windows, beside the host's concurrency, and ends
// when it is settled. queue.ErrNotFound, ErrFinal, ErrStarted, ErrLocked, ErrNotTakenIn and ErrNoRoom say why that can't be, the
// others are those of Run.
func RunJob(ctx context.Context, p Params, id int64) (Summary, error) {
	return runOne(ctx, p, id, func(w *worker, s *source) (*job.Job, error) {
		return s.Rounds().StartNow(w.work, rounds.New(w.self), id)
	})
}
