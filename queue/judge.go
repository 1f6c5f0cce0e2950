package queue

import (
	"math/rand/v2"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/schema"
)

// next is what a job becomes after an attempt.
type next struct {
	state         State
	line          string
	error, result string
	scheduled     time.Time
	wake          schema.Time
	// data and priority are new ones, by a retry handler; nil leaves the job's.
	data     *string
	priority *int
}

// judge says what an attempt's outcome makes of its job, and the activity that tells of it. d is a retry handler's
// decision; nil leaves it to the policy.
func (q *Queue) judge(job *Job, o Outcome, d *Decision, now time.Time) (next, activity.Entry, error) {
	n := next{state: Final, line: lineFinished, error: None, result: orNone(o.Result), scheduled: job.ScheduledRunTime}
	entry := q.entry(job, activity.Finished)
	entry.RunMS, entry.Output = o.Ran.Milliseconds(), o.Output
	if o.Verdict == Finished {
		return n, entry, CheckTransition(Running, Final)
	}
	n.error = o.reason()
	entry.Error = n.error
	policy := q.policy(job.Type)
	if d == nil {
		byPolicy := policy.Decide(job.Attempt, o, now, rand.Float64())
		d = &byPolicy
	}
	if !d.Again {
		n.line, entry.State = lineFailed, activity.Failed
		return n, entry, CheckTransition(Error, Final)
	}
	n.state, entry.State = Retry, activity.Error
	n.priority = d.Priority
	if d.Data != nil {
		data := orNone(*d.Data)
		n.data = &data
	}
	switch at := d.At; {
	case !at.IsZero():
		n.scheduled = at
	case d.In > 0:
		n.scheduled = now.Add(d.In)
	default:
		n.scheduled = now.Add(policy.delay(job.Attempt, rand.Float64()))
	}
	n.scheduled = q.opening(job.Windows, n.scheduled)
	n.line, n.wake = place(n.scheduled, now)
	return n, entry, CheckTransition(Error, Retry)
}

// reason is what the job's error says.
func (o Outcome) reason() string {
	if o.Error == "" {
		return "the handler gave no reason"
	}
	return o.Error
}

func (q *Queue) policy(jobType string) RetryPolicy {
	if t, ok := q.configured[jobType]; ok {
		return t.Retry
	}
	return DefaultRetry
}

func orNone(s string) string {
	if s == "" {
		return None
	}
	return s
}
