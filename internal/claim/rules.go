// Package claim decides which jobs start now. It has no SQL, no clock and no goroutine: its caller reads what is known of a
// queue's limits and the next jobs in order, asks Decide, and applies the decisions.
//
// These are the rules. docs/explanation/order.md has them for users, and grab.sql for workers in SQL, without groups and rate.
//
//  1. A due job starts if its time windows are open, a slot is free, and each of its limits has room. An invalid one is refused,
//     and one whose windows have closed is postponed. A job whose row another transaction has is passed over, unless it waits.
//  2. The limits that a job uses are its throttle group's, the queue's, and the queue's rate. One of weight 0 uses only the rate.
//  3. A limit has room for a job that fits into what is left of it, if no earlier job waits for it. A job that is heavier than
//     the whole limit fits once nothing else uses it, and no other shard has a share of it.
//  4. A job without room waits for the first of its limits that has none, in the order above. It blocks that limit for what is
//     behind it, and no other limit.
//  5. A group holds the jobs that lack its room: they are not read while it is full. Of those that lack room in the queue or the
//     rate, the first in each limit that this lane would start gets in line, and later ones stay due. A held job that lacks only
//     one of these gets in line, too. If its group is full again, it is held again. Each shard has one line, and each round
//     reads it.
//  6. A waiting job that another worker or lane would start also blocks here: the limit that it lacks, or all of its limits if it
//     lacks none, because it starts next. If it is held and the first there, it gets in line, where those look that would start it.
//  7. Each second a worker with a free slot asks for its jobs in line. One of another worker that none has asked for in AskLasts
//     blocks nothing. After Forgotten it leaves the line, with what its group holds of its type. A waiting job whose lane in this
//     worker is full blocks nothing, and stays.
//  8. Without a free slot, a job of ours blocks nothing. If it waited, it is in line, and no worker asks for it.
//
// The worker that frees room claims at once (worker.foundRoom), and a transaction that ends jobs of a group puts the first held
// one in line (store.LetIn). Other workers see it at their next poll; they poll while they have jobs that wait.
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
	// Ours says that this lane, for which the jobs are decided, runs jobs of its type. Busy says that another lane of the same
	// worker does, and has no free slot.
	Ours, Busy bool
	// Held says that its group holds it, so that no worker asks for it; InLine that it waits as one of the first.
	Held, InLine bool
	// Asked is when a worker last asked for it in line. A clock that was set back may have it in the future.
	Asked time.Time
	// Elsewhere says that another transaction has just started it, or has its row, so that it isn't Ours. One in line is still the
	// first there.
	Elsewhere bool
	// Unread is a group of which jobs follow this one that are not in the list, so that nothing later that uses it starts.
	Unread Scope
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
	LineUp                 // it is in line, where each round looks, and a worker asks for it now
	Unask                  // it is in line, and no worker asks for it, because it waits for a slot
	Release                // it leaves the line, and is due again, as is what its group holds of its type
)

// Decision is what happens to one job.
type Decision struct {
	Action Action
	// Lacks is why it doesn't start: Slot, or else the first limit without room for it.
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
		if limit := l[j.Unread]; limit != nil {
			limit.noteWaiter(1) // of whatever weight
		}
	}
	return decisions
}

func (l Limits) decide(j Job, slots int, now time.Time) Decision {
	lacks := l.firstLacking(j)
	switch {
	case j.Elsewhere && !j.isWaiting():
		return Decision{}
	case j.Invalid:
		return Decision{Action: Reject}
	case j.Opens.After(now):
		return Decision{Action: Postpone}
	case !j.Blocks(now):
		return j.keepOrForget(now)
	case !j.Ours:
		return l.startsElsewhere(j, lacks)
	case slots < 1:
		return j.withoutSlot(now)
	case lacks == None:
		l.use(j)
		return Decision{Action: Start}
	}
	return l.waitFor(lacks, j, now)
}

// keepOrForget says whether a job that blocks nothing leaves the line.
func (j Job) keepOrForget(now time.Time) Decision {
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
			isFirst = limit.noteWaiter(j.uses(s)) || isFirst
		}
	}
	if isFirst && j.Held {
		return Decision{LineUp, lacks} // where the worker that runs it looks
	}
	return Decision{Lacks: lacks}
}

// withoutSlot says how a job of ours waits for a slot: it blocks nothing.
func (j Job) withoutSlot(now time.Time) Decision {
	if j.Held || j.InLine && j.wasAsked(now, AskLasts) {
		return Decision{Unask, Slot}
	}
	return Decision{Lacks: Slot}
}

// waitFor says how a job of ours waits for a limit.
func (l Limits) waitFor(lacks Scope, j Job, now time.Time) Decision {
	limit := l[lacks]
	isFirstOfOurs := !limit.oursWaits
	limit.noteWaiter(j.uses(lacks))
	limit.oursWaits = true
	switch lacksGroup := lacks == j.Group; {
	case lacksGroup && !j.isWaiting(), lacksGroup && j.InLine && !limit.HasRoom(1):
		return Decision{Hold, lacks}
	case !lacksGroup && j.Held, !lacksGroup && isFirstOfOurs && !j.InLine:
		return Decision{LineUp, lacks}
	case j.InLine && !j.wasAsked(now, AskEvery):
		return Decision{LineUp, lacks} // asks for it
	}
	return Decision{Lacks: lacks}
}

func (j Job) isWaiting() bool { return j.Held || j.InLine }

// wasAsked says whether a worker has asked for the job within this time.
func (j Job) wasAsked(now time.Time, within time.Duration) bool {
	return now.Sub(j.Asked).Abs() < within
}

// Blocks says whether the job blocks limits while it waits. One that another worker or lane would start doesn't if that lane is
// full, or if no worker has asked for it lately.
func (j Job) Blocks(now time.Time) bool {
	return j.Ours || !j.isWaiting() || !j.Busy && (j.Held || j.wasAsked(now, AskLasts))
}
