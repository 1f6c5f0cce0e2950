// Package worker is one execution of hipq's worker: it starts jobs, runs their handlers, and settles them, until nothing is
// due or the time is up.
//
// Each queue, and each part of one that has a lane of its own, is a source. The worker sends rounds to a source when attempts
// have ended or slots are free, and looks after each once a second.
//
// One goroutine, the loop, owns all state. What waits for the database is a task beside it, which gives back what the loop does
// with the answer: so neither a slow commit nor a silent database holds up the loop.
package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/internal/scheduler"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/schema"
)

// ErrInterrupted is the handlers' cause, and their jobs' error, when the worker was told to stop and the grace is over.
var ErrInterrupted = errors.New("interrupted")

// Summary is what a worker did.
type Summary struct {
	Started, Finished, Errors int
	// Lost are the attempts that could not be settled because the lock was lost meanwhile.
	Lost int
	// Answered is when the database last answered, by this host's clock, if the worker ended because of its silence; else zero.
	Answered time.Time
}

// Unsettled is how many attempts have begun whose outcome the worker could not write.
func (s Summary) Unsettled() int { return s.Started - s.Finished - s.Errors }

// ErrLockLost is the error of a worker that didn't renew its lock in time, and its handlers' cause: others take its jobs.
var ErrLockLost = workers.ErrLockLost

// ErrDuplicateID is the error of a worker with an ID that another has had.
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
	// quietSince is since when nothing runs any more, and only the database is waited for.
	quietSince time.Time
}

func newWorker(p Params) (*worker, error) {
	p, err := p.complete()
	if err != nil {
		return nil, err
	}
	db := p.Queues[0].store().DB()
	l := &loop{
		Params: p, self: workers.Worker{ID: p.ID, Host: p.Host, PID: p.PID, Process: process.Identity(), ByHand: p.ByHand}, db: db,
		table: workers.New(db), landed: make(chan func() error),
	}
	w := &worker{loop: l, lease: &lease{loop: l}, slots: &slots{loop: l}, progress: &progress{loop: l}}
	w.scheduler = &schedules{loop: l, scheduler: scheduler.New(db, p.Schedules)}
	w.slots.host = w.slots.newLane("", nil, p.Concurrency)
	for _, q := range p.Queues {
		w.addSources(q)
	}
	w.runner = &runner{loop: l, lease: w.lease, begun: make(chan *attempt), ended: make(chan *attempt, p.Concurrency)}
	w.dispatcher = &dispatcher{loop: l, slots: w.slots, runner: w.runner}
	w.poller = &poller{loop: l, dispatcher: w.dispatcher, searched: map[string]bool{}}
	w.dispatcher.nextSource = rand.IntN(len(w.sources)) // else many short runs would serve the first only
	return w, nil
}

// Run registers its queues and itself, and works until nothing is due (or, with Linger, until RunFor is over) and every job
// that it started has ended. When ctx ends it starts nothing more, waits Grace for what runs, interrupts the rest, and returns
// nil. It leaves out a queue whose table is missing, lacks an index, or is of an older or a newer hipq; the error says so in
// the end. For the instance's tables that is schema.ErrNotMigrated or ErrNewer. ErrParams says that p can't be, ErrDuplicateID that
// its ID is not new. After ErrLockLost, schema.ErrNoAnswer, and what schema.Diagnose calls TryLater, other workers take its
// jobs. Run may be called again, and beside others, each with an ID of its own or none.
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
		wait, failed := w.scheduler.scheduler.Wait(work) // what stands in its way is met again where it keeps nothing else
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

// begins checks that the tables are those of this hipq, and registers the queues. It leaves out those whose table isn't.
func (w *worker) begins(ctx context.Context) error {
	err := w.db.CheckOnce(ctx, w.tables())
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

// bounded does what comes before the loop, within a time. It goes on for a while when ctx ends: a worker ends in order.
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

// live registers the worker, lets begin start it off, and loops until it is done, under a lock that is renewed all the while.
func (w *worker) live(ctx context.Context, begin func() error) (done Summary, err error) {
	defer func() {
		if at := w.answered.Load(); at != nil && (errors.Is(err, schema.ErrNoAnswer) || errors.Is(err, workers.ErrLockLost)) {
			done.Answered = *at
		}
		if away := w.away(); away != nil && errors.Is(err, workers.ErrLockLost) {
			err = fmt.Errorf("the database is away: %w (%w)", away, err)
		}
		err = errors.Join(w.withLeftOut(err), w.scheduler.failure())
	}()
	// what a job needs to be settled in order goes on when ctx has ended
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
			// nothing can be written under an expired lock, and the database may neither answer nor hang up
			time.AfterFunc(w.Grace+time.Second, func() { stopWork(workers.ErrLockLost) })
		}
	})()

	defer close(w.runner.begun)
	began := process.Uptime()
	register := func(ctx context.Context) error { return w.table.Register(ctx, w.self, w.LockFor) }
	// a lock that is as old as it lasts is none
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

	if err := begin(); err != nil {
		return w.summary, errors.Join(err, w.signOff(nil))
	}
	if err := w.goOn(); err != nil {
		w.abandon(err)
		if errors.Is(err, workers.ErrLockLost) {
			w.summary.Lost = w.summary.Unsettled()
		}
		// else others must wait for the lock to expire
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), pollEvery)
		defer cancel()
		_ = w.table.End(end, w.self, activity.Error, w.summary.Started, err)
		return w.summary, err
	}
	// all that it began is settled
	vain := w.inVain()
	remark := vain
	if w.Close != nil {
		if left := w.Close(); left != "" {
			remark = errors.Join(vain, errors.New(left))
		}
	}
	return w.summary, errors.Join(vain, w.signOff(remark))
}

// signOff ends the worker's row, if the database answers soon and while the lock holds. remark, if any, goes to the activity.
func (w *worker) signOff(remark error) error {
	w.beQuiet()
	end, cancel := context.WithDeadline(w.work, w.quietSince.Add(w.patience()))
	defer cancel()
	for {
		err := w.table.End(end, w.self, activity.Finished, w.summary.Started, remark)
		kind, _ := schema.Diagnose(err)
		switch later := end.Err() != nil || kind == schema.TryLater; {
		case err == nil || !later:
			return err
		case w.lockLost():
			return workers.ErrLockLost
		case end.Err() != nil:
			return w.unanswered(err)
		}
		select {
		case <-end.Done():
		case <-time.After(pollEvery):
		}
	}
}

// abandon stops what runs and waits for it to end. What is not settled then is reclaimed when the lock has expired.
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
