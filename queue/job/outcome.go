package job

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hipq/hipq/internal/texts"
)

// Verdict is how an attempt ended.
type Verdict string

// The verdicts, as in handlers' JSON replies.
const (
	// Finished: the work is done.
	Finished Verdict = "finished"
	// TryAgain: an error; the retry policy decides.
	TryAgain Verdict = "retry"
	// Failed: an error without retry.
	Failed Verdict = "failed"
	// Sent: the work continues elsewhere, and an answer ends the attempt.
	Sent Verdict = "sent"
	// Released: the handler puts the job back without an error, to run again later.
	Released Verdict = "release"
	// Stopped: an operator cancelled the job while it ran.
	Stopped Verdict = "cancelled"
	// Interrupted: the worker was stopped, or the handler has no room. The job runs again at once; the retry policy doesn't count the
	// attempt.
	Interrupted Verdict = "interrupted"
	// NotBegun: the handler could not begin the job. It runs again after RetryAfter; the retry policy doesn't count the attempt. Until
	// then, the worker starts no more jobs for this handler.
	NotBegun Verdict = "not begun"
)

// IsError says whether the verdict requires a retry decision.
func (v Verdict) IsError() bool { return v == TryAgain || v == Failed }

// IsRelease says that the handler put the job back without an error: also because it has no room now.
func (o Outcome) IsRelease() bool {
	return o.Verdict == Released || o.Verdict == NotBegun && o.Error == ""
}

// Outcome is how an attempt ended.
type Outcome struct {
	Verdict Verdict
	// Error is the reason; empty with Finished and Released.
	Error string
	// Result is kept with the job; empty means none.
	Result string
	// Output is what the handler printed, or its tail; it is kept with the attempt.
	Output string
	// RetryAfter is the handler's own delay with TryAgain and Released, where 0 leaves it to the policy, and NotBegun.
	RetryAfter time.Duration
	// Count says that a Released attempt counts for the retry policy; in the last one, the job fails then.
	Count bool
	// Ran is how long the attempt took.
	Ran time.Duration
}

// Cancelled is the error of a cancelled job.
const Cancelled = "cancelled"

// Reason returns the error to store with the job.
func (o Outcome) Reason() string {
	switch o.Error {
	case "":
		return "the handler gave no reason"
	case None: // it would look like success
		return "the handler's reason was the word " + None
	}
	return o.Error
}

// overrideNever forbids a retry. overrideRelease begins that of a release, perhaps with overrideCount, and a delay. Any other
// override is a delay, or None.
const overrideNever, overrideRelease, overrideCount = "never", "release", " count"

// lostAt marks the override of an attempt that ended with its worker; the worker's last sign of life follows.
const lostAt, lostLayout = "until ", "2006-01-02T15:04:05.000Z"

// OverrideOfLost returns the override of an attempt that ended with its worker. It keeps the worker's last sign of life,
// because the attempt ran at least until then.
func OverrideOfLost(heard time.Time) string {
	if heard.IsZero() {
		return None
	}
	return lostAt + heard.UTC().Format(lostLayout)
}

// RetryOverride returns the wish of a handler or an answer as stored with a job whose attempt hasn't ended: never, a release, a
// delay, or None.
func (o Outcome) RetryOverride() string {
	after := ""
	if o.RetryAfter > 0 {
		after = strings.Replace(o.RetryAfter.String(), "µ", "u", 1) // the column is ASCII
	}
	switch {
	case o.Verdict == Failed:
		return overrideNever
	case o.Verdict == Released && o.Count:
		return strings.TrimSpace(overrideRelease + overrideCount + " " + after)
	case o.Verdict == Released:
		return strings.TrimSpace(overrideRelease + " " + after)
	}
	return cmp.Or(after, None)
}

// MaxNoteChars is the longest stored progress note, in characters.
const MaxNoteChars = 255

// Progress is what a running handler reported. It doesn't affect the job.
type Progress struct {
	// Percent is from 0 to 100.
	Percent int
	// Note says what the handler was doing; None if it didn't say.
	Note string
	// Attempt reported the progress; 0 means that none was reported.
	Attempt int
	// Time is when it was stored.
	Time time.Time
}

// NewProgress rounds the percentage down, truncates the note, and replaces invalid text by U+FFFD. ok is false if percent
// isn't from 0 to 100.
func NewProgress(percent float64, note string) (p Progress, ok bool) {
	if !(percent >= 0 && percent <= 100) { // also refuses NaN
		return Progress{}, false
	}
	const longest = MaxNoteChars * utf8.UTFMax
	note = texts.Clean(note[:min(len(note), longest)])
	if utf8.RuneCountInString(note) > MaxNoteChars {
		note = string([]rune(note)[:MaxNoteChars])
	}
	return Progress{Percent: int(percent), Note: cmp.Or(note, None)}, true
}

// String returns for example "40 %", or "40 % (page 4 of 10)".
func (p Progress) String() string {
	if p.Note == None || p.Note == "" {
		return fmt.Sprintf("%d %%", p.Percent)
	}
	return fmt.Sprintf("%d %% (%s)", p.Percent, p.Note)
}

// Reached returns the progress of the job's latest attempt. ok is false if that has reported none.
func (j *Job) Reached() (p Progress, ok bool) {
	return j.Progress, j.Progress.Attempt > 0 && j.Progress.Attempt == j.Attempt
}

// Backoff is how the delay grows between attempts.
type Backoff string

// The backoffs.
const (
	Fixed       Backoff = "fixed"
	Exponential Backoff = "exponential"
)

// RetryPolicy decides after an error whether and when a job runs again.
type RetryPolicy struct {
	// Attempts counts all attempts, including the first; 1 means no retry.
	Attempts int `json:"attempts" key:"attempts" from:"1"`
	// Delay is the time before the second attempt.
	Delay time.Duration `json:"delay" key:"delay"`
	// Backoff is Fixed (the default) or Exponential: the delay doubles each time, up to MaxDelay.
	Backoff  Backoff       `json:"backoff" key:"backoff" words:"fixed exponential"`
	MaxDelay time.Duration `json:"max_delay" key:"max_delay"`
	// Jitter lengthens each delay at random by up to this fraction; 0.1 means up to 10 %.
	Jitter float64 `json:"jitter" key:"jitter"`
}

// DefaultRetry applies where the config has no policy.
var DefaultRetry = RetryPolicy{Attempts: 3, Delay: time.Minute, Backoff: Exponential, MaxDelay: time.Hour, Jitter: 0.1}

// Check returns ErrInvalid for an invalid policy. The zero RetryPolicy is invalid; start from DefaultRetry.
func (p RetryPolicy) Check() error {
	switch {
	case p.Attempts < 1 || p.Attempts > maxInt:
		return fmt.Errorf("%w: its retry has %d attempts, not 1 to %d (DefaultRetry has the defaults)", ErrInvalid, p.Attempts, maxInt)
	case p.Delay < 0 || p.Delay > longestDelay || p.MaxDelay < 0 || p.MaxDelay > longestDelay:
		return fmt.Errorf("%w: its retry's delay of %s, or max. delay of %s, is not from 0 to %s", ErrInvalid, p.Delay, p.MaxDelay, longestDelay)
	case p.Backoff != "" && p.Backoff != Fixed && p.Backoff != Exponential:
		return fmt.Errorf("%w: its retry's backoff %q is neither %s nor %s", ErrInvalid, p.Backoff, Fixed, Exponential)
	case p.Backoff == Exponential && p.MaxDelay == 0 && p.Delay > 0:
		return fmt.Errorf("%w: its retry's delay grows exponentially, but its max. delay is 0", ErrInvalid)
	case !(p.Jitter >= 0 && p.Jitter <= 1): // this form refuses NaN too
		return fmt.Errorf("%w: its retry's jitter %g is not from 0 to 1", ErrInvalid, p.Jitter)
	}
	return nil
}

const longestDelay = MaxSeconds * time.Second

// Decision is what to do after an error.
type Decision struct {
	// Again runs the job once more; otherwise it becomes final with its error.
	Again bool
	// At is when to retry. If At and In are zero, the policy's delay applies.
	At time.Time
	// In is the delay by the database's clock, if At is zero.
	In time.Duration
	// Data replaces the job's data unless nil.
	Data *string
	// Priority replaces the job's priority unless nil.
	Priority *int
}

// Check refuses a decision that can't be stored.
func (d Decision) Check() error {
	switch {
	case d.Priority != nil && (*d.Priority < -maxInt || *d.Priority > maxInt):
		return fmt.Errorf("its priority %d is out of range", *d.Priority)
	case !d.At.IsZero() && (d.At.UTC().Year() < 1970 || d.At.UTC().Year() > 9998):
		return fmt.Errorf("its time %s is not between 1970 and 9998", d.At.Format(time.RFC3339))
	case d.Data != nil && len(*d.Data) > MaxDataBytes:
		return fmt.Errorf("its job_data has %d bytes; the maximum is %d", len(*d.Data), MaxDataBytes)
	case d.Data != nil && !utf8.ValidString(*d.Data):
		return errors.New("its job_data is not valid UTF-8")
	}
	return nil
}
