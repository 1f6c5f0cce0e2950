package monitor

import (
	"math"
	"time"
)

// Off is a limit that nothing exceeds.
const Off = math.MaxFloat64

// Limits are those above which a value is a warning, and critical: parts of 1, numbers, or seconds.
type Limits struct{ Warning, Critical float64 }

// JobAlert are the limits for the jobs of one type.
type JobAlert struct {
	// ErrorRate is for the part of the ended attempts that had an error; it doesn't apply to a few attempts.
	ErrorRate Limits
	// Failed is for the number of jobs that failed for good, and were neither retried nor dismissed.
	Failed Limits
	// OldestDue is for the time for which a job has been due, in seconds.
	OldestDue Limits
	// WaitP95 is for the time that 95 of 100 waits didn't exceed, in seconds.
	WaitP95 Limits
	// RunP95 is for the time that 95 of 100 attempts didn't exceed, in seconds.
	RunP95 Limits
	// Backlog is for the number of jobs that are due, or whose worker is dead.
	Backlog Limits
}

// QueueAlert are the limits for a queue.
type QueueAlert struct {
	JobAlert
	// Types have those of job types.
	Types map[string]JobAlert
}

// Alert are the limits for an instance.
type Alert struct {
	// JobAlert is for the job types that have no nearer limits.
	JobAlert
	// Queues have those of queues.
	Queues map[string]QueueAlert
	// DeadWorkers is for the number of workers that died.
	DeadWorkers Limits
	// NoTickFor is for the time since the last sign of life of any worker, in seconds.
	NoTickFor Limits
	// MissedHours is for the number of hours of the last week that were not aggregated.
	MissedHours Limits
	// Over is the length of the last hours of which error rates, percentiles and dead workers are: whole hours.
	Over time.Duration
}

// DefaultAlert are the limits if the config has no others.
func DefaultAlert() Alert {
	const minute, hour = 60, 3600
	return Alert{
		JobAlert: JobAlert{
			ErrorRate: Limits{0.05, 0.25},
			Failed:    Limits{0, 100},
			OldestDue: Limits{15 * minute, hour},
			WaitP95:   Limits{15 * minute, Off},
			RunP95:    Limits{Off, Off},
			Backlog:   Limits{10_000, 100_000},
		},
		DeadWorkers: Limits{0, 10},
		NoTickFor:   Limits{5 * minute, 15 * minute},
		MissedHours: Limits{0, 24},
		Over:        2 * time.Hour,
	}
}

// Enough is up to how many jobs of a type must be counted to judge them: the highest limit of a number of jobs, and at least
// 100,000.
func (a Alert) Enough() int64 {
	enough := 100_000.0
	of := func(j JobAlert) {
		for _, limit := range []float64{j.Failed.Warning, j.Failed.Critical, j.Backlog.Warning, j.Backlog.Critical} {
			if limit < math.MaxInt64 { // else it is off
				enough = max(enough, math.Ceil(limit))
			}
		}
	}
	of(a.JobAlert)
	for _, q := range a.Queues {
		of(q.JobAlert)
		for _, t := range q.Types {
			of(t)
		}
	}
	return int64(enough)
}

// Of are the limits for a job type: its own, else its queue's, else the instance's.
func (a Alert) Of(queue, jobType string) JobAlert {
	q, ok := a.Queues[queue]
	if !ok {
		return a.JobAlert
	}
	if own, ok := q.Types[jobType]; ok {
		return own
	}
	return q.JobAlert
}
