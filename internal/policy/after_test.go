package policy_test

import (
	"testing"
	"time"

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
