package schedule_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
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
		"-1 * * * *":              `minute "-1" is neither`,
		"1,,2 * * * *":            `minute "1,,2" is neither`,
		"0 0 5L * *":              `day of month "5L" is neither`,
		"@every 14d":              "",
		"@every 1w2d12h":          "",
		"@every 367d":             "out of range",
		"@every 0d":               "out of range",
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
		"@reboot":                 "enqueue the job when the host boots",
		"@fortnightly":            "one of @hourly",
		"@every":                  "one of @hourly",
		"@every soon":             "@every 10m",
		"@every 10":               "@every 10m",
		"@every 30s":              "out of range",
		"@every -5m":              "@every 10m",
		"@every 90000ms":          "",
		"@every 90500ms":          "whole seconds",
		"@5minutes":               "one of @hourly",
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
		latest     time.Duration // before now; 0 means none
		leftOut    time.Duration // before now; 0 means none
	}{
		{"nothing yet", "0 3 * * *", "", time.Hour, 0, 0, 0, 0},
		{"in time", "0 12 * * *", schedule.Skip, time.Hour, 1, 30 * time.Second, 30 * time.Second, 0},
		{"of several the latest", "* * * * *", "", time.Hour, 1, 30 * time.Second, 30 * time.Second, 90 * time.Second},
		{"of several within five minutes the latest", "* * * * *", "", 4 * time.Minute, 1, 30 * time.Second, 30 * time.Second, 90 * time.Second},
		{"of two the latest", "* * * * *", schedule.Skip, 2 * time.Minute, 1, 30 * time.Second, 30 * time.Second, 90 * time.Second},
		{"of several in time the latest", "* * * * *", schedule.Skip, time.Hour, 1, 30 * time.Second, 30 * time.Second, 90 * time.Second},
		{"all", "* * * * *", schedule.All, time.Hour, 60, 30 * time.Second, 30 * time.Second, 0},
		{"all, but not for ever", "* * * * *", schedule.All, 1000 * time.Hour, schedule.MostMissed, 30 * time.Second, 30 * time.Second, 100*time.Minute + 30*time.Second},
		{"too late", "0 11 * * *", schedule.Skip, 2 * time.Hour, 0, 0, time.Hour + 30*time.Second, time.Hour + 30*time.Second},
		{"late", "0 11 * * *", schedule.Latest, 2 * time.Hour, 1, time.Hour + 30*time.Second, time.Hour + 30*time.Second, 0},
		{"years", "0 11 22 11 *", schedule.All, 5 * 365 * 24 * time.Hour, 5, time.Hour + 30*time.Second, time.Hour + 30*time.Second, 0},
		{"the clock was set back", "* * * * *", schedule.All, -time.Hour, 0, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := schedule.Schedule{Name: "one", Spec: spec(t, c.spec), Missed: c.missed}
			slots, latest, left := s.Due(now.Add(-c.since), now)
			if !left.Slot.IsZero() != (c.leftOut > 0) || c.leftOut > 0 && !left.Slot.Equal(now.Add(-c.leftOut)) || (left.Why == "") != left.Slot.IsZero() {
				t.Errorf("left out is %+v", left)
			}
			dbtest.Ensure(t, len(slots) == c.slots && (c.slots <= 0 || slots[len(slots)-1].Equal(now.Add(-c.last))),
				"slots are %d, %v", len(slots), slots)
			want := now.Add(-c.latest)
			dbtest.Ensure(t, latest.IsZero() == (c.latest == 0) && (c.latest == 0 || latest.Equal(want)), "the latest is %s", latest)
		})
	}
}

// TestDueWithKey: a schedule with a key gets one job for its missed slots, the latest, also with All.
func TestDueWithKey(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 30, 0, time.UTC)
	s := schedule.Schedule{Name: "one", Spec: spec(t, "0 * * * *"), Missed: schedule.All, Job: job.Params{Key: "one"}}
	slots, latest, left := s.Due(now.Add(-3*time.Hour), now)
	noon := now.Truncate(time.Hour)
	dbtest.Ensure(t, len(slots) == 1 && slots[0].Equal(noon) && latest.Equal(noon) && left.Slot.Equal(noon.Add(-time.Hour)),
		"%v, %s, %+v", slots, latest, left)
}

// TestDueCounts: LeftOut says how many slots were left out.
func TestDueCounts(t *testing.T) {
	now := time.Date(2026, 11, 21, 23, 2, 30, 0, time.UTC)
	zone := dbtest.Must(time.LoadLocation("Europe/Berlin"))(t)
	for since, want := range map[time.Duration]string{
		90 * time.Second: "",
		8 * time.Minute:  "7 slots were missed (2026-11-21 23:55 to 2026-11-22 00:01 CET), because no worker ran; the slot of 00:02 got the job",
		20 * time.Hour:   "at least 100 slots were missed (up to 2026-11-22 00:01 CET), because no worker ran; the slot of 00:02 got the job",
	} {
		_, _, left := schedule.Schedule{Name: "one", Spec: spec(t, "* * * * *"), Location: zone}.Due(now.Add(-since), now)
		dbtest.Same(t, left.Why, want, "after %s", since)
	}
}

// TestEqual: specs with the same slots are equal, however written.
func TestEqual(t *testing.T) {
	for _, all := range [][]string{
		{"* * * * *", "*/1 * * * *"},
		{"@daily", "0 0 * * *", "00 0 * * *", "0,0 0-0 * * *"},
		{"0 0 * * mon-fri", "0 0 * * 1,2,3-5"},
		{"0 0 * * sun", "0 0 * * 7", "0 0 * * 0,7", "0 0 * * sun-sun", "0 0 * * 0-0"},
		{"0,30 4 * * *", "0-59/30 4 * * *"},
		{"@every 14d", "@every 2w", "@every 336h"},
	} {
		for _, text := range all {
			for _, others := range [][]string{all, {"@every 1m", "5 4 3 2 1"}} {
				for _, other := range others {
					want := &others[0] == &all[0]
					dbtest.Ensure(t, spec(t, text).Equal(spec(t, other)) == want, "%q and %q: %t", text, other, !want)
				}
			}
		}
	}
	for _, both := range [][2]string{{"0 0 */2 * tue", "0 0 1-31/2 * tue"}, {"* * * * *", "0-58 * * * *"}} {
		dbtest.Ensure(t, !spec(t, both[0]).Equal(spec(t, both[1])), "%q", both)
	}
}

func TestJobOf(t *testing.T) {
	slot := time.Date(2026, 11, 22, 2, 30, 0, 0, time.UTC)
	s := schedule.Schedule{Name: "nightly", Job: job.Params{Type: "report", In: time.Hour}}
	j := s.JobOf(slot)
	dbtest.Ensure(t, j.Key == "nightly@2026-11-22T02:30:00Z" && j.At.Equal(slot) && j.In == 0, "%+v", j)
	s.Job.Key, s.Jitter = "report", 10*time.Minute
	j = s.JobOf(slot)
	dbtest.Ensure(t, j.Key == "report", "%+v", j)
	seen := map[time.Duration]bool{}
	for n := range 200 {
		at := slot.AddDate(0, 0, n)
		by := s.JobOf(at).At.Sub(at)
		dbtest.Require(t, by >= 0 && by <= s.Jitter && by%time.Second == 0 && s.JobOf(at).At.Equal(s.JobOf(at).At), "put off by %s", by)
		seen[by] = true
	}
	dbtest.Ensure(t, len(seen) >= 50, "%d ways to put it off", len(seen))
}
