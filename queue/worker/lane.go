package worker

import "github.com/hipq/hipq/internal/roster"

// lane bounds how many jobs run at once on this host, over all of the instance's workers on it: all jobs, those of a queue,
// or those of a job type. What runs in a lane runs in the lanes around it too.
type lane struct {
	name   string
	around *lane
	limit  int
	// slots is how many jobs may run in it at once now, for this worker; running is how many do, reserved how many may be
	// started by rounds that are out.
	slots, running, reserved int
	// served says that others on this host have slots of it who still start jobs.
	served bool
}

// addLane gives the lane of a name, made if it isn't there.
func (w *worker) addLane(name string, around *lane, limit int) *lane {
	for _, l := range w.lanes {
		if l.name == name {
			return l
		}
	}
	l := &lane{name: name, around: around, limit: limit}
	w.lanes = append(w.lanes, l)
	return l
}

// free is how many more jobs may be started in it now.
func (l *lane) free() int {
	free := l.slots - l.running - l.reserved
	if l.around != nil {
		free = min(free, l.around.free())
	}
	return free
}

// width is how many jobs may run in it at once, at most.
func (l *lane) width() int {
	if l.around == nil {
		return l.limit
	}
	return min(l.limit, l.around.width())
}

// without says whether others on this host have all slots of it, or of a lane around it, and will look after what waits there: not
// where none of them starts anything more.
func (l *lane) without() bool {
	return l.slots == 0 && l.served || l.around != nil && l.around.without()
}

// occupied says whether something runs, or may be starting, that keeps jobs of it from starting.
func (l *lane) occupied() bool {
	return l.running+l.reserved > 0 || l.around != nil && l.around.occupied()
}

// occupy counts n jobs that run, reserve n that may be started.
func (l *lane) occupy(n int) {
	for ; l != nil; l = l.around {
		l.running += n
	}
}

func (l *lane) reserve(n int) {
	for ; l != nil; l = l.around {
		l.reserved += n
	}
}

// inUse is how many slots it can't give away.
func (l *lane) inUse() int { return l.running + l.reserved }

// clamp makes n slots what can be had of the lane: no less than is in use.
func (l *lane) clamp(n int) int { return max(l.inUse(), min(n, l.limit)) }

// claims are what the worker would like to hold of each lane, by name. A lane of which nothing is to be started keeps what
// is in use or about to be, and leaves the others to the host's other workers; and so does the lane around one that is
// full, for what waits there has no use for more.
func (w *worker) claims(accepting bool) map[string]roster.Claim {
	wants := map[*lane]int{}
	for _, s := range w.sources {
		wants[s.lane] += s.want(accepting)
	}
	claims := map[string]roster.Claim{}
	for i := len(w.lanes) - 1; i >= 0; i-- { // each before the one around it
		l := w.lanes[i]
		want := l.clamp(wants[l])
		if l.around != nil {
			wants[l.around] += want
		}
		claims[l.name] = roster.Claim{Want: want, InUse: l.inUse(), Limit: l.limit}
	}
	return claims
}

// balance asks for the slots that are missing, if it is to claim, and leaves those that aren't needed to the host's other
// workers, who are told when none is started any more.
func (w *worker) balance(claim, accepting bool) {
	if w.only || w.balancing {
		return // the slot of one job is beside the others'
	}
	claims, missing, spare := w.claims(accepting), false, false
	keep := map[string]int{}
	for _, l := range w.lanes {
		want := claims[l.name].Want
		missing = missing || want > l.slots
		spare = spare || want < l.slots
		keep[l.name] = min(l.slots, want)
	}
	// at once, for what is about to be left must not be used meanwhile
	w.setSlots(keep)
	switch {
	case missing && claim:
		w.balancing = true
		w.task(func() func() error {
			got, served, err := w.roster.ClaimSlots(w.work, w.self, claims)
			return func() error {
				w.balancing = false
				if err == nil {
					w.setSlots(got)
					for _, l := range w.lanes {
						l.served = served[l.name]
					}
					w.dropWithout()
				}
				return w.trouble(err)
			}
		})
	case spare, !accepting && !w.declined && w.host.inUse() > 0 && w.untilAnswer() <= 0:
		w.balancing = true
		w.task(func() func() error {
			err := w.roster.LeaveSlots(w.work, w.self, keep, accepting)
			return func() error {
				w.balancing = false
				w.declined = w.declined || !accepting && err == nil
				return w.trouble(err)
			}
		})
	}
}

// dropWithout gives up sources for which others on this host have all slots: those will look after them.
func (w *worker) dropWithout() {
	for _, s := range w.sources {
		may := !s.lane.without() || s.lane.occupied()
		for _, one := range s.shards {
			one.more, one.full = one.more && may, one.full && may
		}
	}
}

func (w *worker) setSlots(slots map[string]int) {
	for _, l := range w.lanes {
		l.slots = slots[l.name]
	}
}
