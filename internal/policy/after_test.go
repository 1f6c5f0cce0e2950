package policy_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/queue/job"
)

// TestAfter compares what follows an attempt with the rules, for each verdict and each small number of attempts.
func TestAfter(t *testing.T) {
	now := time.Date(2026, 11, 29, 3, 12, 0, 0, time.UTC)
	for _, verdict := range []job.Verdict{job.Finished, job.TryAgain, job.Failed, job.Released, job.Stopped, job.Interrupted, job.NotBegun} {
		for _, count := range []bool{false, true} {
			for _, wish := range []time.Duration{0, time.Nanosecond, 30 * time.Second} {
				for attempts := range 4 {
					for attempt := 1; attempt <= 4; attempt++ {
						for uncounted := 0; uncounted < attempt; uncounted++ {
							j := &job.Job{Attempt: attempt, Uncounted: uncounted, Interrupts: 1, ScheduledRunTime: now.Add(-time.Hour)}
							o := job.Outcome{Verdict: verdict, Count: count, RetryAfter: wish}
							if verdict.IsError() {
								o.Error = "busy"
							}
							p := job.RetryPolicy{Attempts: attempts, Delay: time.Minute, Backoff: job.Fixed}
							next := policy.Attempt{Job: j, Outcome: o, Policy: p, Zone: time.UTC}.After(now, 0)
							left := attempt-uncounted < attempts
							again := verdict == job.TryAgain && left || verdict == job.Interrupted || verdict == job.NotBegun || verdict == job.Released && (left || !count)
							free := verdict == job.Interrupted || verdict == job.NotBegun || verdict == job.Released && !count
							at := now
							if again && verdict != job.Interrupted {
								if at = now.Add(wish); wish == 0 && verdict != job.NotBegun {
									at = now.Add(time.Minute)
								}
							}
							if verdict == job.NotBegun {
								at = j.ScheduledRunTime
							}
							what := []any{verdict, count, wish, attempts, attempt, uncounted, next}
							dbtest.Ensure(t, next.Status.IsFinal() != again && (!again || next.Scheduled.Equal(at)), "when it runs again: %v", what)
							dbtest.Ensure(t, (next.Uncounted == uncounted+1) == free && (next.Interrupts == 2) == (free && verdict != job.Released), "what counts: %v", what)
							good := verdict == job.Finished || verdict == job.Released && again || verdict == job.NotBegun // without an error, as here
							dbtest.Ensure(t, (next.Error == job.None) == good && (next.Status == job.StatusFinished) == (verdict == job.Finished), "its error: %v", what)
						}
					}
				}
			}
		}
	}
}

// TestLost: two losses in a row are no fault of the job. Later ones are, because the job was alone in its process.
func TestLost(t *testing.T) {
	j := &job.Job{}
	for n := 1; n <= 4; n++ {
		j.Attempt++
		policy.Lost(j)
		dbtest.Ensure(t, j.Losses == n && j.Interrupts == min(n, 2), "after loss %d: %+v", n, j)
	}
	j.Losses = 0
	policy.Lost(j)
	dbtest.Ensure(t, j.Interrupts == 3, "a loss after other attempts: %+v", j)
}

// drawRetry draws a policy that the config allows: the cap is not below the delay.
func drawRetry(t *rapid.T) job.RetryPolicy {
	delay := rapid.OneOf(rapid.Int64Range(0, 3_600_000), rapid.Int64Range(0, 365*86_400_000)).Draw(t, "delay")
	return job.RetryPolicy{
		Attempts: rapid.OneOf(rapid.IntRange(2, 10), rapid.IntRange(2, math.MaxInt)).Draw(t, "attempts"),
		Delay:    time.Duration(delay) * time.Millisecond,
		Backoff:  rapid.SampledFrom([]job.Backoff{job.Fixed, job.Exponential}).Draw(t, "backoff"),
		MaxDelay: time.Duration(rapid.Int64Range(delay, 400*86_400_000).Draw(t, "max delay")) * time.Millisecond,
		Jitter:   rapid.SampledFrom([]float64{0, 0.1, 0.5, 1}).Draw(t, "jitter"),
	}
}

// drawAttempt draws an attempt that isn't the last.
func drawAttempt(t *rapid.T, p job.RetryPolicy) int {
	return rapid.OneOf(rapid.IntRange(1, min(p.Attempts-1, 80)), rapid.IntRange(1, p.Attempts-1)).Draw(t, "attempt")
}

func drawRandom(t *rapid.T) float64 {
	return rapid.OneOf(rapid.Float64Range(0, 0.999), rapid.Just(math.Nextafter(1, 0))).Draw(t, "random")
}

func decideAgain(t *rapid.T, p job.RetryPolicy, attempt int, random float64) time.Duration {
	d := policy.Retry(p, attempt, job.Outcome{Verdict: job.TryAgain}, random)
	dbtest.Ensure(t, d.Again, "%+v after attempt %d: %+v", p, attempt, d)
	return d.In
}

func TestRetryStaysBetweenDelayAndCap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawRetry(t)
		got := decideAgain(t, p, drawAttempt(t, p), drawRandom(t))
		dbtest.Ensure(t, got >= p.Delay, "%+v: %s is too early", p, got)
		limit := p.MaxDelay
		if p.Backoff == job.Fixed {
			limit = p.Delay
		}
		// A float of this size is accurate to some nanoseconds.
		dbtest.Ensure(t, float64(got) <= float64(limit)*(1+p.Jitter)+64, "%+v: %s is too late", p, got)
	})
}

func TestRetryGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawRetry(t)
		p.Attempts = math.MaxInt - 1
		a, b := drawAttempt(t, p), drawAttempt(t, p)
		a, b = min(a, b), max(a, b)
		p.Attempts = math.MaxInt
		first, second := decideAgain(t, p, a, 0), decideAgain(t, p, b, 0)
		switch {
		case second < first:
			t.Fatalf("%+v: %s after attempt %d, %s after %d", p, first, a, second, b)
		case p.Backoff == job.Fixed && (first != p.Delay || second != p.Delay):
			t.Fatalf("%+v: %s and %s", p, first, second)
		}
		next := decideAgain(t, p, a+1, 0)
		dbtest.Require(t, p.Backoff != job.Exponential || next == min(2*first, p.MaxDelay) || a >= 62, "%+v: %s after attempt %d, then %s", p, first, a, next)
	})
}

func TestRetryJitterOnlyLengthens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawRetry(t)
		attempt, r, s := drawAttempt(t, p), drawRandom(t), drawRandom(t)
		exact, low, high := decideAgain(t, p, attempt, 0), decideAgain(t, p, attempt, min(r, s)), decideAgain(t, p, attempt, max(r, s))
		dbtest.Ensure(t, low >= exact && high >= low, "%+v: %s, %s with %v, %s with %v", p, exact, low, min(r, s), high, max(r, s))
	})
}

func TestRetryAfterIsRespected(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawRetry(t)
		after := time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "retry after"))
		d := policy.Retry(p, drawAttempt(t, p), job.Outcome{Verdict: job.TryAgain, RetryAfter: after}, drawRandom(t))
		dbtest.Ensure(t, d.Again && d.In == after, "%+v after %s: %+v", p, after, d)
	})
}

// The types' largest numbers don't wrap around into the past.
func TestRetryDoesNotOverflow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := job.RetryPolicy{
			Attempts: math.MaxInt,
			Delay:    time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "delay")),
			Backoff:  rapid.SampledFrom([]job.Backoff{job.Fixed, job.Exponential}).Draw(t, "backoff"),
			MaxDelay: math.MaxInt64,
			Jitter:   rapid.Float64Range(0, 1e6).Draw(t, "jitter"),
		}
		floor := min(p.Delay, 100*365*24*time.Hour)
		// A float of this size is off by hundreds of nanoseconds.
		got := decideAgain(t, p, drawAttempt(t, p), drawRandom(t))
		dbtest.Ensure(t, got >= floor-time.Microsecond, "%+v: %s", p, got)
	})
}

func TestDefaultRetry(t *testing.T) {
	want := []time.Duration{time.Minute, 2 * time.Minute}
	for i, w := range want {
		d := policy.Retry(job.DefaultRetry, i+1, job.Outcome{Verdict: job.TryAgain}, 0)
		dbtest.Ensure(t, d.Again && d.In == w, "after attempt %d: %+v, want %s", i+1, d, w)
	}
	d := policy.Retry(job.DefaultRetry, 3, job.Outcome{Verdict: job.TryAgain}, 0)
	dbtest.Ensure(t, !d.Again, "after attempt 3: %+v", d)
}

// The first of several losses in a row is perhaps not the job's fault: it waits for no delay.
func TestFirstLossWaitsForNothing(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for losses, want := range []time.Duration{time.Minute, 0, time.Minute, time.Minute} {
		a := policy.Attempt{Job: &job.Job{Attempt: 1, Losses: losses}, Outcome: job.Outcome{Verdict: job.TryAgain}, Policy: job.DefaultRetry}
		dbtest.Same(t, a.After(now, 0).Scheduled.Sub(now), want, losses)
	}
}
