package job

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

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
	Attempts int `json:"attempts"`
	// Delay is the time before the second attempt.
	Delay time.Duration `json:"delay"`
	// Backoff is Fixed (the default) or Exponential: the delay doubles each time, up to MaxDelay.
	Backoff  Backoff       `json:"backoff"`
	MaxDelay time.Duration `json:"max_delay"`
	// Jitter lengthens each delay at random by up to this fraction; 0.1 means up to 10 %.
	Jitter float64 `json:"jitter"`
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

// longestDelay equals the longest timeout.
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
