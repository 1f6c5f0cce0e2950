package worker

import (
	"slices"
	"time"

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
}

// slots are the worker's lanes, and the slots it holds of each on its host. The only rule: a lane has as many slots as its
// sources could use now. More are claimed and fewer are kept at once, but neither more often than ten times a second.
type slots struct {
	*loop
	// host is the lane of all jobs.
	host *lane
	// lanes are all lanes, each after the one around it.
	lanes []*lane
	// own says that the worker runs a single job, in a slot outside the host's lanes.
	own bool
	// changing says that a task changes the slots. declined says that other workers know that this one starts no more.
	changing, declined bool
	// asked is how many slots of all lanes the latest claim wanted, and claimedAt is when one was sent that wanted more than the worker held.
	asked     int
	claimedAt time.Time
	// spareSince is since when a lane has had more slots than its sources could use; zero if none has.
	spareSince time.Time
	// wanting is how many other workers here have no slot, and want some for jobs that those with slots don't run.
	wanting int
}

const (
	// slotsEvery is the least time between two claims.
	slotsEvery = 100 * time.Millisecond
	// leaveAfter is how long slots are spare before they are left, and claimEvery is how often a worker asks again for slots that
	// others held: so a free slot waits for a job for their sum at most.
	leaveAfter, claimEvery = 150 * time.Millisecond, 150 * time.Millisecond
)

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

// lacks says whether the worker holds no slot of the lane, or of one around it.
func (l *lane) lacks() bool { return l.slots == 0 || l.around != nil && l.around.lacks() }

// count adds to the running jobs and reserved slots.
func (l *lane) count(running, reserved int) {
	for ; l != nil; l = l.around {
		l.running += running
		l.reserved += reserved
	}
}

// inUse returns how many slots the lane can't give away.
func (l *lane) inUse() int { return l.running + l.reserved }

// wants returns how many slots of each lane the sources could use now. A full lane leaves the others of the lane around it.
func (s *slots) wants() map[*lane]int {
	accepting, wants := s.accepting(), map[*lane]int{}
	for _, one := range s.sources {
		wants[one.lane] += s.wantedBy(one, accepting, s.wanting > 0)
	}
	for _, l := range slices.Backward(s.lanes) { // inner lanes first
		wants[l] = max(l.inUse(), min(wants[l], l.limit))
		if l.around != nil {
			wants[l.around] += wants[l]
		}
	}
	if s.wanting > 0 {
		wants[s.host] = max(s.host.inUse(), min(wants[s.host], s.host.limit/(s.wanting+1)))
	}
	return wants
}

// due says how long until the slots should change; not at all if that is longer than pollEvery.
func (s *slots) due(wants map[*lane]int) time.Duration {
	const never = 2 * pollEvery
	if s.own || s.changing || s.untilAnswer() > 0 {
		return never
	}
	lacks, spares, all := false, !s.accepting() && !s.declined && s.host.inUse() > 0, 0
	for _, l := range s.lanes {
		all += wants[l]
		lacks, spares = lacks || wants[l] > l.slots, spares || wants[l] < l.slots
	}
	until := never
	if lacks && all > s.asked {
		until = time.Until(s.claimedAt.Add(slotsEvery))
	} else if lacks {
		until = time.Until(s.claimedAt.Add(claimEvery))
	}
	switch {
	case !spares:
		s.spareSince = time.Time{}
		return until
	case !s.accepting():
		return 0
	case s.spareSince.IsZero():
		s.spareSince = time.Now()
	}
	return min(until, time.Until(s.spareSince.Add(leaveAfter)))
}

// balance claims the slots that sources could use, and leaves the others to the host's other workers. It tells them when this
// worker starts no more jobs.
func (s *slots) balance() {
	wants := s.wants()
	if s.due(wants) > 0 {
		return
	}
	accepting, wishes, due := s.accepting(), map[string]workers.SlotWish{}, workers.Serves{}
	for _, one := range s.sources {
		if accepting && (one.mayStart() || one.failing) {
			due[one.Name] = append(due[one.Name], one.types...)
		}
	}
	s.asked, s.spareSince = 0, time.Time{}
	for _, l := range s.lanes {
		s.asked += wants[l]
		if wants[l] > l.slots { // slots that are only left delay no claim
			s.claimedAt = time.Now()
		}
		l.slots = min(l.slots, wants[l]) // at once, because slots about to be left must not be used
		wishes[l.name] = workers.SlotWish{Want: wants[l], InUse: l.inUse(), Limit: l.limit}
	}
	s.changing = true
	s.task(func() func() error {
		got, served, err := s.table.TakeSlots(s.work, s.self, wishes, due, accepting)
		return func() error {
			if s.changing = false; err != nil {
				return s.trouble(err)
			}
			s.declined = s.declined || !accepting
			for _, l := range s.lanes {
				l.slots = got[l.name]
			}
			for _, one := range s.sources {
				if s.host.inUse() == 0 && one.lane.lacks() && served.All(one.Name, one.types) {
					one.nothing() // the workers with the slots serve these jobs
					one.failing = false
				}
			}
			return s.trouble(nil)
		}
	})
}

// free returns the shard where the next round may start jobs, and how many; nil means none.
func (d *dispatcher) free(s *source) (*shard, int) {
	if !d.accepting() || len(s.types) == 0 || s.gone != nil {
		return nil, 0
	}
	n := min(s.lane.free()-s.owed(), d.room(s, true), d.Batch)
	if d.MaxJobs > 0 {
		n = min(n, d.MaxJobs-d.summary.Started-d.slots.host.reserved)
	}
	if side := d.side(s); side > 1 {
		n = min(n, (s.lane.width+side-1)/side) // leave the rest to concurrent rounds
	}
	one, among := s.next(), 1
	if n < 1 || one == nil {
		return nil, 0
	}
	for _, other := range d.sources {
		if other != s && other.mayStart() && other.lane.free() > 0 {
			among++
		}
	}
	return one, (n + among - 1) / among
}

// crowded says that no other round of the source may go out now. On a single-writer database, rounds would block one another.
func (d *dispatcher) crowded(s *source) bool {
	if d.db.SQL.Writers == 1 {
		return slices.ContainsFunc(d.sources, func(other *source) bool { return other.outs(false) > 0 })
	}
	return s.outs(false) >= d.side(s)
}

const (
	// besideFrom is the round size that justifies a concurrent round: a small one costs nearly as much as one twice as large.
	besideFrom = 20
	// besideAfter is when a concurrent round goes out anyway, because another transaction may block the first.
	besideAfter = 200 * time.Millisecond
)

// side returns how many rounds of a source may run at once.
func (d *dispatcher) side(s *source) int {
	if s.store().TakesTurns() && len(s.shards) == 1 || d.isNarrow(s) && time.Now().Before(s.sent.Add(besideAfter)) {
		return 1
	}
	return d.db.SQL.Writers
}

// isNarrow says that concurrent rounds gain nothing, because the source has too few slots, or other workers' rounds run beside.
func (d *dispatcher) isNarrow(s *source) bool {
	return (s.among > 1 || s.lane.width < d.db.SQL.Writers*besideFrom) && !s.store().TakesTurns()
}
