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
}

// judge says what an attempt's outcome makes of its job, and the activity that tells of it.
func (q *Queue) judge(job *Job, o Outcome, now time.Time) (next, activity.Entry, error) {
	n := next{state: Final, line: lineFinished, error: None, result: orNone(o.Result), scheduled: job.ScheduledRunTime}
	entry := q.entry(job, activity.Finished)
	entry.RunMS, entry.Output = o.Ran.Milliseconds(), o.Output
	if o.Verdict == Finished {
		return n, entry, CheckTransition(Running, Final)
	}
	n.error = o.Error
	if n.error == "" {
		n.error = "the handler gave no reason"
	}
	entry.Error = n.error
	d := q.policy(job.Type).Decide(job.Attempt, o, now, rand.Float64())
	if !d.Again {
		n.line, entry.State = lineFailed, activity.Failed
		return n, entry, CheckTransition(Error, Final)
	}
	n.state, entry.State = Retry, activity.Error
	n.scheduled = q.opening(job.Windows, d.At)
	n.line, n.wake = place(n.scheduled, now)
	return n, entry, CheckTransition(Error, Retry)
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
