package policy

import (
	"time"

	"github.com/hipq/hipq/queue/job"
)

// rateSlices is how many slices a rate's period is counted in: starts expire one slice late at most.
const rateSlices = 60

// Starts counts recent starts by the time of their slice, in microseconds since 1970. They are in the shard's row. A start
// can't be undone, so this count can't leak, unlike a count of running jobs.
type Starts map[int64]int

func slice(r job.Rate) time.Duration { return max(r.Per/rateSlices, time.Millisecond) }

// Left is how many more starts a rate allows now; if 0, wait is the time until the next.
func (s Starts) Left(r job.Rate, now time.Time) (left int, wait time.Duration) {
	left = r.Starts
	wait = r.Per + slice(r)
	for at, n := range s.asOf(r, now) {
		left -= n
		wait = min(wait, time.UnixMicro(at).Add(slice(r)+r.Per).Sub(now))
	}
	if left > 0 {
		return left, 0
	}
	return 0, wait
}

// Add counts n starts at now.
func (s Starts) Add(r job.Rate, n int, now time.Time) Starts {
	sum := s.asOf(r, now)
	sum[now.Truncate(slice(r)).UnixMicro()] += n
	return sum
}

// asOf drops starts that no longer matter. Later starts mean that the clock was set back: they count as of now, because
// otherwise they would block the queue until the clock catches up.
func (s Starts) asOf(r job.Rate, now time.Time) Starts {
	latest := now.Truncate(slice(r)).UnixMicro()
	kept := Starts{}
	for at, n := range s {
		if at = min(at, latest); time.UnixMicro(at).Add(slice(r) + r.Per).After(now) {
			kept[at] += n
		}
	}
	return kept
}

// After says whether there are starts later than now.
func (s Starts) After(now time.Time) bool {
	for at := range s {
		if time.UnixMicro(at).After(now) {
			return true
		}
	}
	return false
}
