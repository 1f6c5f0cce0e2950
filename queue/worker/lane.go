package worker

import "context"

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

// claim is what a worker wants to hold of a lane: so many slots, at least those in use.
type claim struct{ want, inUse, limit int }

// claims are what the worker would like to hold of each lane, by name; all's is "". A lane of which nothing is to be
// started keeps what is in use or about to be, and leaves the others to the host's other workers.
func (w *worker) claims() map[string]claim {
	claims := map[string]claim{}
	for name, lane := range w.named() {
		c := claim{want: lane.running, inUse: lane.running, limit: lane.limit}
		for _, l := range w.lines {
			if l.in(lane) {
				c.want += len(l.pool) + len(l.undecided)
			}
		}
		for _, l := range w.lines {
			if l.in(lane) && l.more {
				c.want = lane.limit
			}
		}
		c.want = max(c.inUse, min(c.want, lane.limit))
		claims[name] = c
	}
	return claims
}

func (w *worker) named() map[string]*lane {
	named := map[string]*lane{"": w.all}
	for name, lane := range w.lanes {
		named[name] = lane
	}
	return named
}

func (l *line) in(lane *lane) bool {
	for _, own := range l.lanes {
		if own == lane {
			return true
		}
	}
	return false
}

// claimSlots asks for the slots that are missing, and leaves those that are not needed.
func (w *worker) claimSlots(work context.Context) error {
	claims, more, less := w.claims(), false, false
	for name, lane := range w.named() {
		more = more || claims[name].want > lane.slots
		less = less || claims[name].want < lane.slots
	}
	switch {
	case more:
		got, err := w.registry.claimSlots(work, claims)
		if err != nil {
			return err
		}
		w.setSlots(got)
	case less:
		return w.leaveSlots(work, claims)
	}
	return nil
}

// leaveSlots keeps no more than is wanted.
func (w *worker) leaveSlots(work context.Context, claims map[string]claim) error {
	keep := map[string]int{}
	for name, lane := range w.named() {
		keep[name] = min(lane.slots, claims[name].want)
	}
	if err := w.registry.leaveSlots(work, keep); err != nil {
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
