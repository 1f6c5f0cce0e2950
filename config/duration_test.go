package config

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hipq/hipq/internal/dbtest"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "30s": 30 * time.Second, "5m": 5 * time.Minute, "24h": day, "14d": 14 * day, "1w": week,
		"1h30m": 90 * time.Minute, "1w2d3h4m5s": week + 2*day + 3*time.Hour + 4*time.Minute + 5*time.Second,
		"1d500ms": day + 500*time.Millisecond, "1.5h": 90 * time.Minute, "1m0s": time.Minute, "007s": 7 * time.Second,
	} {
		got, err := ParseDuration(text)
		dbtest.Ensure(t, err == nil && got == want, "ParseDuration(%q) = %s, %v; want %s", text, got, err, want)
	}
	for _, text := range []string{
		"", "30", "00", "1.5", "s", "-5s", "+5s", "5 s", " 5s", "5s ", "1h30", "1w0", "1d1w", "1.5d", ".5s", "5S", "5y", "1d 1h", "1w-1s",
		"99999999w", "99999999999999999999w", "9223372036854775808ns", "106751d24h", "15250w2d",
	} {
		got, err := ParseDuration(text)
		dbtest.Ensure(t, err != nil, "ParseDuration(%q) = %s, want an error", text, got)
	}
}

func TestDurationRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "d"))
		unit := rapid.SampledFrom([]time.Duration{1, time.Millisecond, time.Second, time.Hour, day, week}).Draw(t, "unit")
		d -= d % unit
		for _, text := range []string{d.String(), formatDuration(d), fmt.Sprintf("%dw%dd%s", d/week, d%week/day, d%day)} {
			if got, err := ParseDuration(text); err != nil || got != d {
				t.Fatalf("ParseDuration(%q) = %s, %v; want %s", text, got, err, d)
			}
		}
	})
}
