package worker

import (
	"context"
	"fmt"
	"slices"

	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/queue/job"
)

// quarantine has a job run in a process of its own, in a slot of this worker: its latest two attempts ended with their workers. That
// process takes the attempt over. If it ends without that, the attempt is still this worker's, which settles it; else this changes
// nothing.
func (w *worker) quarantine(s *source, j *job.Job) {
	s.began()
	w.summary.Started++
	ctx, cancel := context.WithCancel(w.told)
	unwatch := context.AfterFunc(w.jobs, cancel)
	go func() {
		defer cancel()
		defer unwatch()
		err := w.Quarantine(ctx, s.Name, j)
		switch {
		case err == nil:
			w.ended <- ended{source: s, Settled: rounds.Settled{Job: j}, left: true}
		case ctx.Err() != nil:
			w.ended <- ended{source: s, Settled: rounds.Settled{Job: j, Outcome: job.Outcome{Verdict: job.Interrupted, Error: ErrInterrupted.Error()}}}
		default:
			o := job.Outcome{Verdict: job.TryAgain, Error: "not begun: its quarantine: " + err.Error()}
			w.ended <- ended{source: s, Settled: rounds.Settled{Job: j, Outcome: o, Decider: s.decider(j.Type), NotBegun: true}}
		}
	}()
}

// decider is who decides about an error of a job type.
func (s *source) decider(jobType string) rounds.Decider {
	if s.RetryHandlers[jobType] == nil {
		return rounds.Policy
	}
	return rounds.OwnHandler
}

// TakeOver runs an attempt that another worker, named from, has begun for it under a token, and ends when it is settled: it is for
// the process that Params.Quarantine starts. p is as for RunJob. queue.ErrStarted says that the attempt is not from's any more, the other
// errors are those of RunJob.
func TakeOver(ctx context.Context, p Params, id int64, from, token string) (Summary, error) {
	return runOne(ctx, p, id, func(w *worker, s *source) (*job.Job, error) {
		return s.Rounds().TakeOver(w.work, w.ID, id, from, token)
	})
}

// runOne runs one job of the one queue that start gives, and ends when it is settled.
func runOne(ctx context.Context, p Params, id int64, start func(*worker, *source) (*job.Job, error)) (Summary, error) {
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
		if j, err = start(w, s); err != nil {
			return err
		}
		w.begin(s, j)
		return nil
	})
}
