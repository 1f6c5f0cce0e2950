package rules

import (
	"cmp"
	"time"

	"github.com/hipq/hipq/queue/job"
)

// Next is what a job becomes after an attempt.
type Next struct {
	State job.State
	Line  job.Line
	// Error and Result are texts of the job: None if there is nothing to say.
	Error, Result string
	Scheduled     time.Time
	// Interrupts are the attempts that don't count against the retry policy's.
	Interrupts int
	// Wake is when it becomes due; zero if it is.
	Wake time.Time
	// Data and Priority are new ones, by a retry handler; nil leaves the job's.
	Data     *string
	Priority *int
}

// After says what an attempt's outcome makes of its job. d is a retry handler's decision; nil leaves it to the
// policy. loc is the zone of the job's windows, random is in [0, 1). The error is that of CheckTransition.
func After(j *job.Job, o job.Outcome, d *job.Decision, p job.RetryPolicy, loc *time.Location, now time.Time, random float64) (Next, error) {
	n := Next{
		State: job.Final, Line: job.LineFinished, Error: job.None, Result: cmp.Or(o.Result, job.None), Scheduled: j.ScheduledRunTime,
		Interrupts: j.Interrupts,
	}
	if o.Verdict == job.Finished {
		return n, CheckTransition(job.Running, job.Final)
	}
	n.Error = o.Reason()
	counted := max(1, j.Attempt-j.Interrupts)
	switch {
	case o.Verdict == job.Interrupted:
		n.Interrupts++
		d = &job.Decision{Again: true, At: now}
	case d == nil:
		byPolicy := Retry(p, counted, o, now, random)
		d = &byPolicy
	}
	if !d.Again {
		if n.Line = job.LineFailed; o.Verdict == job.Stopped {
			n.Line = job.LineClosed // whoever cancelled it has seen to it
		}
		return n, CheckTransition(job.Error, job.Final)
	}
	n.State = job.Retry
	n.Priority = d.Priority
	if d.Data != nil {
		data := cmp.Or(*d.Data, job.None)
		n.Data = &data
	}
	switch at := d.At; {
	case !at.IsZero():
		n.Scheduled = at
	case d.In > 0:
		n.Scheduled = now.Add(d.In)
	default:
		n.Scheduled = now.Add(delay(p, counted, random))
	}
	n.Scheduled = Opening(j.Windows, loc, n.Scheduled)
	n.Line, n.Wake = Place(n.Scheduled, now)
	return n, CheckTransition(job.Error, job.Retry)
}

// Opening is t, or when the windows open next after it; loc is their zone.
func Opening(w job.Windows, loc *time.Location, t time.Time) time.Time {
	if len(w) == 0 {
		return t
	}
	return w.Next(t.In(loc)).UTC()
}

// Place is where a job stands that should run at t: due, or kept apart until it is promoted, when it is time to
// wake it. Else wake is zero.
func Place(t, now time.Time) (line job.Line, wake time.Time) {
	if t.After(now) {
		return job.LineLater, t
	}
	return job.LineDue, time.Time{}
}
