package policy

import (
	"cmp"
	"math"
	"time"

	"github.com/hipq/hipq/queue/job"
)

// Retry is the policy's decision after attempt number attempt, which ended with o. random is in [0, 1).
func Retry(p job.RetryPolicy, attempt int, o job.Outcome, random float64) job.Decision {
	if o.Verdict == job.Failed || o.Verdict == job.Stopped || attempt >= p.Attempts {
		return job.Decision{}
	}
	return job.Decision{Again: true, In: cmp.Or(max(0, o.RetryAfter), delay(p, attempt, random))}
}

// delay is the wait after attempt number attempt. Jitter comes after the cap, so that jobs at the cap don't return together.
// It only lengthens, so that no delay is shorter than configured. schema/sql/mysql/procedures/instance/delay.sql computes the
// same for the stored procedures.
func delay(p job.RetryPolicy, attempt int, random float64) time.Duration {
	d := float64(p.Delay)
	if p.Backoff == job.Exponential {
		d *= math.Pow(2, float64(min(max(attempt-1, 0), 62)))
		d = min(d, float64(max(p.MaxDelay, p.Delay)))
	}
	d *= 1 + p.Jitter*random
	return time.Duration(min(d, float64(math.MaxInt64/2)))
}
