package worker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/roster"
)

// errCancelled is the cause that a handler sees whose job an operator has cancelled.
var errCancelled = errors.New(job.Cancelled)

// line is one queue, as the worker sees it, or the part of a queue that has a lane of its own: what it locks, runs and
// settles.
type line struct {
	Queue
	// types are those of its jobs; asked those of them about whose retry a handler decides, byPolicy the others.
	types, asked, byPolicy []string
	// lanes are those that its jobs are in, from the one that all share to the narrowest.
	lanes  []*lane
	locker *queue.Locker
	// pool are the jobs locked and not started.
	pool []queue.Locked
	// unanswered are those that a round was to start which ended in an error: they may be running.
	unanswered []queue.Locked
	// ended are the attempts to settle.
	ended []queue.Settled
	// failing says that there may be jobs which wait for a retry handler; undecided are those that the worker has.
	failing   bool
	undecided []queue.Settled
	// running is how many of its attempts and decisions run.
	running int
	// cancel stops the jobs that run, by id.
	cancel map[int64]context.CancelCauseFunc
	// more says that a lock may find something: it isn't known to be empty. If it is rationed, it may from moreAt on.
	more     bool
	rationed bool
	moreAt   time.Time
}

// addLines adds the lines of a queue: one for each type that has a lane of its own, one for all others.
func (w *worker) addLines(q Queue) {
	lanes := []*lane{w.all}
	if q.Concurrency > 0 {
		lanes = append(lanes, w.lane(roster.Lane(q.Name, ""), q.Concurrency))
	}
	var common []string
	for _, name := range slices.Sorted(maps.Keys(q.Handlers)) {
		if own := q.JobType(name).Concurrency; own > 0 {
			w.addLine(q, []string{name}, append(slices.Clip(lanes), w.lane(roster.Lane(q.Name, name), own)))
		} else {
			common = append(common, name)
		}
	}
	if len(common) > 0 || len(q.Handlers) == 0 {
		w.addLine(q, common, lanes)
	}
}

func (w *worker) addLine(q Queue, types []string, lanes []*lane) {
	l := &line{
		Queue: q, types: types, lanes: lanes, locker: q.NewLocker(w.ID, types), cancel: map[int64]context.CancelCauseFunc{},
	}
	for _, t := range types {
		if q.RetryHandlers[t] != nil {
			l.asked = append(l.asked, t)
		} else {
			l.byPolicy = append(l.byPolicy, t)
		}
	}
	w.lines = append(w.lines, l)
}

// doubt notes jobs that a round was to start which ended in an error.
func (l *line) doubt(start []queue.Locked) {
	for _, j := range start {
		if !slices.Contains(l.unanswered, j) {
			l.unanswered = append(l.unanswered, j)
		}
	}
}

// free is how many more jobs of the line may run now.
func (l *line) free() int {
	free := l.lanes[0].free()
	for _, lane := range l.lanes[1:] {
		free = min(free, lane.free())
	}
	return free
}

// width is how many jobs of the line may run at once at most.
func (l *line) width() int {
	width := l.lanes[0].limit
	for _, lane := range l.lanes[1:] {
		width = min(width, lane.limit)
	}
	return width
}

// busy says whether something runs that keeps the line from starting more.
func (l *line) busy() bool {
	return slices.ContainsFunc(l.lanes, func(lane *lane) bool { return lane.running > 0 })
}

// noSlots says whether others on this host have all slots of one of its lanes.
func (l *line) noSlots() bool {
	return slices.ContainsFunc(l.lanes, func(lane *lane) bool { return lane.slots == 0 })
}

// wants says whether the line has something to start.
func (l *line) wants() bool { return l.more || len(l.pool)+len(l.undecided) > 0 }

// want is how many slots the line has a use for, at most.
func (l *line) want() int {
	if l.more {
		return l.width()
	}
	n := l.running + len(l.pool) + len(l.undecided)
	for _, e := range l.ended {
		if e.Decide == queue.ByHandler && !e.Decided {
			n++ // its retry handler is asked as soon as it is settled
		}
	}
	return n
}

// began and took count what runs.
func (l *line) began() {
	l.running++
	for _, lane := range l.lanes {
		lane.running++
	}
}

func (l *line) took() {
	l.running--
	for _, lane := range l.lanes {
		lane.running--
	}
}
