package config

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hipq/hipq/internal/dbtest"
)

// at is a fixed clock.
func at(text string) func() (time.Time, error) {
	return func() (time.Time, error) { return time.Parse(time.RFC3339, text) }
}

func TestParseTime(t *testing.T) {
	berlin := dbtest.Must(time.LoadLocation("Europe/Berlin"))(t)
	// late in the evening of UTC it is tomorrow in Berlin
	now := at("2026-11-21T23:30:00Z")
	for text, want := range map[string]string{
		"2026-12-31T23:00:00Z":         "2026-12-31T23:00:00Z",
		"2026-12-31T23:00:00+05:30":    "2026-12-31T17:30:00Z",
		"2026-12-31T23:00:00.5Z":       "2026-12-31T23:00:00.5Z",
		"2031-01-01 17:00:00.000000Z":  "2031-01-01T17:00:00Z",
		"2026-12-31 23:00:00.25+05:30": "2026-12-31T17:30:00.25Z",
		"2026-12-31 23:00:00.123456":   "2026-12-31T22:00:00.123456Z",
		"2026-12-31 23:00":             "2026-12-31T22:00:00Z",
		"2026-12-31T23:00":             "2026-12-31T22:00:00Z",
		"2026-07-01 23:00:05":          "2026-07-01T21:00:05Z",
		"2026-07-01":                   "2026-06-30T22:00:00Z",
		"2024-02-29":                   "2024-02-28T23:00:00Z",
		"09:00":                        "2026-11-22T08:00:00Z",
		"09:00:01":                     "2026-11-22T08:00:01Z",
		"today":                        "2026-11-21T23:00:00Z",
		"today 09:00":                  "2026-11-22T08:00:00Z",
		"tomorrow":                     "2026-11-22T23:00:00Z",
		"tomorrow 09:00":               "2026-11-23T08:00:00Z",
		"yesterday 18:30":              "2026-11-21T17:30:00Z",
		"now":                          "2026-11-21T23:30:00Z",
		"-1h":                          "2026-11-21T22:30:00Z",
		"+90s":                         "2026-11-21T23:31:30Z",
		"+1w2d":                        "2026-11-30T23:30:00Z",
		// the hour skipped in spring, and the repeated one in autumn, from both sides
		"2026-03-29 01:59:59": "2026-03-29T00:59:59Z",
		"2026-03-29 03:00":    "2026-03-29T01:00:00Z",
		"2026-10-25 01:59:59": "2026-10-24T23:59:59Z",
		"2026-10-25 03:00":    "2026-10-25T02:00:00Z",
	} {
		got, err := ParseTime(text, berlin, now)
		dbtest.Ensure(t, err == nil && got.UTC().Format(time.RFC3339Nano) == want,
			"ParseTime(%q) = %s, %v; want %s", text, got.UTC().Format(time.RFC3339Nano), err, want)
	}
}

func TestParseTimeRefuses(t *testing.T) {
	berlin, now := dbtest.Must(time.LoadLocation("Europe/Berlin"))(t), at("2026-11-21T12:00:00Z")
	const syntax = "is not a time"
	for text, want := range map[string]string{
		"":                     syntax,
		" ":                    syntax,
		"tuesday":              syntax,
		"1h":                   syntax,
		"2026-02-30":           syntax,
		"2026-02-30 10:00":     syntax,
		"24:00":                syntax,
		"12:60":                syntax,
		"9:00":                 syntax,
		"tomorrow  09:00":      syntax,
		"tomorrow 09:00 ":      syntax,
		"12:00\n":              syntax,
		" 12:00":               syntax,
		"T12:00":               syntax,
		"tomorrow12:00":        syntax,
		"2026-12-3112:00":      syntax,
		"2026-12-31T23:00:00z": syntax,
		"1700000000":           syntax,
		"+":                    "is not a duration",
		"-1":                   "no unit",
		"--1h":                 "is negative",
		"+ 1h":                 "is not a duration",
		"1969-12-31T23:59:59Z": "between 1970 and 9998",
		"9999-01-02":           "between 1970 and 9998",
		"-3000w":               "between 1970 and 9998",
		"2026-03-29 02:30":     "2026-03-29 02:30:00 does not exist in Europe/Berlin because the clocks change; write 2026-03-29T00:30:00Z or 2026-03-29T01:30:00Z",
		"2026-10-25 02:30":     "2026-10-25 02:30:00 occurs twice in Europe/Berlin because the clocks change; write 2026-10-25T00:30:00Z or 2026-10-25T01:30:00Z",
	} {
		got, err := ParseTime(text, berlin, now)
		dbtest.Ensure(t, err != nil && strings.Contains(err.Error(), want), "ParseTime(%q) = %s, %v; want %q", text, got, err, want)
	}
	silent := errors.New("no clock")
	for _, text := range []string{"now", "-1h", "09:00", "tomorrow"} {
		_, err := ParseTime(text, berlin, func() (time.Time, error) { return time.Time{}, silent })
		dbtest.Ensure(t, errors.Is(err, silent), "ParseTime(%q) without a clock: %v", text, err)
	}
}

// TestParseTimeAtMidnight: in a zone that changes its clocks at midnight, tomorrow is the next day, and each day has a beginning.
func TestParseTimeAtMidnight(t *testing.T) {
	for _, c := range []struct{ zone, now, text, want string }{
		// 2026-09-06 begins at 01:00: half past midnight of the days before and after doesn't exist on it
		{"America/Santiago", "2026-09-05T04:30:00Z", "tomorrow 09:00", "2026-09-06T12:00:00Z"},
		{"America/Santiago", "2026-09-05T04:30:00Z", "tomorrow", "2026-09-06T04:00:00Z"},
		{"America/Santiago", "2026-09-06T15:00:00Z", "today", "2026-09-06T04:00:00Z"},
		{"America/Santiago", "2026-09-07T03:30:00Z", "yesterday", "2026-09-06T04:00:00Z"},
		{"Africa/Cairo", "2026-01-01T00:00:00Z", "2026-04-24", "2026-04-23T22:00:00Z"},
		// 2026-11-01 has 00:00 to 01:00 twice
		{"America/Havana", "2026-01-01T00:00:00Z", "2026-11-01", "2026-11-01T04:00:00Z"},
	} {
		got, err := ParseTime(c.text, dbtest.Must(time.LoadLocation(c.zone))(t), at(c.now))
		dbtest.Ensure(t, err == nil && got.UTC().Format(time.RFC3339) == c.want,
			"ParseTime(%q) in %s at %s = %s, %v; want %s", c.text, c.zone, c.now, got.UTC().Format(time.RFC3339), err, c.want)
	}
	for _, text := range []string{"2026-09-06 00:00", "2026-09-06 00:30"} {
		got, err := ParseTime(text, dbtest.Must(time.LoadLocation("America/Santiago"))(t), nil)
		dbtest.Ensure(t, err != nil && strings.Contains(err.Error(), "does not exist"), "ParseTime(%q) = %s, %v", text, got, err)
	}
}

// TestParseTimeOfAnyHour: what a zone's clock shows parses as that time, or is ambiguous; a time refused as nonexistent
// is never shown.
func TestParseTimeOfAnyHour(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		z := dbtest.Must(time.LoadLocation(rapid.SampledFrom([]string{
			"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Sao_Paulo", "Pacific/Apia", "Africa/Casablanca",
		}).Draw(r, "zone")))(t)
		from := time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC)
		want := from.Add(time.Duration(rapid.IntRange(0, 20*365*24*4).Draw(r, "quarter")) * 15 * time.Minute)
		text := want.In(z).Format("2006-01-02 15:04")
		got, err := ParseTime(text, z, nil)
		switch {
		case err == nil && !got.Equal(want):
			r.Fatalf("%s in %s is %s, want %s", text, z, got, want)
		case err != nil && (!strings.Contains(err.Error(), "twice") || !strings.Contains(err.Error(), want.Format(time.RFC3339))):
			r.Fatalf("%s in %s: %v, want %s", text, z, err, want)
		}
	})
}

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
