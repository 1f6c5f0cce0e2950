package monitor

import "math"

const (
	// sure is how many standard errors apart two proportions must be. By chance that many happen once in 30,000 comparisons; a
	// report makes thousands, and the attempts of one job are not independent of each other.
	sure = 4
	// attemptsMin is how many attempts have to have ended, in each window, for a share of errors; timesMin how many times there must
	// be for a 95th percentile, of which only one in twenty is longer; finishedMin how many jobs must have been finished before, for
	// a collapse of the throughput: to a third of that is 6 standard errors, where both windows are as long.
	attemptsMin, timesMin, finishedMin = 30, 100, 100
)

type sample struct {
	*Counts
	hours, of int
}

// covered says whether enough of the hours were aggregated: three of four.
func (s sample) covered() bool { return s.hours > 0 && 4*s.hours >= 3*s.of }

type measure struct {
	what string
	// value of what was counted; false if there is too little for one.
	value func(sample) (float64, bool)
	// worse says whether it has changed so much from a window to another that it matters, sure whether beyond doubt; sure is for
	// samples of times with their histograms.
	worse, sure func(before, now sample) bool
	// score of an hour is above 0 if it is nearer to now than to before, in proportion to what was counted. earlier is the same hour
	// a week earlier.
	score func(before, now sample, hour, earlier *Counts) float64
	// seasonal measures depend on the time of day and the weekday: they are compared only where the window a week earlier is there, in
	// which that is the same, and with each hour of both.
	seasonal bool
	// times are those of which it is a percentile; nil for others.
	times func(*Counts) *Times
}

var measures = []measure{
	errorShare,
	longTimes("wait_p95", 1000, func(c *Counts) *Times { return &c.Wait }),
	longTimes("run_p95", 100, func(c *Counts) *Times { return &c.Run }),
	throughput,
}

// errorShare is the part of the attempts that ended in an error: half as much again, and by 1 % of all.
var errorShare = measure{
	what: "errors",
	value: func(s sample) (float64, bool) {
		return part(s.Bad(), s.Attempts()), s.Attempts() >= attemptsMin
	},
	worse: func(before, now sample) bool {
		from, to := part(before.Bad(), before.Attempts()), part(now.Bad(), now.Attempts())
		return to >= 1.5*from && to-from >= 0.01
	},
	sure: func(before, now sample) bool {
		return apart(before.Bad(), before.Attempts(), now.Bad(), now.Attempts())
	},
	score: func(before, now sample, hour, _ *Counts) float64 {
		between := (part(before.Bad(), before.Attempts()) + part(now.Bad(), now.Attempts())) / 2
		return float64(hour.Bad()) - between*float64(hour.Attempts())
	},
}

// longTimes is a 95th percentile: twice as long, and by leastMS. Of times that hadn't changed one in twenty would be longer than the
// percentile was before; so it is a share too.
func longTimes(what string, leastMS int64, times func(*Counts) *Times) measure {
	return measure{
		what: what, times: times,
		value: func(s sample) (float64, bool) {
			t := times(s.Counts)
			if t.P95MS == nil || t.Count < timesMin {
				return 0, false
			}
			return float64(*t.P95MS), true
		},
		worse: func(before, now sample) bool {
			from, to := *times(before.Counts).P95MS, *times(now.Counts).P95MS
			return to >= 2*from && to-from >= leastMS
		},
		sure: func(before, now sample) bool {
			b, n := times(before.Counts), times(now.Counts)
			return apart(b.histogram.longer(*b.P95MS), b.Count, n.histogram.longer(*b.P95MS), n.Count)
		},
		score: func(before, now sample, hour, _ *Counts) float64 {
			b, n, h := times(before.Counts), times(now.Counts), times(hour)
			from := *b.P95MS
			between := (part(b.histogram.longer(from), b.Count) + part(n.histogram.longer(from), n.Count)) / 2
			return float64(h.histogram.longer(from)) - between*float64(h.Count)
		},
	}
}

// throughput is how many jobs are finished in an hour: a third.
var throughput = measure{
	what: "throughput", seasonal: true,
	value: func(s sample) (float64, bool) { return part(s.Finished, int64(s.hours)), s.hours == s.of },
	worse: func(before, now sample) bool {
		return before.Finished >= finishedMin && 3*now.Finished <= before.Finished
	},
	sure: func(sample, sample) bool { return true }, // see finishedMin
	score: func(before, now sample, hour, earlier *Counts) float64 {
		between := (1 + part(now.Finished, before.Finished)) / 2
		return between*float64(earlier.Finished) - float64(hour.Finished)
	},
}

func part(n, of int64) float64 { return float64(n) / float64(max(of, 1)) }

// apart says whether the second of two proportions is larger beyond doubt: the two-proportion z-test, pooled.
func apart(x1, n1, x2, n2 int64) bool {
	pooled := part(x1+x2, n1+n2)
	deviation := math.Sqrt(pooled * (1 - pooled) * (1/float64(max(n1, 1)) + 1/float64(max(n2, 1))))
	return part(x2, n2)-part(x1, n1) >= sure*deviation && x2 > 0
}
