package cmd

import (
	"fmt"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/readable"
	"github.com/hipq/hipq/queue/job"
)

// beginning says how the story of a job begins, as far as it has not been purged.
func (s *shown) beginning(i *instance, j *job.Job) (said []string) {
	added := "added " + i.local(j.CreateTime)
	if j.RetryOf != 0 {
		added += fmt.Sprintf(", to repeat job %d", j.RetryOf)
	}
	if s.by != nil {
		added += ", by " + *s.by
	}
	said = append(said, added)
	switch first := len(s.Attempts) > 0; {
	case first && s.Attempts[0].Attempt > 1:
		said = append(said, fmt.Sprintf("what happened before attempt %d has been purged", s.Attempts[0].Attempt))
	case !first && j.Attempt > 0:
		said = append(said, "what happened in its attempts has been purged")
	}
	return said
}

// between says when the attempt that follows the n-th was due; "" if none follows, or if that isn't known.
func (s *shown) between(n int) string {
	if n+1 >= len(s.Attempts) || s.Attempts[n].Ended == nil || s.Attempts[n+1].Started == nil {
		return ""
	}
	next := s.Attempts[n+1]
	due := next.Started.Add(-time.Duration(next.WaitMS) * time.Millisecond)
	delay := due.Sub(*s.Attempts[n].Ended).Round(10 * time.Millisecond)
	if delay <= 0 {
		return "it was to be tried again at once"
	}
	return fmt.Sprintf("it was to be tried again after %s", delay)
}

// end says how the story ends, or how it stands.
func (s *shown) end(i *instance, j *job.Job) string {
	why := fmt.Sprintf("; hipq why %s %d says what it waits for", j.Queue, j.ID)
	switch {
	case j.State() == job.Initial:
		return "it has not started" + why
	case j.State() == job.Retry:
		return fmt.Sprintf("it is to be tried again at %s%s", i.local(j.ScheduledRunTime), why)
	case j.State() == job.Error:
		return "it waits for its retry decision"
	case j.Status == job.StatusAwaiting:
		return fmt.Sprintf("it waits for an answer, until %s at most", i.local(j.StartTime.Add(j.Timeout)))
	case j.State() == job.Running:
		return fmt.Sprintf("it is running, since %s", i.local(j.StartTime))
	}
	after := ", after " + readable.Count(j.Attempt, "attempt")
	if j.Attempt == 0 {
		after = ", before it was tried"
	}
	over := "failed for good "
	switch j.Error {
	case activity.None:
		over = "finished "
	case job.Cancelled:
		over = "cancelled "
	}
	said := over + i.local(j.UpdateTime) + after
	switch {
	case j.RetriedAs != 0:
		said += fmt.Sprintf("; retried as job %d", j.RetriedAs)
	case j.IsDismissed():
		said += "; dismissed"
	case j.Error == job.Cancelled:
		said += fmt.Sprintf("; hipq retry %s %d tries it anew", j.Queue, j.ID)
	case j.Status == job.StatusFailed:
		said += fmt.Sprintf("; hipq retry %s %d tries it anew, hipq dismiss %s %d closes it", j.Queue, j.ID, j.Queue, j.ID)
	}
	return said
}
