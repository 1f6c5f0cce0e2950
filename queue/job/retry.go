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
	Attempts int
	// Delay is the time to the second attempt.
	Delay time.Duration
	// Backoff is Fixed (Delay each time) or Exponential (twice as long each time, up to MaxDelay).
	Backoff  Backoff
	MaxDelay time.Duration
	// Jitter is by which part of itself the delay is lengthened at random: 0.1 is by up to a tenth.
	Jitter float64
}

// DefaultRetry is the policy where the config says nothing.
var DefaultRetry = RetryPolicy{Attempts: 3, Delay: time.Minute, Backoff: Exponential, MaxDelay: time.Hour, Jitter: 0.1}

// Decision is what to do after an error, and why.
type Decision struct {
	// Again: run the job once more. Else it is final, with its error.
	Again bool
	// At is when, or else In how long from now by the database's clock; where both are zero it is the policy's delay.
	At time.Time
	In time.Duration
	// Data and Priority are the job's from now on; nil leaves them as they are.
	Data     *string
	Priority *int
	Reason   string
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
