package job

import "time"

// Rate bounds how many jobs of a queue are started in any stretch of time, over all workers. The zero Rate doesn't.
type Rate struct {
	Starts int           `json:"starts"`
	Per    time.Duration `json:"per"`
}

// rateSlices is into how many parts a rate's time is cut to count in: starts are forgotten a part late at most.
const rateSlices = 60

// Starts are the jobs started lately: how many, by the time of a slice in microseconds. They are in the queue's own row;
// a start can't be taken back, so unlike a count of running jobs this one can't leak.
type Starts map[int64]int

func (r Rate) slice() time.Duration { return max(r.Per/rateSlices, time.Millisecond) }

// Left is how many more may be started at now, and if none, how long until one may be.
func (r Rate) Left(s Starts, now time.Time) (left int, wait time.Duration) {
	left = r.Starts
	wait = r.Per + r.slice()
	for at, n := range r.AsOf(s, now) {
		left -= n
		wait = min(wait, time.UnixMicro(at).Add(r.slice()+r.Per).Sub(now))
	}
	if left > 0 {
		return left, 0
	}
	return 0, wait
}

// Add counts n starts at now.
func (r Rate) Add(s Starts, n int, now time.Time) Starts {
	sum := r.AsOf(s, now)
	sum[now.Truncate(r.slice()).UnixMicro()] += n
	return sum
}

// AsOf forgets the starts that don't matter any more at now. Those later than now, for the clock has been put back since,
// count as of now: else they would hold the queue up until the clock has come so far again.
func (r Rate) AsOf(s Starts, now time.Time) Starts {
	latest := now.Truncate(r.slice()).UnixMicro()
	kept := Starts{}
	for at, n := range s {
		if at = min(at, latest); time.UnixMicro(at).Add(r.slice() + r.Per).After(now) {
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
