// Package worker is one execution of hipq's worker: it starts jobs, runs their handlers, and settles them, until nothing is
// due or the time is up.
//
// It sees each queue, and each part of one that has a lane of its own, as a source. It sends rounds to a source when
// attempts have ended or slots are free; between them it looks after all of them once a second.
//
// One goroutine, the loop, owns all state. What has to wait for the database is a task beside it, and gives back what the
// loop then does with the answer: so neither a slow commit nor a database that is silent holds up the loop.
package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/internal/roster"
	"github.com/hipq/hipq/internal/timetable"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/schema"
)

// ErrInterrupted is the cause that handlers see, and the error that their jobs get, when the worker was told to stop and
// the grace is over.
var ErrInterrupted = errors.New("interrupted")

// Summary is what a worker did.
type Summary struct {
	Started, Finished, Errors int
	// Lost are the attempts that could not be settled because the lock was lost meanwhile.
	Lost int
	// Answered is when the database last answered a worker that ended because it didn't any more, by this host's clock; else zero.
	Answered time.Time
}

// Unsettled is how many attempts have begun of whose outcome the worker could write nothing.
func (s Summary) Unsettled() int { return s.Started - s.Finished - s.Errors }

// ErrLockLost is the error of a worker that didn't renew its lock in time, and the cause that its handlers see: others take its
// jobs.
var ErrLockLost = roster.ErrLockLost

// ErrKnown is the error of a worker with an ID that another has had.
var ErrKnown = roster.ErrKnown

// worker is one Run.
type worker struct {
	Params
	// self is how the roster, and the activity, name it.
	self    roster.Worker
	db      *schema.DB
	roster  *roster.Roster
	sources []*source
	// turn is the source that is served first next time.
	turn int
	// host is the lane that all jobs share; lanes are all there are, each behind the one around it.
	host  *lane
	lanes []*lane
	// begun gets the attempts that begin, where one that has ended left a goroutine for them.
	begun chan func()
	// ended gets each attempt and each decision when it ends; it has room for all.
	ended chan ended
	// landed gets what is to be done when a task has come back; tasks is how many are out.
	landed chan func() error
	tasks  int
	// heldUntil is until when, in nanoseconds of process.Uptime, jobs may run under the lock as it is.
	heldUntil atomic.Int64
	// work is the context of the tasks; it goes on when the worker is told to stop. jobs is that of all handlers: its cause
	// says why they must stop.
	work, jobs context.Context
	// told ends when the worker is told to stop.
	told               context.Context
	stopWork, stopJobs context.CancelCauseFunc
	// only says that the worker is for one job, beside the host's concurrency: it takes on nothing else.
	only bool
	// over is when nothing new is started any more.
	over time.Time
	// lookAt is when the last look began; looking that it is under way, toLook at which sources it has yet to look. lookSent is
	// when what it waits for was sent, if it waits; burying that the dead are being looked after.
	lookAt, lookSent time.Time
	looking, burying bool
	toLook           []*source
	// searched are the workers that are no more whose strays have been looked for on this host; looks share it.
	searching sync.Mutex
	searched  map[string]bool
	// balancing says that slots are being claimed or left; declined that the others on this host know that nothing is started any more.
	balancing, declined bool
	// timetable has the Schedules; tendAt is when to look at it again, tending that it is being seen to, and untended what has kept
	// that from being done.
	timetable *timetable.Timetable
	tendAt    time.Time
	tending   bool
	// accepts says what accepting did in this turn of the loop, for the tasks.
	accepts  atomic.Bool
	untended error
	progress *progressing
	// changed says that jobs were settled since, or enqueued by a schedule: one may be due at once.
	changed bool
	// pausedUntil is until when the database is left alone, after it didn't answer. awaySince is since when it has not answered, as
	// the log says; zero if it does.
	pausedUntil, awaySince time.Time
	// quietSince is since when nothing runs any more, and only the database is waited for; missed is its last trouble since,
	// nil if there was none.
	quietSince time.Time
	missed     atomic.Pointer[error]
	// answered is when the database last did.
	answered atomic.Pointer[time.Time]
	// commits is how long the last round took.
	commits time.Duration
	summary Summary
}

// newWorker is a worker before anything has happened.
func newWorker(p Params) (*worker, error) {
	p, err := p.complete()
	if err != nil {
		return nil, err
	}
	db := p.Queues[0].Rounds().DB()
	w := &worker{
		Params: p, self: roster.Worker{ID: p.ID, Host: p.Host, PID: p.PID, Process: process.Identity()}, db: db, roster: roster.New(db),
		timetable: timetable.New(db, p.Schedules),
		begun:     make(chan func()), ended: make(chan ended, p.Concurrency), landed: make(chan func() error), searched: map[string]bool{},
		progress: newProgress(),
	}
	w.host = w.addLane("", nil, p.Concurrency)
	for _, q := range p.Queues {
		w.addSources(q)
	}
	if len(w.sources) > 0 {
		w.turn = rand.IntN(len(w.sources)) // else many short runs would serve the first only
	}
	return w, nil
}

// Run registers its queues and itself, and works until nothing is due (or, with Linger, until RunFor is over) and every job
// that it started has ended. When ctx ends it starts nothing more, waits Grace for what runs, interrupts the rest, and returns
// nil. A queue whose table is not there, lacks an index, or is of an older or a newer hipq, is left out, and the error says so
// in the end; schema.ErrNotMigrated and ErrNewer say so of the instance's tables. ErrParams says that p can't be, ErrKnown that
// its ID is not new; ErrLockLost, schema.ErrNoAnswer, and what schema.Diagnose calls TryLater, that the jobs it had are left to
// other workers. It may be called again, and beside others, each with an ID of its own or none.
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
		if idle, err = w.nothingToDo(work); idle && !p.Linger {
			err = w.roster.Pass(work, w.self)
		}
		return err
	})
	if err != nil || idle && !p.Linger || w.allLeftOut() {
		return w.summary, w.withLeftOut(err)
	}
	return w.live(ctx, func() error {
		w.over = time.Now().Add(w.RunFor)
		return nil
	})
}

// begins checks the tables, and registers the queues that are not left out.
func (w *worker) begins(ctx context.Context) error {
	if err := w.checkTables(ctx); err != nil {
		return err
	}
	for _, q := range w.Queues {
		if w.isLeftOut(q.Name) {
			continue
		}
		if err := q.Register(ctx); errors.Is(err, queue.ErrShards) {
			w.leaveOut(q.Name, err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// bounded does what comes before the loop. It goes on when ctx ends, for one that is told to stop ends in order; but neither
// then nor later does it wait for ever.
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
		if at := w.answered.Load(); at != nil && (errors.Is(err, schema.ErrNoAnswer) || errors.Is(err, roster.ErrLockLost)) {
			done.Answered = *at
		}
		err = w.withUntended(w.withLeftOut(err))
	}()
	// what a job needs to be settled in order goes on when ctx has ended
	work, stopWork := context.WithCancelCause(engine.Hearing(context.WithoutCancel(ctx), w.miss))
	defer stopWork(nil)
	w.work, w.stopWork, w.told = work, stopWork, ctx
	w.jobs, w.stopJobs = context.WithCancelCause(work)
	defer w.stopJobs(nil)
	defer context.AfterFunc(w.jobs, func() {
		if errors.Is(context.Cause(w.jobs), roster.ErrLockLost) {
			// by the time that the lock has expired there is nothing more to write; a database may neither answer nor hang up
			time.AfterFunc(w.Grace+time.Second, func() { stopWork(roster.ErrLockLost) })
		}
	})()

	defer close(w.begun)
	began := process.Uptime()
	register := func(ctx context.Context) error { return w.roster.Register(ctx, w.self, w.LockFor) }
	// a lock that is as old as it lasts is none
	if err := w.bounded(ctx, min(w.LockFor, w.patience()), register); err != nil {
		return w.summary, err
	}
	w.hold(began)
	w.Renewed(w.LockFor - (process.Uptime() - began))
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
	defer context.AfterFunc(ctx, func() { time.AfterFunc(w.Grace, func() { w.stopJobs(ErrInterrupted) }) })()

	if err := begin(); err != nil {
		return w.summary, errors.Join(err, w.signOff(nil))
	}
	if err := w.loop(ctx); err != nil {
		w.abandon(err)
		if errors.Is(err, roster.ErrLockLost) {
			w.summary.Lost = w.summary.Unsettled()
		}
		// so that others need not wait for the lock to expire; if the database can't be reached, they must
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookEvery)
		defer cancel()
		_ = w.roster.End(end, w.self, activity.Error, w.summary.Started, err.Error())
		return w.summary, err
	}
	// whatever it has not come to, all that it began is settled
	vain := w.inVain(ctx)
	return w.summary, errors.Join(vain, w.signOff(vain))
}

// signOff ends the worker's row, as soon as the database answers, if that is soon and while the lock holds. remark, if not nil,
// goes to the activity.
func (w *worker) signOff(remark error) error {
	until := time.Now().Add(w.patience())
	if !w.quietSince.IsZero() {
		until = w.quietSince.Add(w.patience()) // what has been waited for the database counts
	} else {
		w.missed.Store(nil)
	}
	end, cancel := context.WithDeadline(w.work, until)
	defer cancel()
	text := ""
	if remark != nil {
		text = remark.Error()
	}
	for {
		err := w.roster.End(end, w.self, activity.Finished, w.summary.Started, text)
		kind, _ := schema.Diagnose(err)
		switch later := end.Err() != nil || kind == schema.TryLater; {
		case err == nil || !later:
			return err
		case errors.Is(context.Cause(w.jobs), roster.ErrLockLost):
			return roster.ErrLockLost
		case end.Err() != nil:
			return w.unanswered(err)
		}
		select {
		case <-end.Done():
		case <-time.After(lookEvery):
		}
	}
}

// abandon stops what runs and waits for it to end. What is not settled then is reclaimed when the lock has expired.
func (w *worker) abandon(cause error) {
	w.stopJobs(cause)
	defer time.AfterFunc(w.Grace, func() { w.stopWork(cause) }).Stop()
	for w.host.running > 0 || w.tasks > 0 {
		select {
		case e := <-w.ended:
			e.source.lane.occupy(-1)
		case <-w.landed:
			w.tasks--
		}
	}
}
