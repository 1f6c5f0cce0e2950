package monitor

import (
	"math"
	"time"

	"github.com/hipq/hipq/queue/job"
)

// Off is a limit that no value exceeds.
const Off = math.MaxFloat64

// Limits are the values above which a finding is a warning or critical: fractions, counts or seconds.
type Limits struct {
	Warning  float64 `key:"warning"`
	Critical float64 `key:"critical"`
}

// JobAlert has the limits for the jobs of one type.
type JobAlert struct {
	// ErrorRate limits the fraction of attempts that ended in an error. It doesn't apply to a few attempts.
	ErrorRate Limits `key:"error_rate" limit:"part"`
	// Failed limits how many jobs failed for good and were neither retried nor dismissed.
	Failed Limits `key:"failed" limit:"count"`
	// OldestDue limits how long a job has been due, in seconds.
	OldestDue Limits `key:"oldest_due" limit:"time"`
	// WaitP95 limits the 95th percentile of waits, in seconds.
	WaitP95 Limits `key:"wait_p95" limit:"time"`
	// RunP95 limits the 95th percentile of run times, in seconds.
	RunP95 Limits `key:"run_p95" limit:"time"`
	// Backlog limits how many jobs are due or locked by a dead worker.
	Backlog Limits `key:"backlog" limit:"count"`
}

// QueueAlert has the limits for a queue.
type QueueAlert struct {
	JobAlert
	// Types has the limits of job types.
	Types map[string]JobAlert
}

// Alert has the limits for an instance.
type Alert struct {
	// Over is the period, in whole hours, for error rates, percentiles and dead workers.
	Over time.Duration `key:"over" from:"1h" to:"1w" whole:"1h"`
	// JobAlert applies to the job types without limits of their own or of their queue.
	JobAlert
	// Queues has the limits of queues.
	Queues map[string]QueueAlert
	// DeadWorkers limits how many workers died.
	DeadWorkers Limits `key:"dead_workers" limit:"count"`
	// NoTickFor limits the time since any worker's last sign of life, in seconds.
	NoTickFor Limits `key:"no_tick_for" limit:"time"`
	// MissedHours limits how many hours of the last week were not aggregated.
	MissedHours Limits `key:"missed_hours" limit:"count"`
}

// DefaultAlert returns the limits that apply without a config.
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

// Enough is how many jobs of a type must be counted to judge them: the highest limit on a number of jobs, at least
// 100,000.
func (a Alert) Enough() int64 {
	enough := 100_000.0
	of := func(j JobAlert) {
		for _, limit := range []float64{j.Failed.Warning, j.Failed.Critical, j.Backlog.Warning, j.Backlog.Critical} {
			if limit < math.MaxInt64 { // else the limit is off
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

// Of returns the limits for a job type: its own, else that for all types, else its queue's, else the instance's.
func (a Alert) Of(queue, jobType string) JobAlert {
	q, ok := a.Queues[queue]
	if !ok {
		return a.JobAlert
	}
	for _, name := range []string{jobType, job.AllTypes} {
		if own, ok := q.Types[name]; ok {
			return own
		}
	}
	return q.JobAlert
}
