package queue

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
)

// Outcome is how an attempt ended.
type Outcome struct {
	Verdict Verdict
	// Error says what went wrong; empty with Finished.
	Error string
	// Result is what the handler gave back, kept with the job. Empty for nothing.
	Result string
	// Output is what the handler printed, its tail if it was long; kept with the attempt.
	Output string
	// RetryAfter, with TryAgain, is the handler's own wish for the delay; 0 leaves it to the policy.
	RetryAfter time.Duration
	// Ran is how long the attempt took.
	Ran time.Duration
}
