// Package claim decides which jobs start now. It has no SQL, no clock and no goroutine: its caller reads what is known of a
// queue's limits and the next jobs in order, asks Decide, and applies the decisions.
//
// These are the rules, as docs/explanation/order.md has them for users, and grab.sql, without groups and rate, for workers in SQL:
//
//   - A job starts if it is due, its time windows are open, a slot is free, and each of its limits has room. An invalid one is
//     refused; one whose windows have closed is postponed.
//   - The limits are its throttle group's, the queue's, and the queue's rate. A job of weight 0 asks only the rate.
//   - A job without room waits for one limit at a time, the first in this order that has none for it, and nothing behind it in
//     that limit starts. Each round reads the line of such jobs. The first one that a worker runs and that lacks room in the
//     queue or the rate gets in line, and later ones stay due. A group holds all that lack its room; the first gets in line
//     once the group has some.
//   - A job in line that has room in all of its limits starts before what is behind it in any of them.
//   - A job that is heavier than a limit runs when nothing else of that limit does.
//   - A worker with a free slot asks for the jobs in line of the types that it runs. Another worker's job in line that none has
//     asked for in AskLasts blocks nothing, nor does one whose lane is full. After Forgotten it leaves the line, with what its
//     group holds of its type.
//
// Room that is free again is noticed at once: a transaction that ends jobs of a group puts the first held one in line
// (store.LetIn), and its worker claims (worker.foundRoom). Other workers poll while they have jobs that wait.
package claim

import "time"

// AskLasts is how long a job in line blocks others after a worker last asked for it: perhaps none runs its type. After
// Forgotten it leaves the line. AskEvery is how often a worker repeats that it asks for it.
const (
	AskLasts  = 10 * time.Second
	Forgotten = 6 * AskLasts
	AskEvery  = time.Second
)

// Job is a job that is due, as far as the rules need it.
type Job struct {
	Weight int
	// Group is its throttle group; None if it has none.
	Group Scope
	// Invalid says that the row is no valid job.
	Invalid bool
	// Opens is when its time windows open next; now or earlier if they are open.
	Opens time.Time
	// Ours says that the jobs are decided for a worker that runs its type. Busy says that another lane of that worker runs it,
	// and has no free slot.
	Ours, Busy bool
	// Held says that its group holds it, so that no worker asks for it; InLine that it waits as one of the first.
	Held, InLine bool
	// Asked is when a worker last asked for it in line. A clock that was set back may have it in the future.
	Asked time.Time
	// Elsewhere says that another transaction has just started it, or has its row, so that it isn't Ours. One in line is still the
	// first there.
	Elsewhere bool
	// MoreBehind is a group of which jobs that are not in the list follow this one.
	MoreBehind Scope
}

// Action is what happens to a job now.
type Action int

// The actions.
const (
	Leave    Action = iota // as it is
	Start                  // now
	Postpone               // to the next opening of its windows
	Reject                 // it fails, because its row is invalid
	Hold                   // its group holds it, where rounds look once the group has room
	LineUp                 // it is in line, where each round looks, and a worker asks for it from now on
	Unask                  // it is in line, and no worker asks for it, because it waits for a slot
	Release                // it leaves the line, and what its group holds of its type is free, too
)

// Decision is what happens to one job.
type Decision struct {
	Action Action
	// Lacks is the first limit that has no room for it, or Slot.
	Lacks Scope
}

// Decide says what each of these jobs does now. They are in the order of the queue, and behind those of earlier calls. It
// changes the limits as it goes.
func (l Limits) Decide(jobs []Job, slots int, now time.Time) []Decision {
	decisions := make([]Decision, len(jobs))
	for i, j := range jobs {
		d := l.decide(j, slots, now)
		if decisions[i] = d; d.Action == Start {
			slots--
		}
		if limit := l[j.MoreBehind]; limit != nil {
			limit.noteWaiter(1) // a job that waits there, of whatever weight, may be before the next ones
		}
	}
	return decisions
}

func (l Limits) decide(j Job, slots int, now time.Time) Decision {
	lacks := l.without(j)
	switch {
	case j.Elsewhere && !j.waits():
		return Decision{}
	case j.Invalid:
		return Decision{Action: Reject}
	case j.Opens.After(now):
		return Decision{Action: Postpone}
	case !j.Blocks(now):
		return j.stays(now)
	case !j.Ours:
		return l.startsElsewhere(j, lacks)
	case slots < 1:
		return j.withoutSlot(now)
	case lacks == None:
		l.use(j)
		return Decision{Action: Start}
	}
	return l.wait(j, lacks, now)
}

// stays says for how long a job stays in line that blocks nothing.
func (j Job) stays(now time.Time) Decision {
	if j.Busy || j.wasAsked(now, Forgotten) {
		return Decision{}
	}
	return Decision{Action: Release}
}

// startsElsewhere says how another worker's job waits. If it lacks nothing, it starts there before what is behind it here.
func (l Limits) startsElsewhere(j Job, lacks Scope) Decision {
	isFirst := false
	for _, s := range j.scopes() {
		if limit := l[s]; limit != nil && (lacks == None || s == lacks) {
			isFirst = limit.noteWaiter(j.in(s)) || isFirst
		}
	}
	if isFirst && j.Held {
		return Decision{LineUp, lacks} // its worker must know
	}
	return Decision{Lacks: lacks}
}

// withoutSlot says how a job of ours waits for a slot: it no longer blocks others.
func (j Job) withoutSlot(now time.Time) Decision {
	if j.Held || j.InLine && j.wasAsked(now, AskLasts) {
		return Decision{Unask, Slot}
	}
	return Decision{Lacks: Slot}
}

// wait says how a job of ours waits for a limit.
func (l Limits) wait(j Job, lacks Scope, now time.Time) Decision {
	limit := l[lacks]
	isFirstOfOurs := !limit.oursWaits
	limit.noteWaiter(j.in(lacks))
	limit.oursWaits = true
	isFull, lacksGroup := !limit.HasRoom(1), lacks == j.Group
	switch {
	case lacksGroup && (!j.waits() || j.InLine && isFull):
		return Decision{Hold, lacks}
	case !lacksGroup && (j.Held || isFirstOfOurs && !j.InLine), j.InLine && !j.wasAsked(now, AskEvery):
		return Decision{LineUp, lacks}
	}
	return Decision{Lacks: lacks}
}

func (j Job) waits() bool { return j.Held || j.InLine }

// wasAsked says whether a worker has asked for the job within this time.
func (j Job) wasAsked(now time.Time, within time.Duration) bool {
	return now.Sub(j.Asked).Abs() < within
}

// Blocks says whether nothing behind the job starts while it waits. Another worker's job doesn't block others if its lane is
// full, or if that worker may be gone.
func (j Job) Blocks(now time.Time) bool {
	return j.Ours || !j.waits() || !j.Busy && (j.Held || j.wasAsked(now, AskLasts))
}
