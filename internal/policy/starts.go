package policy

import (
	"time"

	"github.com/hipq/hipq/queue/job"
)

// rateSlices is into how many parts a rate's time is cut to count in: starts are forgotten a part late at most.
const rateSlices = 60

// Starts are the jobs started lately: how many, by the time of a slice in microseconds. They are in the queue's own row;
// a start can't be taken back, so unlike a count of running jobs this one can't leak.
type Starts map[int64]int

// slice is how long one of them is.
func slice(r job.Rate) time.Duration { return max(r.Per/rateSlices, time.Millisecond) }

// Left is how many more a rate lets start at now, and if none, how long until one may be.
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

// asOf forgets the starts that don't matter any more at now. Those later than now, because the clock has been put back since,
// count as of now: else they would hold the queue up until the clock has come so far again.
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
