package job

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Backoff is how the delay grows from attempt to attempt.
type Backoff string

// The ways to grow.
const (
	Fixed       Backoff = "fixed"
	Exponential Backoff = "exponential"
)

// RetryPolicy decides after an error whether and when a job runs again.
type RetryPolicy struct {
	// Attempts counts all attempts: 1 means never again.
	Attempts int `json:"attempts"`
	// Delay is the time to the second attempt.
	Delay time.Duration `json:"delay"`
	// Backoff is Fixed (Delay each time; the empty one too) or Exponential (twice as long each time, up to MaxDelay).
	Backoff  Backoff       `json:"backoff"`
	MaxDelay time.Duration `json:"max_delay"`
	// Jitter is by which part of itself the delay is lengthened at random: 0.1 is by up to a tenth.
	Jitter float64 `json:"jitter"`
}

// DefaultRetry is the policy where the config says nothing.
var DefaultRetry = RetryPolicy{Attempts: 3, Delay: time.Minute, Backoff: Exponential, MaxDelay: time.Hour, Jitter: 0.1}

// Check refuses a policy that can't be: ErrInvalid. The zero RetryPolicy is none: DefaultRetry is.
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
	case !(p.Jitter >= 0 && p.Jitter <= 1): // so written it refuses NaN too
		return fmt.Errorf("%w: its retry's jitter %g is not from 0 to 1", ErrInvalid, p.Jitter)
	}
	return nil
}

// longestDelay is as long as the longest timeout.
const longestDelay = MaxSeconds * time.Second

// Decision is what to do after an error.
type Decision struct {
	// Again: run the job once more. Else it is final, with its error.
	Again bool
	// At is when, or else In how long from now by the database's clock; where both are zero it is the policy's delay.
	At time.Time
	In time.Duration
	// Data and Priority are the job's from now on; nil leaves them as they are.
	Data     *string
	Priority *int
}

// Check refuses what can't be written down.
func (d Decision) Check() error {
	switch {
	case d.Priority != nil && (*d.Priority < -maxInt || *d.Priority > maxInt):
		return fmt.Errorf("its priority %d is out of range", *d.Priority)
	case !d.At.IsZero() && (d.At.Year() < 1970 || d.At.Year() > 9998):
		return fmt.Errorf("its time %s is not between 1970 and 9998", d.At.Format(time.RFC3339))
	case d.Data != nil && len(*d.Data) > MaxDataBytes:
		return fmt.Errorf("its job_data has %d bytes, allowed are %d", len(*d.Data), MaxDataBytes)
	case d.Data != nil && !utf8.ValidString(*d.Data):
		return errors.New("its job_data is not valid UTF-8")
	}
	return nil
}
