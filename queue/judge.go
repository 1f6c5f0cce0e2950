package queue

import (
	"math/rand/v2"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/queue/job"
)

// judge says what an attempt's outcome makes of its job, and the activity that tells of it. d is a retry handler's
// decision; nil leaves it to the policy.
func (q *Queue) judge(j *job.Job, o job.Outcome, d *job.Decision, now time.Time) (job.Next, activity.Entry, error) {
	next, err := job.Decide(j, o, d, q.policy(j.Type), q.Location, now, rand.Float64())
	entry := q.entry(j, activity.Finished)
	entry.RunMS, entry.Output = o.Ran.Milliseconds(), o.Output
	switch next.Line {
	case job.LineFinished:
		return next, entry, err
	case job.LineFailed:
		entry.State = activity.Failed
	default:
		entry.State = activity.Error
	}
	entry.Error = next.Error
	return next, entry, err
}

func (q *Queue) policy(jobType string) job.RetryPolicy {
	if t, ok := q.configured[jobType]; ok {
		return t.Retry
	}
	return job.DefaultRetry
}
