package policy

import (
	"cmp"
	"time"

	"github.com/hipq/hipq/queue/job"
)

// Next is what a job becomes after an attempt.
type Next struct {
	Status job.Status
	// Error is None if there is nothing to say. So is Result; an empty one leaves the job's.
	Error, Result string
	// Output and Override are kept for as long as the attempt has no entry in the activity.
	Output, Override string
	Scheduled        time.Time
	// Interrupts are the attempts that don't count against the retry policy's.
	Interrupts int
	// Wake is when it becomes due; zero if it is.
	Wake time.Time
	// Data and Priority are new ones, by a retry handler; nil leaves the job's.
	Data     *string
	Priority *int
}

// Attempt is an attempt that has ended, with all that decides how its job goes on.
type Attempt struct {
	Job     *job.Job
	Outcome job.Outcome
	// Decision is a retry handler's; nil leaves it to the Policy.
	Decision *job.Decision
	Policy   job.RetryPolicy
	// Zone is that of the job's windows.
	Zone *time.Location
}

// After says what an attempt makes of its job. random is in [0, 1).
func (a Attempt) After(now time.Time, random float64) Next {
	j, o, d := a.Job, a.Outcome, a.Decision
	n := Next{
		Status: job.StatusFinished, Error: job.None, Result: cmp.Or(o.Result, job.None), Scheduled: j.ScheduledRunTime, Interrupts: j.Interrupts,
	}
	if o.Verdict == job.Finished {
		return n
	}
	n.Error = o.Reason()
	counted := max(1, j.Attempt-j.Interrupts)
	switch {
	case o.Verdict == job.Interrupted:
		n.Interrupts++
		d = &job.Decision{Again: true, At: now}
	case d == nil:
		byPolicy := Retry(a.Policy, counted, o, random)
		d = &byPolicy
	}
	if !d.Again {
		if n.Status = job.StatusFailed; o.Verdict == job.Stopped {
			n.Status = job.StatusClosed // a cancelled job needs no more attention
		}
		return n
	}
	n.Priority = d.Priority
	if d.Data != nil {
		data := cmp.Or(*d.Data, job.None)
		n.Data = &data
	}
	at := d.At
	if at.IsZero() {
		at = now.Add(cmp.Or(max(0, d.In), delay(a.Policy, counted, random)))
	}
	n.Scheduled = Opening(j.Windows, a.Zone, at)
	n.Status, n.Wake = StatusAt(n.Scheduled, now)
	return n
}

// Opening is t, or when the windows open next after it; loc is their zone.
func Opening(w job.Windows, loc *time.Location, t time.Time) time.Time {
	if len(w) == 0 {
		return t
	}
	return w.Next(t.In(loc)).UTC()
}

// StatusAt is the status of a job that should run at t: available, or scheduled until wake. Else wake is zero.
func StatusAt(t, now time.Time) (status job.Status, wake time.Time) {
	if t.After(now) {
		return job.StatusScheduled, t
	}
	return job.StatusAvailable, time.Time{}
}
