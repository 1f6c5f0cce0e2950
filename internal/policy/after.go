// Package policy holds hipq's decisions about jobs but which of them start: what follows an attempt, retry delays, starts in a
// period, and how shards share a limit. It uses no SQL and no clock: callers pass the time.
package policy

import (
	"cmp"
	"math"
	"strings"
	"time"

	"github.com/hipq/hipq/queue/job"
)

// Next is what a job becomes after an attempt.
type Next struct {
	Status job.Status
	// Error is None if there is none; so is Result. An empty Result leaves the job's.
	Error, Result string
	// Output and Override are kept while the attempt has no entry in the activity.
	Output, Override string
	Scheduled        time.Time
	// Uncounted and Interrupts are the job's.
	Uncounted, Interrupts int
	// Wake is when the job becomes due; zero if it is due.
	Wake time.Time
	// Data is new data from a retry handler; nil leaves the job's.
	Data *string
	// Priority is the same for the priority.
	Priority *int
}

// Attempt is an ended attempt with everything that decides what its job becomes.
type Attempt struct {
	Job     *job.Job
	Outcome job.Outcome
	// Decision is a retry handler's; nil leaves it to Policy.
	Decision *job.Decision
	Policy   job.RetryPolicy
	// Zone is the time zone of the job's windows.
	Zone *time.Location
}

// After says what an attempt makes of its job. random is in [0, 1).
func (a Attempt) After(now time.Time, random float64) Next {
	j, o, d := a.Job, a.Outcome, a.Decision
	n := Next{
		Status: job.StatusFinished, Error: job.None, Result: cmp.Or(o.Result, job.None), Scheduled: j.ScheduledRunTime,
		Uncounted: j.Uncounted, Interrupts: j.Interrupts,
	}
	if o.Verdict == job.Finished {
		return n
	}
	counted := max(1, j.Attempt-j.Uncounted)
	switch {
	case o.Verdict == job.Interrupted:
		n.Uncounted, n.Interrupts = n.Uncounted+1, n.Interrupts+1
		d = &job.Decision{Again: true, At: now}
	case o.Verdict == job.NotBegun:
		n.Uncounted, n.Interrupts = n.Uncounted+1, n.Interrupts+1
		at := now.Add(o.RetryAfter)
		if o.IsRelease() { // it keeps its place in the order
			at = j.ScheduledRunTime
		}
		d = &job.Decision{Again: true, At: at}
	case o.Verdict == job.Released && o.Count && counted >= a.Policy.Attempts:
		o.Error, d = releasedLast, &job.Decision{}
	case o.Verdict == job.Released:
		if d = (&job.Decision{Again: true, In: o.RetryAfter}); !o.Count {
			n.Uncounted++
		}
	case d == nil:
		byPolicy := Retry(a.Policy, counted, o, random)
		if j.Losses == 1 { // perhaps not the job's fault
			byPolicy.At = now
		}
		d = &byPolicy
	}
	if !o.IsRelease() || !d.Again {
		n.Error = o.Reason()
	}
	if !d.Again {
		if n.Status = job.StatusFailed; o.Verdict == job.Stopped {
			n.Status = job.StatusClosed // the person who cancelled it knows
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

// releasedLast is the error of a job whose last attempt was a counted release.
const releasedLast = "released in its last attempt"

// Lost counts an attempt of j that ended with its worker. That may not be the job's fault, unless it ran in a process of its own.
func Lost(j *job.Job) {
	if !j.IsQuarantined() {
		j.Interrupts++
	}
	j.Losses = min(j.Losses+1, job.MaxAttempt)
}

// Opening is t if the windows are open then, else their next opening; loc is their time zone.
func Opening(w job.Windows, loc *time.Location, t time.Time) time.Time {
	if len(w) == 0 {
		return t
	}
	return w.Next(t.In(loc)).UTC()
}

// StatusAt is the status of a job that should run at t: available with a zero wake, or scheduled until wake.
func StatusAt(t, now time.Time) (status job.Status, wake time.Time) {
	if t.After(now) {
		return job.StatusScheduled, t
	}
	return job.StatusAvailable, time.Time{}
}

// Retry is the policy's decision after attempt number attempt, which ended with o. random is in [0, 1).
func Retry(p job.RetryPolicy, attempt int, o job.Outcome, random float64) job.Decision {
	if o.Verdict == job.Failed || o.Verdict == job.Stopped || attempt >= p.Attempts {
		return job.Decision{}
	}
	return job.Decision{Again: true, In: cmp.Or(max(0, o.RetryAfter), delay(p, attempt, random))}
}

// delay is the wait after attempt number attempt. Jitter comes after the cap, so that jobs at the cap don't return together.
// It only lengthens, so that no delay is shorter than configured. schema/sql/mysql/procedures/instance/delay.sql computes the
// same for the stored procedures.
func delay(p job.RetryPolicy, attempt int, random float64) time.Duration {
	d := float64(p.Delay)
	if p.Backoff == job.Exponential {
		d *= math.Pow(2, float64(min(max(attempt-1, 0), 62)))
		d = min(d, float64(max(p.MaxDelay, p.Delay)))
	}
	d *= 1 + p.Jitter*random
	return time.Duration(min(d, float64(math.MaxInt64/2)))
}

// TimeoutError means that an attempt exceeded its job's timeout.
type TimeoutError time.Duration

func (e TimeoutError) Error() string { return "timeout after " + Brief(time.Duration(e)) }

// Brief is d without the trailing zeros of Duration.String: 1m instead of 1m0s.
func Brief(d time.Duration) string { return zeros.Replace(d.String()) }

var zeros = strings.NewReplacer("h0m0s", "h", "m0s", "m")
