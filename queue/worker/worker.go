// Package worker is one execution of hipq's worker: lock, start, run, settle, until nothing is due or the time is up.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/roster"
	"github.com/hipq/hipq/schema"
)

// ErrInterrupted is the cause that handlers see, and the error that their jobs get, when the worker was told to stop and
// the grace is over.
var ErrInterrupted = errors.New("interrupted")

// lookEvery is how often a worker looks for what has become due, and does the upkeep.
const lookEvery = time.Second

// Summary is what a worker did.
type Summary struct {
	Started, Finished, Errors int
	// Lost are the attempts that could not be settled because the lock was lost meanwhile.
	Lost int
}

// worker is one Run.
type worker struct {
	Params
	roster *roster.Roster
	lines  []*line
	// turn is the line that is served first next time.
	turn int
	// all is the lane that all jobs share; lanes are those with a limit of their own, by name.
	all   *lane
	lanes map[string]*lane
	// ended gets each attempt when it ends; it has room for all.
	ended chan ended
	// heldUntil is until when jobs may run under the lock as it is.
	heldUntil atomic.Pointer[time.Time]
	// jobs is the context of all handlers. Its cause says why they must stop.
	jobs     context.Context
	stopJobs context.CancelCauseFunc
	// roundTook is how long the last transaction took that settled or started jobs.
	roundTook time.Duration
	// over is when nothing new is started any more.
	over    time.Time
	lookAt  time.Time
	summary Summary
}

// ended is an attempt or a decision that has ended, or a decision that is left to others.
type ended struct {
	line *line
	queue.Settled
	left bool
}

// Run works until nothing is due (or, with Linger, until RunFor is over) and every job that it started has ended. When
// ctx ends it starts nothing more, waits Grace for what runs, interrupts the rest, and returns nil. With Job it runs that
// one alone, at once, and ends.
func Run(ctx context.Context, p Params) (Summary, error) {
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	if p.Renewed == nil {
		p.Renewed = func(time.Duration) {}
	}
	if p.Ended == nil {
		p.Ended = func(queue.Settled) {}
	}
	w := &worker{
		Params: p,
		roster: roster.New(p.DB),
		ended:  make(chan ended, p.Concurrency),
		all:    &lane{limit: p.Concurrency},
		lanes:  map[string]*lane{},
	}
	for _, q := range p.Queues {
		w.addLines(q)
	}
	if len(w.lines) > 0 {
		w.turn = rand.IntN(len(w.lines)) // else many short runs would serve the first only
	}
	// what a job needs to be settled in order goes on when ctx has ended
	work, stopWork := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopWork(nil)
	w.jobs, w.stopJobs = context.WithCancelCause(work)
	defer w.stopJobs(nil)
	defer context.AfterFunc(w.jobs, func() {
		if errors.Is(context.Cause(w.jobs), roster.ErrLockLost) {
			// by the time that the lock has expired there is nothing more to write; a database may neither answer nor hang up
			time.AfterFunc(p.Grace+time.Second, func() { stopWork(roster.ErrLockLost) })
		}
	})()

	if p.Job == 0 {
		if idle, err := w.nothingToDo(work); err != nil {
			return w.summary, err
		} else if idle && !p.Linger {
			return w.summary, w.roster.Pass(work, w.Worker)
		}
	}
	began := time.Now()
	w.over = began.Add(p.RunFor)
	if err := w.roster.Register(work, w.Worker, w.LockFor); err != nil {
		return w.summary, err
	}
	w.hold(began)
	w.Renewed(p.LockFor - time.Since(began))
	renewal, stopRenewal := context.WithCancel(work)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		w.keepLock(renewal)
	}()
	defer func() {
		stopRenewal()
		<-renewed
	}()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(p.Grace, func() { w.stopJobs(ErrInterrupted) }) })()

	if p.Job != 0 {
		if err := w.lockJob(work); err != nil {
			return w.summary, errors.Join(err, w.signOff(ctx, work))
		}
	}
	if err := w.loop(ctx, work); err != nil {
		w.abandon(err)
		// so that others need not wait for the lock to expire; if the database can't be reached, they must
		_ = w.roster.End(work, w.Worker, "error", err.Error())
		return w.summary, err
	}
	return w.summary, w.signOff(ctx, work)
}

// signOff ends the worker's row, as soon as the database answers and as long as the lock holds.
func (w *worker) signOff(ctx, work context.Context) error {
	for {
		err := w.roster.End(work, w.Worker, "finished", w.remark())
		if kind, _ := schema.Diagnose(err); kind != schema.TryLater || w.jobs.Err() != nil {
			return err
		}
		w.pause(ctx, lookEvery)
	}
}

// remark is what the worker's last activity says of trouble.
func (w *worker) remark() string {
	if w.summary.Lost == 0 {
		return ""
	}
	return fmt.Sprintf("%d attempts were not settled: their lock was lost", w.summary.Lost)
}

// abandon stops what runs and waits for it to end. What is not settled then is reclaimed when the lock has expired.
func (w *worker) abandon(cause error) {
	w.stopJobs(cause)
	for w.all.running > 0 {
		<-w.ended
		w.all.running--
	}
}

// loop is the worker's life. ctx is told to stop; work goes on.
func (w *worker) loop(ctx, work context.Context) error {
	for {
		accepting, err := w.once(ctx, work)
		if err != nil {
			if errors.Is(context.Cause(work), roster.ErrLockLost) {
				return roster.ErrLockLost
			}
			if kind, _ := schema.Diagnose(err); kind != schema.TryLater || w.jobs.Err() != nil {
				return err
			}
			// as long as the lock holds, nothing is lost by waiting for the database
			w.Log.Warn("the database does not answer", "error", err)
			w.pause(ctx, lookEvery)
			continue
		}
		if w.all.running == 0 && !w.unsettled() {
			if errors.Is(context.Cause(w.jobs), roster.ErrLockLost) {
				return roster.ErrLockLost
			}
			if !accepting || !w.Linger && w.idle() {
				return nil
			}
		}
		w.wait(ctx, accepting)
	}
}

// once looks, locks, settles and starts. accepting says whether the worker still starts jobs.
func (w *worker) once(ctx, work context.Context) (accepting bool, err error) {
	if w.accepting(ctx) && w.Job == 0 {
		err = w.refill(ctx, work)
	} else {
		err = w.attend(work)
	}
	if err != nil {
		return true, err
	}
	if w.stopped(ctx) {
		w.leaveDecisions()
	}
	// once more, for the refill may have had to wait for the database
	if accepting = w.accepting(ctx); !accepting {
		if err := w.giveBack(work); err != nil {
			return false, err
		}
	}
	return accepting, w.rounds(work, accepting)
}

// stopped says whether the worker has been told to stop, or has to.
func (w *worker) stopped(ctx context.Context) bool { return ctx.Err() != nil || w.jobs.Err() != nil }

func (w *worker) accepting(ctx context.Context) bool {
	return !w.stopped(ctx) && time.Now().Before(w.over) && (w.MaxJobs == 0 || w.summary.Started < w.MaxJobs)
}

// unsettled says whether there is an attempt to settle, or a decision to take.
func (w *worker) unsettled() bool {
	return slices.ContainsFunc(w.lines, func(l *line) bool { return len(l.ended)+len(l.undecided) > 0 })
}

// idle says whether the last look found nothing to do and nothing has changed since.
func (w *worker) idle() bool {
	return !slices.ContainsFunc(w.lines, func(l *line) bool {
		return l.more || len(l.pool) > 0 || l.rationed && l.moreAt.Before(w.over)
	}) && (!w.lookAt.IsZero() || w.Job != 0)
}
