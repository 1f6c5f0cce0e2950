package worker

import (
	"context"

	"github.com/hipq/hipq/queue/roster"
)

// lane bounds how many jobs run at once on this host, over all of the instance's workers on it: all of them, or those of a
// queue or of a job type that has a concurrency of its own.
type lane struct {
	limit int
	// slots is how many jobs may run in it at once now, for this worker; running how many do.
	slots, running int
	// dealt is how many are being started.
	dealt int
}

func (l *lane) free() int { return l.slots - l.running - l.dealt }

// lane is the lane of a name, made if it isn't there.
func (w *worker) lane(name string, limit int) *lane {
	if w.lanes[name] == nil {
		w.lanes[name] = &lane{limit: limit}
	}
	return w.lanes[name]
}

// claims are what the worker would like to hold of each lane, by name; all's is "". A lane of which nothing is to be
// started keeps what is in use or about to be, and leaves the others to the host's other workers; and so does the lane
// around one that is full, for what waits there has no use for more.
func (w *worker) claims() map[string]roster.Claim {
	wants := map[*lane]int{}
	for _, l := range w.lines {
		wants[l.lanes[len(l.lanes)-1]] += l.want()
	}
	for depth := maxLanes - 1; depth > 0; depth-- {
		seen := map[*lane]bool{}
		for _, l := range w.lines {
			if len(l.lanes) <= depth || seen[l.lanes[depth]] {
				continue
			}
			inner := l.lanes[depth]
			seen[inner] = true
			wants[l.lanes[depth-1]] += inner.clamp(wants[inner])
		}
	}
	claims := map[string]roster.Claim{}
	for name, lane := range w.named() {
		claims[name] = roster.Claim{Want: lane.clamp(wants[lane]), InUse: lane.running, Limit: lane.limit}
	}
	return claims
}

// maxLanes is how many lanes a line may be in: that of all, its queue's, its type's.
const maxLanes = 3

// clamp makes n slots what can be had of the lane: no less than is in use.
func (l *lane) clamp(n int) int { return max(l.running, min(n, l.limit)) }

// spare says whether the worker has slots of a lane that it doesn't claim.
func (w *worker) spare(claims map[string]roster.Claim) bool {
	for name, lane := range w.named() {
		if lane.slots > claims[name].Want {
			return true
		}
	}
	return false
}

func (w *worker) named() map[string]*lane {
	named := map[string]*lane{"": w.all}
	for name, lane := range w.lanes {
		named[name] = lane
	}
	return named
}

// claimSlots asks for the slots that are missing, and leaves those that are not needed.
func (w *worker) claimSlots(work context.Context) error {
	claims, more := w.claims(), false
	for name, lane := range w.named() {
		more = more || claims[name].Want > lane.slots
	}
	switch {
	case more:
		got, err := w.roster.ClaimSlots(work, w.Worker, claims)
		if err != nil {
			return err
		}
		w.setSlots(got)
	case w.spare(claims):
		return w.leaveSlots(work, claims)
	}
	return nil
}

// leaveSlots keeps no more than is wanted.
func (w *worker) leaveSlots(work context.Context, claims map[string]roster.Claim) error {
	keep := map[string]int{}
	for name, lane := range w.named() {
		keep[name] = min(lane.slots, claims[name].Want)
	}
	if err := w.roster.LeaveSlots(work, w.Worker, keep); err != nil {
		return err
	}
	w.setSlots(keep)
	return nil
}

func (w *worker) setSlots(slots map[string]int) {
	for name, lane := range w.named() {
		lane.slots = slots[name]
	}
}
