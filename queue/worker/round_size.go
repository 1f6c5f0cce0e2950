package worker

import (
	"slices"
	"time"
)

// free returns the shard where the next round may start jobs, and how many; nil means none.
func (d *dispatcher) free(s *source) (*shard, int) {
	if !d.accepting() || len(s.types) == 0 || s.gone != nil {
		return nil, 0
	}
	n := min(s.lane.free()-s.owed(), s.room()-s.taken(), d.Batch)
	if d.MaxJobs > 0 {
		n = min(n, d.MaxJobs-d.summary.Started-d.slots.host.reserved)
	}
	if side := d.side(s); side > 1 {
		n = min(n, (s.lane.width+side-1)/side) // leave the rest to concurrent rounds
	}
	if n < 1 {
		return nil, 0
	}
	one, rivals := s.next(), d.rivals(s)
	if one == nil {
		return nil, 0
	}
	return one, (n + rivals) / (rivals + 1)
}

// crowded says that no other round of the source may go out now. On a single-writer database, rounds would block one another.
func (d *dispatcher) crowded(s *source) bool {
	if d.db.SQL.Writers == 1 {
		return slices.ContainsFunc(d.sources, func(other *source) bool { return other.outs(false) > 0 })
	}
	return s.outs(false) >= d.side(s)
}

const (
	// besideFrom is the round size that justifies a concurrent round: a small round costs nearly as much as one of twice the
	// size.
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

func (d *dispatcher) rivals(s *source) (n int) {
	for _, other := range d.sources {
		if other != s && other.mayStart() && other.lane.free() > 0 {
			n++
		}
	}
	return n
}
