package worker

import (
	"slices"

	"github.com/hipq/hipq/internal/workers"
)

// lane bounds how many jobs run at once on this host, over the instance's workers there: all jobs, those of a queue, or those
// of a job type. What runs in a lane runs in the lanes around it too.
type lane struct {
	name   string
	around *lane
	// limit is its own, width the least of it and those around.
	limit, width int
	// slots is how many jobs this worker may run in it now, running how many it does, reserved how many its rounds may start.
	slots, running, reserved int
	// served says that other workers on this host, which still start jobs, have slots of it.
	served bool
}

// slots are the lanes of a worker, and what it holds of each on its host.
type slots struct {
	*loop
	// host is the lane that all jobs share; lanes are all there are, each behind the one around it.
	host  *lane
	lanes []*lane
	// own says that the worker is for one job, whose slot is beside the host's others.
	own bool
	// balancing says that slots are being claimed or left; declined that the host's others know that this worker starts no more.
	balancing, declined bool
}

// newLane makes a lane; that of all jobs has none around it.
func (s *slots) newLane(name string, around *lane, limit int) *lane {
	l := &lane{name: name, around: around, limit: limit, width: limit}
	if around != nil {
		l.width = min(limit, around.width)
	}
	s.lanes = append(s.lanes, l)
	return l
}

func (l *lane) free() int {
	free := l.slots - l.inUse()
	if l.around != nil {
		free = min(free, l.around.free())
	}
	return free
}

// without says whether others on this host, which still start jobs, have all slots of it or of a lane around it.
func (l *lane) without() bool {
	return l.slots == 0 && l.served || l.around != nil && l.around.without()
}

// count counts jobs that run, and those that may be started.
func (l *lane) count(running, reserved int) {
	for ; l != nil; l = l.around {
		l.running += running
		l.reserved += reserved
	}
}

// inUse is how many slots it can't give away.
func (l *lane) inUse() int { return l.running + l.reserved }

// balance asks for the slots that are missing, if it is to claim, and leaves those that aren't needed to the host's other
// workers, who are told when none is started any more. A lane of which nothing is to be started keeps what is in use or about
// to be; so does the lane around one that is full, because what waits there has no use for more.
func (s *slots) balance(claim bool) {
	if s.own || s.balancing {
		return
	}
	accepting, takes, claims, wants := s.accepting(), false, map[string]workers.Claim{}, map[*lane]int{}
	leaves := !accepting && !s.declined && s.host.inUse() > 0 && s.untilAnswer() <= 0
	for _, one := range s.sources {
		wants[one.lane] += one.want(accepting)
	}
	for _, l := range slices.Backward(s.lanes) { // each before the one around it
		want := max(l.inUse(), min(wants[l], l.limit))
		if l.around != nil {
			wants[l.around] += want
		}
		takes, leaves = takes || claim && want > l.slots, leaves || want < l.slots
		l.slots = min(l.slots, want) // at once, because what is about to be left must not be used meanwhile
		if !claim {
			want = l.slots
		}
		claims[l.name] = workers.Claim{Want: want, InUse: l.inUse(), Limit: l.limit}
	}
	if !takes && !leaves {
		return
	}
	s.balancing = true
	s.task(func() func() error {
		got, served, err := s.table.ClaimSlots(s.work, s.self, claims, accepting)
		return func() error {
			if s.balancing = false; err == nil {
				s.declined = s.declined || !accepting
				for _, l := range s.lanes {
					l.slots, l.served = got[l.name], served[l.name]
				}
				for _, one := range s.sources {
					if s.host.inUse() == 0 && one.lane.without() {
						one.nothing() // those who have the slots will look after it
					}
				}
			}
			return s.trouble(err)
		}
	})
}
