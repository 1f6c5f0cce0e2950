// Package job is what jobs are: their fields and states, how an attempt may end, retry policies, time windows and limits. It
// knows neither SQL nor a clock: who asks says what time it is. What hipq makes of it all is in internal/policy.
package job

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
)

// None is the word NONE, for a text that a job doesn't have.
const None = texts.None

// Limits of a job's fields, in bytes.
const (
	MaxTypeBytes = 64
	MaxKeyBytes  = 255
	MaxDataBytes = 1 << 20
)

// Job is one unit of work: a row of its queue's table.
type Job struct {
	// ID is numeric, unique within the queue, never reused.
	ID int64
	// Queue is the queue's name.
	Queue string
	// Type decides which handler runs.
	Type string
	// Data is any JSON or text that the handler needs.
	Data string
	// Key is unique per type among the jobs that are not final.
	Key string
	// Status is where it stands; see State.
	Status Status
	// Timeout is how long an attempt may last, in whole seconds.
	Timeout time.Duration
	// Error is None, or what went wrong: with Final, for good.
	Error string
	// Result is None, or what the handler gave back.
	Result string
	// Output is what the handler printed in the latest attempt, while that waits for an answer or a retry decision; None
	// before, and after: then it is in the activity.
	Output string
	// Progress is the latest that an attempt has said of how far it is, perhaps not the latest attempt: see Reached. Queue.Get and
	// Find read it; a handler's job has none.
	Progress Progress
	// Attempt counts the starts: 0 is never yet, 3 is on (or after) the third.
	Attempt int
	// ScheduledRunTime is when the job should run next; in Final, when it was last meant to.
	ScheduledRunTime time.Time
	// WakeTime is when somebody must look at it although nothing touches it: to make it due, or because the time for an answer
	// is over. Zero for all others.
	WakeTime time.Time
	// Priority: the lower number first.
	Priority int
	// ThrottleFactor is the weight counted against the queue's throttle limit.
	ThrottleFactor int
	// Windows are the times of day within which it must start; none means always.
	Windows  Windows
	ShardKey string
	// Place is the number of its shard in the tables: 1000 times that of the queue's division, and behind that the shard. 8003 is shard
	// 3 of 8.
	Place int
	// StartTime is when the current attempt, or the last, began. Zero before the first.
	StartTime  time.Time
	CreateTime time.Time
	UpdateTime time.Time
	// WorkerID is the worker that has it locked, or settled its last attempt; None if there is none.
	WorkerID string
	// Token is the lock under which a worker has it, or had it last: to run it, or to take its retry decision; None if none had.
	Token string
	// Group is its throttle group, once a round has found it out; None before.
	Group string

	// AttemptToken is the lock of the latest attempt, also when Token is another's by then, or cleared.
	AttemptToken string
	// RetryOverride is what its handler said of the retry; Stopping that an operator wants it stopped.
	RetryOverride string
	Stopping      bool
	// Interrupts are the attempts that ended because their worker was told to stop: they don't count against the retry policy's.
	Interrupts int
	// Losses are the latest attempts in a row that ended with their worker.
	Losses int
	// Left says what a row inserted by plain SQL leaves to its type, until a worker takes it in.
	Left Left
	// RetryOf is the final job that this one repeats, RetriedAs the latest that repeats this one; 0 is none.
	RetryOf, RetriedAs int64

	// Invalid says why the row can't be a job's, if it can't: what can't be read is zero. The next worker ends it.
	Invalid error
}

// Left is which fields of a job are its type's to fill in; they are zero until then.
type Left struct{ Timeout, Priority, ThrottleFactor, Windows bool }

// Shard is which of the queue's shards the job is in: the first is 0.
func (j *Job) Shard() int { return j.Place % 1000 }

// Shards is how many shards the queue had when the job was placed.
func (j *Job) Shards() int { return j.Place / 1000 % 1000 }

// State is how far the job has come in its life.
func (j *Job) State() State { return j.Status.State(j.Attempt) }

// IsNew says whether the job was inserted by plain SQL, and no worker has taken it in yet.
func (j *Job) IsNew() bool { return j.Status == StatusSubmitted }

// IsDismissed says whether the job has failed, and somebody has said that nothing is to be done about it; of one that was cancelled
// that goes without saying.
func (j *Job) IsDismissed() bool {
	return j.Status == StatusClosed && j.RetriedAs == 0 && j.Error != Cancelled
}

// quarantineFrom is how many attempts in a row a job loses with its worker until it is quarantined.
const quarantineFrom = 2

// IsQuarantined says whether the job's next attempt is quarantined, since its latest two ended with their workers: hipq work runs it in a
// process of its own.
func (j *Job) IsQuarantined() bool { return j.Losses >= quarantineFrom }

// Ran is how long its attempt has taken until now.
func (j *Job) Ran(now time.Time) time.Duration {
	if j.StartTime.IsZero() {
		return 0
	}
	return max(0, now.Sub(j.StartTime))
}

// Outcome is what the row of a job says of its attempt: one that failed, or that was answered while its handler runs.
func (j *Job) Outcome(now time.Time) Outcome {
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
	case j.RetryOverride != None:
		o.RetryAfter, _ = time.ParseDuration(j.RetryOverride) // no delay that can be read is none
	}
	return o
}

// Check refuses a job that can't be, as somebody may have written it into the table: ErrInvalid. Its constraints refuse the
// same, but for what only a program can read. One that is final may be of any kind, and one that is new may leave out what
// its type has.
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
	if n.Data == None { // which a row has, and New has not
		n.Data = ""
	}
	return n.Check()
}
