package policy

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/job"
)

// However starts come, no stretch of the rate's period has too many, and after the period there is room.
func TestRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := job.Rate{
			Starts: rapid.IntRange(1, 20).Draw(t, "starts"),
			Per:    time.Duration(rapid.Int64Range(int64(time.Second), int64(time.Hour)).Draw(t, "per")),
		}
		now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
		s := Starts{}
		var at []time.Time
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(r.Per)/2).Draw(t, "pause")))
			left, wait := s.Left(r, now)
			dbtest.Ensure(t, left > 0 == (wait == 0) && wait <= r.Per+slice(r), "%d left, wait %v", left, wait)
			if left == 0 {
				later, _ := s.Left(r, now.Add(wait))
				dbtest.Ensure(t, later != 0, "after %v there is still no room", wait)
				continue
			}
			n := rapid.IntRange(1, left).Draw(t, "n")
			s = s.Add(r, n, now)
			for range n {
				at = append(at, now)
			}
		}
		for i := range at {
			if j := i + r.Starts; j < len(at) && at[j].Sub(at[i]) < r.Per {
				t.Fatalf("%d starts within %v", r.Starts+1, at[j].Sub(at[i]))
			}
		}
		left, _ := s.Left(r, now.Add(r.Per+slice(r)))
		dbtest.Ensure(t, left == r.Starts, "after all of it is over, %d are left of %d", left, r.Starts)
		dbtest.Ensure(t, len(s) <= rateSlices+2, "%d slices are kept", len(s))
	})
}

// Starts in the future, after the clock was set back, count from the moment when this is noticed.
func TestRateOfAClockThatWasPutBack(t *testing.T) {
	for _, r := range []job.Rate{{Starts: 3, Per: time.Minute}, {Starts: 3, Per: 2 * time.Hour}} {
		late := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		s := Starts{}.Add(r, 2, late).Add(r, 1, late.Add(r.Per/2))
		now := late.Add(-time.Hour)
		left, wait := s.Left(r, now)
		dbtest.Ensure(t, left == 0 && wait <= r.Per+slice(r), "%d left, wait %s", left, wait)
		dbtest.Ensure(t, s.After(now), "nothing is after now")
		s = s.asOf(r, now)
		dbtest.Ensure(t, !s.After(now), "still later than now: %v", s)
		left, wait = s.Left(r, now)
		dbtest.Ensure(t, left == 0 && wait <= r.Per+slice(r), "then %d left, wait %s", left, wait)
		left, _ = s.Left(r, now.Add(r.Per+slice(r)))
		dbtest.Ensure(t, left == r.Starts, "after a whole period there are %d left", left)
	}
}

func TestTimeoutError(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Second: "1s", 10 * time.Second: "10s", 90 * time.Second: "1m30s", 10 * time.Minute: "10m", time.Hour: "1h",
		100 * time.Minute: "1h40m", time.Hour + 5*time.Second: "1h0m5s", 24 * time.Hour: "24h", 1100 * time.Millisecond: "1.1s",
	} {
		got := TimeoutError(d).Error()
		dbtest.Ensure(t, got == "timeout after "+want, "%v: %s, want %s", d, got, want)
	}
}
