package job

import (
	"errors"
	"fmt"
	"math"
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

// Decide judges the attempt-th attempt, which ended at now with o. random is in [0, 1).
func (p RetryPolicy) Decide(attempt int, o Outcome, now time.Time, random float64) Decision {
	switch {
	case o.Verdict == Failed:
		return Decision{Reason: "the handler said not to retry"}
	case o.Verdict == Stopped:
		return Decision{Reason: "it was cancelled"}
	case attempt >= p.Attempts:
		return Decision{Reason: fmt.Sprintf("attempt %d of %d was the last", attempt, p.Attempts)}
	case o.RetryAfter > 0:
		return Decision{Again: true, At: now.Add(o.RetryAfter), Reason: "the handler said when"}
	}
	delay := p.delay(attempt, random)
	return Decision{Again: true, At: now.Add(delay), Reason: fmt.Sprintf("attempt %d of %d, again after %s", attempt, p.Attempts, delay.Round(time.Millisecond))}
}

// delay is how long to wait after the attempt-th attempt. Jitter comes after the cap, so that jobs which have all
// reached the cap don't come back together; it only lengthens, so that a delay is never shorter than asked for.
func (p RetryPolicy) delay(attempt int, random float64) time.Duration {
	d := float64(p.Delay)
	if p.Backoff == Exponential {
		d *= math.Pow(2, float64(min(max(attempt-1, 0), 62)))
		d = min(d, float64(max(p.MaxDelay, p.Delay)))
	}
	d *= 1 + p.Jitter*random
	return time.Duration(min(d, float64(math.MaxInt64/2)))
}
