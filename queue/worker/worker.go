// Package worker runs hipq's worker: it starts jobs, runs their handlers and settles them, until nothing is due or time is up.
//
// Each queue, and each part of one with a lane of its own, is a source. The worker polls each source once a second, and sends
// it rounds when attempts have ended or slots are free.
//
// One goroutine, the loop, owns all state. Database work runs in tasks beside the loop. Each task returns a function that the
// loop runs, so a slow commit or a silent database never blocks the loop.
package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/internal/scheduler"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// ErrInterrupted is the cause that handlers see, and their jobs' error, after the grace of a worker told to stop.
var ErrInterrupted = errors.New("interrupted")

// Summary counts what a worker did.
type Summary struct {
	// Finished also counts attempts that sent the work, or released the job.
	Started, Finished, Errors int
	// Lost counts attempts that weren't settled because the worker lost its lock.
	Lost int
	// Answered is when the database last answered, by this host's clock, if its silence ended the worker; else zero.
	Answered time.Time
}

// Unsettled counts started attempts whose outcomes the worker couldn't write.
func (s Summary) Unsettled() int { return s.Started - s.Finished - s.Errors }

// ErrLockLost is the error of a worker that didn't renew its lock in time, and its handlers' cause. Others take its jobs.
var ErrLockLost = workers.ErrLockLost

// ErrDuplicateID is the error of a worker whose ID has been used before.
var ErrDuplicateID = workers.ErrDuplicateID

type worker struct {
	*loop
	lease      *lease
	slots      *slots
	scheduler  *schedules
	progress   *progress
	runner     *runner
	dispatcher *dispatcher
	poller     *poller
	// quietSince is when the last handler ended, if the worker now waits only for the database.
	quietSince time.Time
}

func newWorker(p Params) (*worker, error) {
	p, err := p.complete()
	if err != nil {
		return nil, err
	}
	db := p.Queues[0].store().DB()
	l := &loop{
		Params: p, self: workers.Worker{ID: p.ID, Host: p.Host, PID: p.PID, Process: process.Identity(), ByHand: p.ByHand, Serves: workers.Serves{}}, db: db,
		table: workers.New(db), landed: make(chan func() error), added: make(chan struct{}, 1),
	}
	w := &worker{loop: l, lease: &lease{loop: l}, slots: &slots{loop: l}, progress: &progress{loop: l}}
	w.scheduler = &schedules{loop: l, scheduler: scheduler.New(db, p.Schedules)}
	w.slots.host = w.slots.newLane("", nil, p.Concurrency)
	for _, q := range p.Queues {
		w.addSources(q)
		if p.MaxJobs == 0 { // otherwise it may leave jobs: no other worker leaves them to it
			w.self.Serves[q.Name] = q.named()
		}
	}
	w.runner = &runner{loop: l, lease: w.lease, begun: make(chan *attempt), ended: make(chan *attempt, p.Concurrency)}
	w.dispatcher = &dispatcher{loop: l, slots: w.slots, runner: w.runner}
	w.poller = &poller{loop: l, dispatcher: w.dispatcher, slots: w.slots, searched: map[string][]string{}}
	w.dispatcher.nextSource = rand.IntN(len(w.sources)) // many short runs must not all begin with the first source
	return w, nil
}

// Run registers the queues and the worker, and works until nothing is due and its jobs have ended. With Linger it works until
// RunFor is over. When ctx ends, it starts no more jobs, waits for Grace, interrupts the rest and returns nil.
//
// Run skips a queue whose table is missing, lacks an index or has another version, and finally returns an error about it.
// Other errors are schema.ErrNotMigrated and ErrNewer for the instance's tables, ErrParams, and ErrDuplicateID. After
// ErrLockLost, schema.ErrNoAnswer or errors that schema.Diagnose calls TryLater, other workers take its jobs. Run may be
// repeated and is safe for concurrent use, with a new or empty ID each time.
func Run(ctx context.Context, p Params) (Summary, error) {
	w, err := newWorker(p)
	if err != nil {
		return Summary{}, err
	}
	idle := false
	err = w.bounded(ctx, w.RunFor+w.patience(), func(work context.Context) (err error) {
		if err := w.begins(work); err != nil || w.allLeftOut() {
			return err
		}
		idle, err = w.poller.nothingToDo(work)
		if err != nil || !idle {
			return err
		}
		wait, failed := w.scheduler.scheduler.Wait(work) // an error comes up again in the loop, where it blocks no jobs
		if idle = wait > 0 && failed == nil; idle && !p.Linger {
			err = w.table.Pass(work, w.self)
		}
		return err
	})
	if err != nil || idle && !p.Linger || w.allLeftOut() {
		return w.summary, w.withLeftOut(err)
	}
	return w.live(ctx, func() error { return nil })
}

// begins checks the tables and registers the queues. It leaves out queues whose table is unfit.
func (w *worker) begins(ctx context.Context) error {
	err := w.db.Check(ctx, w.tables())
	unfit, ok := errors.AsType[schema.QueueErrors](err)
	if err != nil && !ok {
		return err
	}
	for _, q := range w.Queues {
		err := unfit[q.Name]
		if err == nil {
			err = q.store().Register(ctx)
		}
		if err != nil && unfit[q.Name] == nil && !errors.Is(err, queue.ErrShards) {
			return err
		}
		if err != nil {
			w.dispatcher.leaveOut(q.Name, err)
		}
	}
	return nil
}

// bounded runs a step before the loop with a timeout. After ctx ends, the step has w.patience() to end in order.
func (w *worker) bounded(ctx context.Context, most time.Duration, do func(context.Context) error) error {
	work, cancel := context.WithTimeout(engine.Hearing(context.WithoutCancel(ctx), w.miss), most)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(w.patience(), cancel) })()
	err := do(work)
	if err != nil && work.Err() != nil {
		return w.unanswered(err)
	}
	w.missed.Store(nil)
	return err
}

// live registers the worker, calls begin, and runs the loop under a lock that the lease renews.
func (w *worker) live(ctx context.Context, begin func() error) (done Summary, err error) {
	defer func() {
		if at := w.answered.Load(); at != nil && (errors.Is(err, schema.ErrNoAnswer) || errors.Is(err, workers.ErrLockLost)) {
			done.Answered = *at
		}
		if away := w.away(); away != nil && errors.Is(err, workers.ErrLockLost) {
			err = fmt.Errorf("the database is away: %w (%w)", away, err)
		} else if full := w.lease.full.Load(); full != nil && errors.Is(err, workers.ErrLockLost) {
			err = fmt.Errorf("%w (%w)", *full, err) // a database on a full disk still answers reads
		}
		err = errors.Join(w.withLeftOut(err), w.scheduler.failure())
	}()
	// settling must go on after ctx has ended
	work, stopWork := context.WithCancelCause(engine.Hearing(context.WithoutCancel(ctx), w.miss))
	defer stopWork(nil)
	w.work, w.stopWork, w.told = work, stopWork, ctx
	w.jobs, w.stopJobs = context.WithCancelCause(work)
	defer w.stopJobs(nil)
	w.starts, w.stopStarts = context.WithTimeout(w.jobs, w.RunFor)
	defer w.stopStarts()
	defer context.AfterFunc(ctx, w.stopStarts)()
	defer context.AfterFunc(w.jobs, func() {
		if w.lockLost() {
			// an expired lock permits no writes, and the database may neither answer nor hang up
			time.AfterFunc(w.Grace+time.Second, func() { stopWork(workers.ErrLockLost) })
		}
	})()

	defer close(w.runner.begun)
	began := process.Uptime()
	register := func(ctx context.Context) error { return w.table.Register(ctx, w.self, w.LockFor) }
	// a lock that took longer than it lasts has expired
	if err := w.bounded(ctx, min(w.LockFor, w.patience()), register); err != nil {
		return w.summary, err
	}
	w.lease.holds(began)
	renewal, stopRenewal := context.WithCancel(work)
	var renewing sync.WaitGroup
	renewing.Go(func() { w.lease.keep(renewal) })
	defer renewing.Wait()
	defer stopRenewal()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(w.Grace, func() { w.stopJobs(ErrInterrupted) }) })()

	w.listen()
	if err := begin(); err != nil {
		return w.summary, errors.Join(err, w.signOff(nil))
	}
	if err := w.goOn(); err != nil {
		w.abandon(err)
		if errors.Is(err, workers.ErrLockLost) {
			w.summary.Lost = w.summary.Unsettled()
		}
		// otherwise other workers wait until the lock expires
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), pollEvery)
		defer cancel()
		_ = w.table.End(end, w.self, activity.Error, w.summary.Started, err)
		return w.summary, err
	}
	// all attempts are settled
	vain := w.inVain()
	remark := vain
	if w.Close != nil {
		if left := w.Close(); left != "" {
			remark = errors.Join(vain, errors.New(left))
		}
	}
	return w.summary, errors.Join(vain, w.signOff(remark))
}

// signOff ends the worker's row if the database answers in time and the lock holds. The activity gets the remark, if any.
func (w *worker) signOff(remark error) error {
	for {
		w.beQuiet()
		due := w.quietSince.Add(w.patience())
		end, cancel := context.WithDeadline(w.work, due)
		err := w.table.End(end, w.self, activity.Finished, w.summary.Started, remark)
		over := end.Err() != nil
		cancel()
		w.lease.check()
		w.wakes(due)
		switch {
		case err == nil || !over && !passes(err):
			return err
		case w.lockLost():
			return workers.ErrLockLost
		case over && !w.quietSince.IsZero():
			return w.unanswered(err)
		}
		w.miss(err) // the last try may only say that time is up
		select {
		case <-w.work.Done():
		case <-time.After(min(pollEvery, time.Until(due))):
		}
	}
}

// abandon stops the handlers and waits for them. Other workers reclaim unsettled jobs when the lock has expired.
func (w *worker) abandon(cause error) {
	w.stopJobs(cause)
	for _, s := range w.sources {
		for _, a := range s.attempts {
			a.context()
		}
	}
	defer time.AfterFunc(w.Grace, func() { w.stopWork(cause) }).Stop()
	for w.slots.host.running > 0 || w.tasks > 0 {
		select {
		case a := <-w.runner.ended:
			a.source.occupy(-1)
		case <-w.landed:
			w.tasks--
		}
	}
}

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
