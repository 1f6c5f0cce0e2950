package worker

import (
	"slices"

	"github.com/hipq/hipq/internal/workers"
)

// lane limits how many jobs run at once on this host, across the instance's workers: all jobs, a queue's or a job type's. A
// job also counts in the lanes around its own.
type lane struct {
	name   string
	around *lane
	// limit is the lane's own. width is the lowest limit of the lane and those around it.
	limit, width int
	// slots is how many jobs this worker may run in it now. running is how many run. reserved is how many rounds may start.
	slots, running, reserved int
	// served says that other workers here that still start jobs have slots of the lane.
	served bool
}

// slots are the worker's lanes, and the slots it holds of each on its host.
type slots struct {
	*loop
	// host is the lane of all jobs.
	host *lane
	// lanes are all lanes, each after the one around it.
	lanes []*lane
	// own says that the worker runs a single job, in a slot outside the host's lanes.
	own bool
	// balancing says that a task changes the slots. declined says that other workers know that this one starts no more.
	balancing, declined bool
}

// newLane makes a lane; the lane of all jobs has none around it.
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

// without says whether other workers here hold all slots of the lane, or of one around it, and still start jobs.
func (l *lane) without() bool {
	return l.slots == 0 && l.served || l.around != nil && l.around.without()
}

// count adds to the running jobs and reserved slots.
func (l *lane) count(running, reserved int) {
	for ; l != nil; l = l.around {
		l.running += running
		l.reserved += reserved
	}
}

// inUse returns how many slots the lane can't give away.
func (l *lane) inUse() int { return l.running + l.reserved }

// balance claims missing slots if asked to, and leaves unneeded ones to the host's other workers. It tells them when this
// worker starts no more jobs. A lane without jobs to start keeps only slots in use or reserved. So does the lane around a
// full one, because its waiting jobs can't use more.
func (s *slots) balance(claim bool) {
	if s.own || s.balancing {
		return
	}
	accepting, takes, claims, wants := s.accepting(), false, map[string]workers.Claim{}, map[*lane]int{}
	leaves := !accepting && !s.declined && s.host.inUse() > 0 && s.untilAnswer() <= 0
	for _, one := range s.sources {
		wants[one.lane] += one.want(accepting)
	}
	for _, l := range slices.Backward(s.lanes) { // inner lanes first
		want := max(l.inUse(), min(wants[l], l.limit))
		if l.around != nil {
			wants[l.around] += want
		}
		takes, leaves = takes || claim && want > l.slots, leaves || want < l.slots
		l.slots = min(l.slots, want) // at once, because slots about to be left must not be used
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
						one.nothing() // the workers with the slots serve these jobs
					}
				}
			}
			return s.trouble(err)
		}
	})
}
