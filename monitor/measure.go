package monitor

import "math"

const (
	// sure is how many standard errors apart two proportions must be. That happens by chance once in 30,000
	// comparisons; a report makes thousands, and attempts of one job are not independent.
	sure = 4
	// attemptsMin is how many attempts each window needs for an error share. timesMin is how many times a 95th
	// percentile needs, of which one in twenty is longer. finishedMin is how many jobs must have finished before a drop
	// in throughput: a drop to a third is then 6 standard errors, if both windows are as long.
	attemptsMin, timesMin, finishedMin = 30, 100, 100
)

type sample struct {
	*Counts
	hours, of int
}

// covered reports whether at least three quarters of the hours were aggregated.
func (s sample) covered() bool { return s.hours > 0 && 4*s.hours >= 3*s.of }

type measure struct {
	what string
	// value is the measure of a sample; false if the sample is too small.
	value func(sample) (float64, bool)
	// worse reports whether the change matters.
	// sure reports whether it is beyond doubt. It needs samples with histograms of times.
	worse, sure func(before, now sample) bool
	// score is above 0 if the hour is nearer to now than to before, in proportion to its counts. earlier is the same
	// hour a week earlier.
	score func(before, now sample, hour, earlier *Counts) float64
	// seasonal measures depend on the hour and the weekday. They are compared hour by hour with the window a week
	// earlier, and only if it is there.
	seasonal bool
	// times has the durations of a percentile; nil for other measures.
	times func(*Counts) *Times
}

var measures = []measure{
	errorShare,
	longTimes("wait_p95", 1000, func(c *Counts) *Times { return &c.Wait }),
	longTimes("run_p95", 100, func(c *Counts) *Times { return &c.Run }),
	throughput,
}

// errorShare is the fraction of attempts with an error. It is worse if it grows by half and by 0.01.
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

// longTimes is a 95th percentile. It is worse if it doubles and grows by leastMS. Unchanged times exceed the earlier
// percentile in one of twenty cases, so that share can be tested.
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

// throughput is how many jobs finish in an hour. It is worse if it drops to a third.
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

// apart reports whether the second proportion is larger beyond doubt: the pooled two-proportion z-test.
func apart(x1, n1, x2, n2 int64) bool {
	pooled := part(x1+x2, n1+n2)
	deviation := math.Sqrt(pooled * (1 - pooled) * (1/float64(max(n1, 1)) + 1/float64(max(n2, 1))))
	return part(x2, n2)-part(x1, n1) >= sure*deviation && x2 > 0
}
