package job

import "time"

// Verdict is what a handler, or what watches over it, says of an attempt.
type Verdict string

// The verdicts. The words are those of the JSON that a handler may say.
const (
	// Finished: the work is done.
	Finished Verdict = "finished"
	// TryAgain: an error; the retry policy decides.
	TryAgain Verdict = "retry"
	// Failed: an error for good, no retry.
	Failed Verdict = "failed"
	// Sent: the work is under way elsewhere, and an answer from there ends it.
	Sent Verdict = "sent"
	// Stopped: an operator had it cancelled while it ran.
	Stopped Verdict = "cancelled"
	// Interrupted: the worker was told to stop. The job runs again at once, and the attempt doesn't count against the retry policy's.
	Interrupted Verdict = "interrupted"
)

// IsError says whether a retry decision follows.
func (v Verdict) IsError() bool { return v == TryAgain || v == Failed }

// Outcome is how an attempt ended.
type Outcome struct {
	Verdict Verdict
	// Error says what went wrong; empty with Finished.
	Error string
	// Result is what the handler gave back, kept with the job. Empty for nothing.
	Result string
	// Output is what the handler printed, its tail if it was long; kept with the attempt.
	Output string
	// RetryAfter, with TryAgain, is the handler's own delay; 0 leaves it to the policy.
	RetryAfter time.Duration
	// Ran is how long the attempt took.
	Ran time.Duration
}

// Cancelled is the error of a job that was cancelled.
const Cancelled = "cancelled"

// Reason is what the job's error says.
func (o Outcome) Reason() string {
	switch o.Error {
	case "":
		return "the handler gave no reason"
	case None: // which would look like success
		return "the handler's reason was the word " + None
	}
	return o.Error
}

// overrideNever is never to be tried again. Else an override is a delay, or none.
const overrideNever = "never"

// lostAt is the beginning of the override of an attempt that ended with its worker: until when that was heard of.
const lostAt, lostLayout = "until ", "2006-01-02T15:04:05.000Z"

// OverrideOfLost is what is kept instead of a handler's override for an attempt that ended with its worker, which was last heard of at a time:
// as far as is known, it has run as long as that.
func OverrideOfLost(heard time.Time) string {
	if heard.IsZero() {
		return None
	}
	return lostAt + heard.UTC().Format(lostLayout)
}

// RetryOverride is what a handler wants, as it is kept with a job that waits for its retry decision: never to be tried again, or
// after a delay.
func (o Outcome) RetryOverride() string {
	switch {
	case o.Verdict == Failed:
		return overrideNever
	case o.RetryAfter > 0:
		return o.RetryAfter.String()
	}
	return None
}
