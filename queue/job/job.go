// Package job defines jobs: their fields and states, attempts' outcomes, retry policies, time windows and limits. It uses
// neither SQL nor a clock; callers pass the time. Package internal/policy decides what follows.
package job

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
)

// None is the text NONE, which stands for a missing text.
const None = texts.None

// Limits of fields, in bytes.
const (
	MaxTypeBytes = 255
	MaxKeyBytes  = 255
	MaxDataBytes = 1 << 20
)

// Job is one unit of work: a row of its queue's table.
type Job struct {
	// ID is unique within the queue and never reused.
	ID int64
	// Queue is the queue's name.
	Queue string
	// Type decides which handler runs.
	Type string
	// Data is any JSON or text that the handler needs.
	Data string
	// Key is unique per type among the jobs that are not final.
	Key string
	// Status is the stored state; State is derived from it.
	Status Status
	// Timeout is how long an attempt may last, in whole seconds.
	Timeout time.Duration
	// Error is None, or the last error; in state Final, the job's failure.
	Error string
	// Result is None, or the handler's result.
	Result string
	// Output is what the handler printed in the latest attempt, while the job waits for an answer or a retry decision.
	// Otherwise it is None, and the activity has the output.
	Output string
	// Progress is the latest that was reported, perhaps by an earlier attempt: see Reached. Queue.Get and Find read it; it is
	// unset in a handler's job.
	Progress Progress
	// Attempt counts the starts: 0 before the first, 3 during and after the third.
	Attempt int
	// MaxAttempts is the number of the last attempt by the retry policy; a retry handler may decide otherwise. It is set in a
	// handler's job, and grows with Uncounted.
	MaxAttempts int
	// ScheduledRunTime is when the job should next run, or should last have run if it is Final.
	ScheduledRunTime time.Time
	// WakeTime is when a worker must act without another event: to make the job due, or to end an overdue wait for an answer.
	// Otherwise zero.
	WakeTime time.Time
	// AskedTime is when a worker last asked for the job, if it stands in line for a limit. Otherwise zero.
	AskedTime time.Time
	// Priority orders due jobs; by default the lowest number starts first.
	Priority int
	// ThrottleFactor is the weight counted against the queue's throttle limit.
	ThrottleFactor int
	// Windows are the times of day in which the job may start; none means always.
	Windows  Windows
	ShardKey string
	// Place is the shard's number in the tables: 1000 times the division's number, plus the shard. 8003 is shard 3 of 8.
	Place int
	// StartTime is when the latest attempt began; zero before the first.
	StartTime  time.Time
	CreateTime time.Time
	UpdateTime time.Time
	// WorkerID is the worker that locked the job, or settled its last attempt; else None.
	WorkerID string
	// Token is the latest lock, for an attempt or a retry decision; None before the first.
	Token string
	// Group is the throttle group; None until a round has determined it.
	Group string

	// AttemptToken is the lock of the latest attempt, even if Token has changed since.
	AttemptToken string
	// RetryOverride is the handler's wish for the retry.
	RetryOverride string
	// Stopping says that an operator cancelled the running attempt.
	Stopping bool
	// Uncounted counts the attempts that the retry policy ignores: interrupted ones, and those that released the job without
	// Outcome.Count.
	Uncounted int
	// Interrupts counts the attempts that ended because their worker did: stopped, or lost unless the job ran in its own process.
	// A handler that counts attempts itself subtracts them from Attempt.
	Interrupts int
	// Losses counts the latest consecutive attempts that ended with their worker.
	Losses int
	// Left lists the fields that plain SQL left to the job type, until a worker ingests the row.
	Left Left
	// RetryOf is the final job that this job repeats, RetriedAs the latest job that repeats this one; 0 means none.
	RetryOf, RetriedAs int64

	// Invalid is why the row isn't a valid job, or nil. Unreadable fields are zero. The next worker or command ends it.
	Invalid error
}

// Left says which fields the job type still has to fill in; they are zero until then.
type Left struct{ Timeout, Priority, ThrottleFactor, Windows bool }

// Shard returns the job's shard, from 0.
func (j *Job) Shard() int { return j.Place % 1000 }

// Shards returns the queue's number of shards when the job was placed.
func (j *Job) Shards() int { return j.Place / 1000 % 1000 }

// State returns the job's state.
func (j *Job) State() State { return j.Status.State(j.Attempt) }

// IsNew says whether the job came by plain SQL and no worker has ingested it yet.
func (j *Job) IsNew() bool { return j.Status == StatusSubmitted }

// IsDismissed says whether an operator dismissed the failed job. Cancelled jobs don't count: they need no action.
func (j *Job) IsDismissed() bool {
	return j.Status == StatusClosed && j.RetriedAs == 0 && j.Error != Cancelled
}

// quarantineFrom is the number of consecutive losses that quarantines a job.
const quarantineFrom = 2

// IsQuarantined says whether the next attempt runs in its own process, because the last two ended with their workers.
func (j *Job) IsQuarantined() bool { return j.Losses >= quarantineFrom }

// Ran returns how long the latest attempt has taken until now.
func (j *Job) Ran(now time.Time) time.Duration {
	if j.StartTime.IsZero() {
		return 0
	}
	return max(0, now.Sub(j.StartTime))
}

// Outcome rebuilds the outcome of an attempt from the row: one that failed, or was answered while its handler runs.
func (j *Job) Outcome(now time.Time) Outcome {
	if j.State() == Error { // it waits for its retry decision
		now = j.UpdateTime
	}
	o := Outcome{Verdict: TryAgain, Error: j.Error, Ran: j.Ran(now)}
	if j.Output != None {
		o.Output = j.Output
	}
	if text, ok := strings.CutPrefix(j.RetryOverride, lostAt); ok {
		if heard, err := time.Parse(lostLayout, text); err == nil {
			o.Ran = j.Ran(heard)
		}
	}
	switch {
	case j.Status == StatusAnswered && j.Error == None:
		o.Verdict, o.Error = Finished, ""
	case j.Stopping:
		o.Verdict, o.Error = Stopped, Cancelled
	case j.RetryOverride == overrideNever:
		o.Verdict = Failed
	case strings.HasPrefix(j.RetryOverride, overrideRelease): // by the procedure job_answer
		o.Verdict, o.Error = Released, ""
		delay := strings.TrimPrefix(j.RetryOverride, overrideRelease)
		delay, o.Count = strings.CutPrefix(delay, overrideCount)
		o.RetryAfter, _ = time.ParseDuration(strings.TrimSpace(delay))
	case j.RetryOverride != None:
		o.RetryAfter, _ = time.ParseDuration(j.RetryOverride) // an unreadable delay counts as none
	}
	return o
}

// Check returns ErrInvalid for a row that can't be a job, as plain SQL may write. Table constraints refuse most such rows,
// but not all. A final job may be anything; a new one may leave fields to its type.
func (j *Job) Check() error {
	wakes := j.Status == StatusScheduled || j.Status == StatusAwaiting
	switch {
	case !slices.Contains(Statuses, j.Status):
		return fmt.Errorf("%w: there is no status %q", ErrInvalid, j.Status)
	case j.Status.IsFinal():
		return nil
	case !j.IsNew() && j.Left != (Left{}):
		return fmt.Errorf("%w: timeout, priority, throttle_factor or time_windows is missing", ErrInvalid)
	case j.Timeout == 0 && !j.Left.Timeout:
		return fmt.Errorf("%w: timeout is 0", ErrInvalid)
	case wakes == j.WakeTime.IsZero():
		return fmt.Errorf("%w: wake_time does not go with status %s", ErrInvalid, j.Status)
	case j.Status == StatusThrottled && j.Group == "":
		return fmt.Errorf("%w: throttle_group is empty", ErrInvalid)
	case j.Attempt < 0 || j.Attempt >= MaxAttempt:
		return fmt.Errorf("%w: attempt %d is not from 0 to %d", ErrInvalid, j.Attempt, MaxAttempt-1)
	case !j.IsNew() && (j.Uncounted < 0 || j.Uncounted > j.Attempt):
		return fmt.Errorf("%w: uncounted %d is not from 0 to attempt %d", ErrInvalid, j.Uncounted, j.Attempt)
	case !j.IsNew() && (j.Interrupts < 0 || j.Interrupts > j.Attempt):
		return fmt.Errorf("%w: interrupts %d is not from 0 to attempt %d", ErrInvalid, j.Interrupts, j.Attempt)
	case !j.IsNew() && (j.Losses < 0 || j.Losses > MaxAttempt):
		return fmt.Errorf("%w: losses %d is not from 0 to %d", ErrInvalid, j.Losses, MaxAttempt)
	case j.Key == "":
		return fmt.Errorf("%w: job_key is empty", ErrInvalid)
	}
	n := Params{
		Type: j.Type, Data: j.Data, Key: j.Key, ShardKey: j.ShardKey, At: j.ScheduledRunTime, Timeout: j.Timeout,
		Priority: &j.Priority, ThrottleFactor: &j.ThrottleFactor,
	}
	if n.Data == None { // the value in the table; Params uses ""
		n.Data = ""
	}
	return n.Check()
}

// JSON is a job as scripts see it; handlers get a different message. Field names are stable; fields may be added.
type JSON struct {
	// ID is unique in its queue and never used again.
	ID    int64  `json:"id"`
	Queue string `json:"queue"`
	Type  string `json:"job_type"`
	// Key is the given key, or a UUID.
	Key string `json:"job_key"`
	// Data is an object or a list as it is, and other text as a string.
	Data json.RawMessage `json:"job_data"`
	// State is "initial", "running", "error", "retry" or "final".
	State State `json:"state"`
	// TimeoutMS is the limit of one attempt. If plain SQL left it out, it is null until a worker takes the row in.
	TimeoutMS *int64 `json:"timeout_ms"`
	// Error is the last error, with at most 500 bytes of the handler's output.
	Error *string `json:"error"`
	// Result is the result of the handler or the answer, in the same form as Data.
	Result json.RawMessage `json:"result"`
	// Attempt is the number of attempts so far.
	Attempt int `json:"attempt"`
	// ScheduledRunTime is the next run. Of a final job, it is the last scheduled time.
	ScheduledRunTime time.Time `json:"scheduled_run_time"`
	// Priority is null under the same condition as TimeoutMS.
	Priority *int `json:"priority"`
	// ThrottleFactor is null under the same condition as TimeoutMS.
	ThrottleFactor *int `json:"throttle_factor"`
	// Windows are the times at which the job may start; empty means at any time. The list is null like TimeoutMS.
	Windows []string `json:"time_windows"`
	// ShardKey is the given shard key, or Key.
	ShardKey string `json:"shard_key"`
	// Shard is the job's shard, from 0, when it was placed; null until a worker takes the row in.
	Shard *int `json:"shard"`
	// Shards is the number of shards at that time; null until a worker takes the row in.
	Shards     *int      `json:"shards"`
	CreateTime time.Time `json:"create_time"`
	// UpdateTime is when the job last changed its state.
	UpdateTime time.Time `json:"update_time"`
	// WorkerID is the worker of the current or last attempt.
	WorkerID *string `json:"worker_id"`
	// RetryOf is the job that this one repeats.
	RetryOf *int64 `json:"retry_of"`
	// RetriedAs is the job that repeats this one.
	RetriedAs *int64 `json:"retried_as"`
	// Dismissed is true if the job's failure was dismissed.
	Dismissed bool `json:"dismissed"`
	// Flaw is why the row isn't a valid job; missing if it is one.
	Flaw string `json:"flaw,omitempty"`
	// ProgressJSON is that of the latest attempt.
	ProgressJSON
}

// ProgressJSON is the progress that an attempt reported; all fields are null without a report.
type ProgressJSON struct {
	// Progress is the percentage that the current or last attempt reported.
	Progress *int `json:"progress"`
	// ProgressNote is the text of that report.
	ProgressNote *string `json:"progress_note"`
	// ProgressTime is when that report was written.
	ProgressTime *time.Time `json:"progress_time"`
}

// JSON returns the progress as JSON fields.
func (p Progress) JSON() ProgressJSON {
	if p.Attempt == 0 {
		return ProgressJSON{}
	}
	at := p.Time.UTC()
	return ProgressJSON{&p.Percent, texts.NullText(p.Note), &at}
}

// JSON returns the job's fields, with times in UTC. Missing values and values left to the job type are null. The shard key
// defaults to the job's key.
func (j *Job) JSON() JSON {
	shard, flaw := j.ShardKey, ""
	if j.Invalid != nil {
		flaw = j.Invalid.Error()
	}
	if shard == None {
		shard = j.Key
	}
	o := JSON{
		ID: j.ID, Queue: j.Queue, Type: j.Type, Key: j.Key, Data: texts.NullJSON(j.Data), State: j.State(),
		TimeoutMS: texts.Nullable(j.Left.Timeout, j.Timeout.Milliseconds()), Error: texts.NullText(j.Error), Result: texts.NullJSON(j.Result), Attempt: j.Attempt,
		ScheduledRunTime: j.ScheduledRunTime.UTC(), Priority: texts.Nullable(j.Left.Priority, j.Priority),
		ThrottleFactor: texts.Nullable(j.Left.ThrottleFactor, j.ThrottleFactor), ShardKey: shard, CreateTime: j.CreateTime.UTC(),
		UpdateTime: j.UpdateTime.UTC(), WorkerID: texts.NullText(j.WorkerID), RetryOf: texts.Nullable(j.RetryOf == 0, j.RetryOf),
		RetriedAs: texts.Nullable(j.RetriedAs == 0, j.RetriedAs), Dismissed: j.IsDismissed(), Flaw: flaw,
		Shard: texts.Nullable(j.IsNew(), j.Shard()), Shards: texts.Nullable(j.IsNew(), j.Shards()),
	}
	if p, ok := j.Reached(); ok {
		o.ProgressJSON = p.JSON()
	}
	if !j.Left.Windows {
		o.Windows = j.Windows.Strings()
	}
	return o
}

// Time is a time in JSON: in UTC, or null if zero.
type Time struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return t.UTC().MarshalJSON()
}
