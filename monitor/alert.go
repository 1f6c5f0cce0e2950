package monitor

import (
	"math"
	"time"
)

// Off is a limit that nothing exceeds.
const Off = math.MaxFloat64

// Limits say what more of is a warning, and what is critical: parts of 1, numbers, or seconds.
type Limits struct{ Warning, Critical float64 }

// JobAlert are the limits for the jobs of one type.
type JobAlert struct {
	// ErrorRate is of the attempts that have ended; of a few it isn't asked.
	ErrorRate Limits
	// Failed is of jobs that failed for good, and are still to be seen to.
	Failed Limits
	// OldestDue is of the time for which a job has been due, in seconds.
	OldestDue Limits
	// WaitP95 and RunP95 are of what 95 of 100 waits, and attempts, didn't exceed, in seconds.
	WaitP95 Limits
	RunP95  Limits
	// Backlog is of jobs that are due, or whose worker is dead.
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
	// JobAlert is for the job types for which nothing nearer is said.
	JobAlert
	// Queues have those of queues.
	Queues map[string]QueueAlert
	// DeadWorkers is of workers that died.
	DeadWorkers Limits
	// NoTickFor is of the time since the last sign of life of any worker, in seconds.
	NoTickFor Limits
	// MissedHours is of hours of the last week that were not aggregated.
	MissedHours Limits
	// Over is over how many of the last hours error rates, percentiles and dead workers are: whole hours.
	Over time.Duration
}

// DefaultAlert is what holds where nothing else is said.
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

// Enough is up to how many jobs of a type must be counted at least to judge them: the highest limit of a number of jobs, and no
// less than 100,000.
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

// of is what holds for a job type: what its own limits are, else its queue's, else the instance's.
func (a Alert) of(queue, jobType string) JobAlert {
	q, ok := a.Queues[queue]
	if !ok {
		return a.JobAlert
	}
	if own, ok := q.Types[jobType]; ok {
		return own
	}
	return q.JobAlert
}
