package schedule_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/schedule"
)

func TestParseSpec(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "five fields",
		"daily":                   "five fields",
		"0 3 * *":                 "five fields",
		"0 0 3 * * *":             "none for seconds",
		"0 3 * * * * 2030":        "none for seconds",
		"60 * * * *":              "minute 60 is not from 0 to 59",
		"0 24 * * *":              "hour 24 is not from 0 to 23",
		"0 0 0 * *":               "day of month 0 is not from 1 to 31",
		"0 0 * 13 *":              "month 13",
		"0 0 * * 8":               "day of week 8",
		"0 0 * * funday":          `"funday"`,
		"mon * * * *":             "minute",
		"0,99 * * * *":            "minute 99",
		"1-5-9 * * * *":           "minute",
		"5-1 * * * *":             "ends before it begins",
		"5/10 * * * *":            "5-59/10",
		"*/90 * * * *":            "@every 90m",
		"*/0 * * * *":             "step",
		"0 */-1 * * *":            "step",
		"*,5 * * * *":             "minute",
		"? * * * *":               "minute",
		"0 0 L * *":               "day of month",
		"0 0 * * 1#2":             "day of week",
		"+1 * * * *":              "minute",
		"0 0 30 2 *":              "never comes",
		"0 0 31 2,4,6,9,11 *":     "never comes",
		"@reboot":                 "enqueue the job where the host starts",
		"@fortnightly":            "none of @hourly",
		"@every":                  "none of @hourly",
		"@every soon":             "@every 10m",
		"@every 10":               "@every 10m",
		"@every 30s":              "out of range",
		"@every -5m":              "out of range",
		"@every 90000ms":          "",
		"@every 90500ms":          "whole seconds",
		"@5minutes":               "none of @hourly",
		"  0  3 * * Mon-FRI ":     "",
		"0 3 * JAN,dec fri-sun":   "",
		"*/15 8-17/2 1-7 */3 */2": "",
		"@Daily":                  "",
		"0 0 29 2 *":              "",
		"0 0 31 2 mon":            "", // on Mondays
	} {
		_, err := schedule.ParseSpec(text)
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", text, err)
		case want != "" && (!errors.Is(err, schedule.ErrInvalid) || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}

func TestDue(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 30, 0, time.UTC)
	for _, c := range []struct {
		name, spec string
		missed     schedule.Missed
		since      time.Duration
		slots      int
		last       time.Duration // before now
		latest     time.Duration // before now; 0 is none
	}{
		{"nothing yet", "0 3 * * *", "", time.Hour, 0, 0, 0},
		{"in time", "0 12 * * *", schedule.Skip, time.Hour, 1, 30 * time.Second, 30 * time.Second},
		{"of several the latest", "* * * * *", "", time.Hour, 1, 30 * time.Second, 30 * time.Second},
		{"of several in time the latest", "* * * * *", schedule.Skip, time.Hour, 1, 30 * time.Second, 30 * time.Second},
		{"all", "* * * * *", schedule.All, time.Hour, 60, 30 * time.Second, 30 * time.Second},
		{"all, but not for ever", "* * * * *", schedule.All, 1000 * time.Hour, schedule.MostMissed, 30 * time.Second, 30 * time.Second},
		{"too late", "0 11 * * *", schedule.Skip, 2 * time.Hour, 0, 0, time.Hour + 30*time.Second},
		{"late", "0 11 * * *", schedule.Latest, 2 * time.Hour, 1, time.Hour + 30*time.Second, time.Hour + 30*time.Second},
		{"years", "0 11 22 11 *", schedule.All, 5 * 365 * 24 * time.Hour, 5, time.Hour + 30*time.Second, time.Hour + 30*time.Second},
		{"the clock was put back", "* * * * *", schedule.All, -time.Hour, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := schedule.Schedule{Name: "one", Spec: spec(t, c.spec), Missed: c.missed}
			slots, latest := s.Due(now.Add(-c.since), now)
			if len(slots) != c.slots || c.slots > 0 && !slots[len(slots)-1].Equal(now.Add(-c.last)) {
				t.Errorf("slots are %d, %v", len(slots), slots)
			}
			if want := now.Add(-c.latest); latest.IsZero() != (c.latest == 0) || c.latest != 0 && !latest.Equal(want) {
				t.Errorf("the latest is %s", latest)
			}
		})
	}
}

func TestJobOf(t *testing.T) {
	slot := time.Date(2026, 11, 22, 2, 30, 0, 0, time.UTC)
	s := schedule.Schedule{Name: "nightly", Job: job.New{Type: "report", In: time.Hour}}
	if j := s.JobOf(slot); j.Key != "nightly@2026-11-22T02:30:00Z" || !j.At.Equal(slot) || j.In != 0 {
		t.Errorf("%+v", j)
	}
	s.Job.Key, s.Jitter = "report", 10*time.Minute
	if j := s.JobOf(slot); j.Key != "report" {
		t.Errorf("%+v", j)
	}
	seen := map[time.Duration]bool{}
	for n := range 200 {
		at := slot.AddDate(0, 0, n)
		by := s.JobOf(at).At.Sub(at)
		if by < 0 || by > s.Jitter || by%time.Second != 0 || !s.JobOf(at).At.Equal(s.JobOf(at).At) {
			t.Fatalf("put off by %s", by)
		}
		seen[by] = true
	}
	if len(seen) < 50 {
		t.Errorf("%d ways to put it off", len(seen))
	}
}
