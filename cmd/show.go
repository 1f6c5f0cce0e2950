package cmd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/scheduler"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// attempt is one attempt of a job, reconstructed from its activity.
type attempt struct {
	// Attempt is the number of the attempt, from 1.
	Attempt int `json:"attempt"`
	// WorkerID is the worker.
	WorkerID *string `json:"worker_id"`
	// Host is the worker's host.
	Host *string `json:"host"`
	// PID is the worker's process id.
	PID int `json:"pid"`
	// Started is when the attempt started.
	Started job.Time `json:"started"`
	// WaitMS is the time from due to start.
	WaitMS int64 `json:"wait_ms"`
	// State is "starting" until the attempt ends and is decided. Then it is "finished", "error" (the job is retried) or
	// "failed".
	State activity.State `json:"state"`
	// Ended is when the attempt ended.
	Ended job.Time `json:"ended"`
	// RunMS is the time from start to end.
	RunMS int64   `json:"run_ms"`
	Error *string `json:"error"`
	// Output is the last 16 KiB that the handler printed.
	Output *string `json:"output"`
	// Late are the answers that came after the attempt had failed.
	Late []lateAnswer `json:"late"`
	// ProgressJSON is set only for the last attempt that reported progress.
	job.ProgressJSON
}

// lateAnswer is the effect of an answer on a job whose attempt had already failed.
type lateAnswer struct {
	// At is when the answer came.
	At job.Time `json:"at"`
	// State is the job's state after the answer: "finished" or "failed".
	State activity.State `json:"state"`
	// Error is the job's error after the answer.
	Error *string `json:"error"`
}

type shown struct {
	job.JSON
	// Schedule is the schedule that enqueued the job. It is null after hipq schedules run, or if that activity was purged.
	Schedule *string `json:"schedule"`
	// Slot is the schedule's slot; null without Schedule.
	Slot job.Time `json:"slot"`
	// Attempts are the job's attempts. An attempt is missing if its activity was purged.
	Attempts []attempt `json:"attempts"`
	// by is the schedule that enqueued the job, if the activity says so.
	by *string
}

func (a *app) runShow(ctx context.Context, i *instance, q *queue.Queue, id int64) error {
	j, err := q.Get(ctx, id)
	if err != nil {
		return err
	}
	s := shown{JSON: j.JSON(), Attempts: []attempt{}}
	by := activity.Filter{Kind: activity.Job, Queue: q.Name, JobID: id}
	err = activity.New(i.db).Find(ctx, by, func(e activity.Entry) error {
		s.note(e)
		return nil
	})
	if err != nil {
		return err
	}
	s.complete(j)
	if a.json {
		return a.out.json(s)
	}
	return a.printJob(i, j, s)
}

func (s *shown) note(e activity.Entry) {
	if e.State == activity.Added {
		s.by = texts.NullText(e.Output)
		if name, slot := scheduler.Of(e.Output); name != "" {
			s.Schedule, s.Slot = &name, job.Time{Time: slot}
		}
	}
	if e.Attempt == 0 || e.State != activity.Cancelled && slices.Contains(activity.Operated, e.State) {
		return
	}
	if n := len(s.Attempts); n == 0 || s.Attempts[n-1].Attempt != e.Attempt {
		s.Attempts = append(s.Attempts, attempt{
			Attempt: e.Attempt, WorkerID: texts.NullText(e.WorkerID), Host: texts.NullText(e.Host), PID: e.PID, State: activity.Starting, Late: []lateAnswer{},
		})
	}
	last := &s.Attempts[len(s.Attempts)-1]
	if e.State == activity.Starting {
		last.Started, last.WaitMS = job.Time{Time: e.At}, e.WaitMS
		return
	}
	switch {
	case !last.Ended.IsZero() && e.State == activity.Cancelled:
		return // cancelled between two attempts; the job's own state and error say so
	case !last.Ended.IsZero():
		last.Late = append(last.Late, lateAnswer{At: job.Time{Time: e.At}, State: e.State, Error: texts.NullText(e.Error)})
		return
	}
	last.State, last.Ended, last.RunMS, last.Error, last.Output = e.State, job.Time{Time: e.At}, max(0, e.RunMS), texts.NullText(e.Error), texts.NullText(e.Output)
}

// complete adds what only the job's row has: of an attempt that waits for its answer or its retry decision, and the progress.
func (s *shown) complete(j *job.Job) {
	for n := range s.Attempts {
		t := &s.Attempts[n]
		if t.Attempt == j.Attempt && t.Ended.IsZero() {
			t.Error, t.Output = texts.NullText(j.Error), texts.NullText(j.Output)
		}
		if t.Attempt == j.Progress.Attempt {
			t.ProgressJSON = j.Progress.JSON()
		}
	}
}

func (a *app) printJob(i *instance, j *job.Job, s shown) error {
	progress, reached := j.Reached()
	for _, field := range []struct{ name, value string }{
		{"id", strconv.FormatInt(j.ID, 10)},
		{"queue", j.Queue},
		{"job_type", j.Type},
		{"job_key", j.Key},
		{"job_data", j.Data},
		{"state", string(j.State())},
		{"flaw", cmp.Or(s.Flaw, activity.None)},
		{"error", j.Error},
		{"result", j.Result},
		{"attempt", strconv.Itoa(j.Attempt)},
		{"progress", given(reached, "%s", progress)},
		{"scheduled_run_time", i.local(j.ScheduledRunTime)},
		{"time_windows", strings.Join(j.Windows.Strings(), ", ")},
		{"timeout", unlessLeft(j.Left.Timeout, policy.Brief(j.Timeout))},
		{"priority", unlessLeft(j.Left.Priority, strconv.Itoa(j.Priority))},
		{"throttle_factor", unlessLeft(j.Left.ThrottleFactor, strconv.Itoa(j.ThrottleFactor))},
		{"retry_of", given(j.RetryOf != 0, "%d", j.RetryOf)},
		{"retried_as", given(j.RetriedAs != 0, "%d", j.RetriedAs)},
		{"dismissed", given(j.IsDismissed(), "yes")},
		{"shard", given(!j.IsNew() && j.Shards() > 1, "%d of %d", j.Shard(), j.Shards())},
		{"create_time", i.local(j.CreateTime)},
		{"update_time", i.local(j.UpdateTime)},
	} {
		if field.value != activity.None && field.value != "" {
			a.out.text("%-19s %s\n", field.name, hang(safe(field.value), 20))
		}
	}
	a.out.line("")
	for _, said := range s.beginning(i, j) {
		a.out.line("%s", said)
	}
	for n := range s.Attempts {
		a.printAttempt(i, j, s, n)
	}
	a.out.line("")
	a.out.line("%s", a.printed(s.end(i, j)))
	return nil
}

func (a *app) printAttempt(i *instance, j *job.Job, s shown, n int) {
	t, of := s.Attempts[n], ""
	if most := i.attempts(j.Queue, j.Type); most > 0 {
		of = fmt.Sprintf(" of %d", max(most+j.Uncounted, j.Attempt)) // interrupted ones don't count, and the config may change
	}
	began, ran := "", ""
	if !t.Started.IsZero() {
		began = fmt.Sprintf(", started %s after a wait of %s", i.local(t.Started.Time), millis(t.WaitMS))
	}
	if !t.Ended.IsZero() {
		ran = ", ran –" // the run time of a lost worker's attempt is unknown
		if t.RunMS > 0 {
			ran = ", ran " + millis(t.RunMS)
		}
	}
	a.out.line("")
	a.out.line("attempt %d%s: %s%s%s, worker %s on %s", t.Attempt, of, t.standing(j), began, ran, dash(or0(t.WorkerID)), dash(or0(t.Host)))
	if t.Progress != nil {
		a.out.line("  progress: %s, %s", j.Progress, i.local(j.Progress.Time))
	}
	if t.Error != nil {
		a.out.text("  error: %s\n", hang(safe(*t.Error), 9))
	}
	if t.Output != nil {
		a.out.text("  output:\n%s\n", indent(safe(*t.Output)))
	}
	for _, late := range t.Late {
		a.out.line("  late answer: %s, %s", late.State, i.local(late.At.Time))
		if late.Error != nil {
			a.out.text("    error: %s\n", hang(safe(*late.Error), 11))
		}
	}
	if said := s.between(n); said != "" {
		a.out.line("  %s", said)
	}
}

func given(is bool, format string, args ...any) string {
	if !is {
		return activity.None
	}
	return fmt.Sprintf(format, args...)
}

// unlessLeft is a job's own value, or – if the job leaves it to its type.
func unlessLeft(left bool, value string) string {
	if left {
		return "–"
	}
	return value
}

// standing is how an attempt ended, or its current state.
func (t attempt) standing(j *job.Job) string {
	switch {
	case !t.Ended.IsZero() || t.Attempt != j.Attempt:
	case j.Status == job.StatusAwaiting:
		return "waiting for an answer"
	case j.State() == job.Running || j.State() == job.Error:
		return string(j.State())
	}
	return string(t.State)
}

// beginning says how the job was added, as far as the activity was not purged.
func (s *shown) beginning(i *instance, j *job.Job) (said []string) {
	added := "added " + i.local(j.CreateTime)
	if j.RetryOf != 0 {
		added += fmt.Sprintf(", to repeat job %d", j.RetryOf)
	}
	if s.by != nil {
		added += ", by " + strings.TrimPrefix(*s.by, "by ")
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

// attempts is the maximum number of attempts of a job type; 0 if the config doesn't say.
func (i *instance) attempts(queue, jobType string) int {
	c, _ := i.Queue(queue) // a queue of another config has no types
	for _, t := range c.Types {
		if t.Name == jobType && !t.RetryHandler {
			return t.Retry.Attempts
		}
	}
	return 0
}

// between says when the attempt after the n-th started; "" if none did, or the time is unknown.
func (s *shown) between(n int) string {
	if n+1 >= len(s.Attempts) || s.Attempts[n].Ended.IsZero() || s.Attempts[n+1].Started.IsZero() {
		return ""
	}
	delay := s.Attempts[n+1].Started.Sub(s.Attempts[n].Ended.Time).Round(10 * time.Millisecond)
	if delay <= 0 {
		return "the next attempt started at once"
	}
	return fmt.Sprintf("the next attempt started after %s", delay)
}

func (s *shown) end(i *instance, j *job.Job) string {
	why := fmt.Sprintf("; hipq why %s %d says what it waits for", j.Queue, j.ID)
	switch {
	case j.State() == job.Initial:
		return "it has not started" + why
	case j.State() == job.Retry:
		return fmt.Sprintf("the next attempt is at %s%s", i.local(j.ScheduledRunTime), why)
	case j.State() == job.Error:
		return "it waits for its retry decision"
	case j.Status == job.StatusAnswered:
		return "it was answered, and ends with its handler"
	case j.Status == job.StatusAwaiting:
		return fmt.Sprintf("it waits for an answer until %s at the latest", i.local(j.StartTime.Add(j.Timeout)))
	case j.State() == job.Running:
		return fmt.Sprintf("it has been running since %s", i.local(j.StartTime))
	}
	after := ", after " + texts.Count(j.Attempt, "attempt")
	if j.Attempt == 0 {
		after = ", before any attempt"
	}
	said := ended(j) + " " + i.local(j.UpdateTime) + after
	switch {
	case j.RetriedAs != 0:
		said += fmt.Sprintf("; retried as job %d", j.RetriedAs)
	case j.IsDismissed():
		said += "; dismissed"
	case j.Error == job.Cancelled:
		said += fmt.Sprintf("; hipq retry %s %d retries it", j.Queue, j.ID)
	case j.Status == job.StatusFailed:
		said += fmt.Sprintf("; hipq retry %s %d retries it, hipq dismiss %s %d closes it", j.Queue, j.ID, j.Queue, j.ID)
	}
	return said
}

func ended(j *job.Job) string {
	switch j.Error {
	case activity.None:
		return "finished"
	case job.Cancelled:
		return "cancelled"
	}
	return "failed for good"
}
