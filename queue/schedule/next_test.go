package schedule_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"pgregory.net/rapid"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/schedule"
)

func spec(t testing.TB, text string) schedule.Spec {
	t.Helper()
	return dbtest.Must(schedule.ParseSpec(text))(t)
}

// TestChangesOfClocks checks the promises of crontab(5) at clock changes. Slots have the zone's offset.
func TestChangesOfClocks(t *testing.T) {
	const berlin, newYork, lordHowe, kolkata, santiago, cairo = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe",
		"Asia/Kolkata", "America/Santiago", "Africa/Cairo"
	for _, c := range []struct {
		name, spec, zone, after string
		want                    []string
	}{
		{"the hour left out", "30 2 * * *", berlin, "2026-03-28T12:00:00+01:00", []string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
		{"two in it are one", "15,45 2 * * *", berlin, "2026-03-28T12:00:00+01:00", []string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:15:00+02:00"}},
		{"and one with what is there", "0 2,3 * * *", berlin, "2026-03-28T12:00:00+01:00", []string{
			"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00",
		}},
		{"the hour twice", "30 2 * * *", berlin, "2026-10-24T12:00:00+02:00", []string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		{"from within it", "30 2 * * *", berlin, "2026-10-25T02:10:00+01:00", []string{"2026-10-26T02:30:00+01:00"}},
		{"behind it", "0 2,3 * * *", berlin, "2026-10-25T00:00:00+02:00", []string{
			"2026-10-25T02:00:00+02:00", "2026-10-25T03:00:00+01:00", "2026-10-26T02:00:00+01:00",
		}},
		{"a day of 23 hours", "@hourly", berlin, "2026-03-29T00:30:00+01:00", []string{
			"2026-03-29T01:00:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T04:00:00+02:00",
		}},
		{"a day of 25 hours", "@hourly", berlin, "2026-10-25T01:30:00+02:00", []string{
			"2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00",
		}},
		{"each half hour of 25", "*/30 * * * *", berlin, "2026-10-25T02:00:00+02:00", []string{
			"2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T02:30:00+01:00", "2026-10-25T03:00:00+01:00",
		}},
		{"wild in the hour left out", "*/30 2 * * *", berlin, "2026-03-28T12:00:00+01:00", []string{"2026-03-30T02:00:00+02:00"}},
		{"midnight is there", "@daily", berlin, "2026-10-24T12:00:00+02:00", []string{"2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"}},
		{"New York in spring", "30 2 * * *", newYork, "2026-03-07T12:00:00-05:00", []string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"}},
		{"New York in autumn", "30 1 * * *", newYork, "2026-10-31T12:00:00-04:00", []string{"2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"}},
		{"half an hour left out", "15 2 * * *", lordHowe, "2026-10-03T12:00:00+10:30", []string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"}},
		{"half an hour twice", "45 1 * * *", lordHowe, "2026-04-04T12:00:00+11:00", []string{"2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"}},
		{"hourly where it is half an hour", "0 * * * *", lordHowe, "2026-10-04T00:30:00+10:30", []string{
			"2026-10-04T01:00:00+10:30", "2026-10-04T03:00:00+11:00",
		}},
		{"no changes", "30 2 * * *", kolkata, "2026-03-28T12:00:00+05:30", []string{"2026-03-29T02:30:00+05:30", "2026-03-30T02:30:00+05:30"}},
		{"no midnight", "@daily", santiago, "2026-09-05T12:00:00-04:00", []string{"2026-09-06T01:00:00-03:00", "2026-09-07T00:00:00-03:00"}},
		{"the hour before midnight twice", "30 23 * * *", santiago, "2026-04-04T12:00:00-03:00", []string{
			"2026-04-04T23:30:00-03:00", "2026-04-05T23:30:00-04:00",
		}},
		{"no midnight of Friday", "0 0 * * fri", cairo, "2026-04-23T12:00:00+02:00", []string{"2026-04-24T01:00:00+03:00", "2026-05-01T00:00:00+03:00"}},
		{"its last hour twice", "30 23 29 10 *", cairo, "2026-10-29T12:00:00+03:00", []string{"2026-10-29T23:30:00+03:00", "2027-10-29T23:30:00+02:00"}},
		{"@every knows no zone", "@every 1h", berlin, "2026-10-25T01:30:00+02:00", []string{"2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00"}},
		{"either day", "0 12 13 * fri", berlin, "2026-11-01T00:00:00+01:00", []string{
			"2026-11-06T12:00:00+01:00", "2026-11-13T12:00:00+01:00", "2026-11-20T12:00:00+01:00",
		}},
		{"leap years", "0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", []string{"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"}},
		// Go takes each year for 365 days. Some files of zones list each change until 2037, so 2096 tests the rule.
		{"the last day of a leap year", "30 2 * * *", berlin, "2096-12-30T00:00:00+01:00", []string{
			"2096-12-30T02:30:00+01:00", "2096-12-31T02:30:00+01:00", "2097-01-01T02:30:00+01:00",
		}},
		{"over the last day of a leap year", "0 0 1 * *", berlin, "2096-12-01T00:00:00+01:00", []string{"2097-01-01T00:00:00+01:00"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := dbtest.Must(time.Parse(time.RFC3339, c.after))(t)
			zone := dbtest.Must(time.LoadLocation(c.zone))(t)
			var got []string
			for range c.want {
				at = spec(t, c.spec).Next(at, zone)
				got = append(got, at.In(zone).Format(time.RFC3339))
			}
			dbtest.Ensure(t, slices.Equal(got, c.want),
				"%s in %s after %s:\ngot  %s\nwant %s", c.spec, c.zone, c.after, strings.Join(got, " "), strings.Join(c.want, " "))
		})
	}
}

// aField draws a field and the numbers in it.
func aField(t *rapid.T, name string, low, high int) (text string, has map[int]bool) {
	has = map[int]bool{}
	take := func(from, to, step int) {
		for n := from; n <= to; n += step {
			has[n] = true
		}
	}
	switch rapid.IntRange(0, 4).Draw(t, name) {
	case 0, 1:
		take(low, high, 1)
		return "*", has
	case 2:
		step := rapid.IntRange(1, high).Draw(t, name+" step")
		take(low, high, step)
		return "*/" + strconv.Itoa(step), has
	}
	var list []string
	for range rapid.IntRange(1, 3).Draw(t, name+" elements") {
		from := rapid.IntRange(low, high).Draw(t, name+" from")
		to := rapid.IntRange(from, high).Draw(t, name+" to")
		step := rapid.IntRange(1, 5).Draw(t, name+" step")
		switch {
		case to == from:
			take(from, from, 1)
			list = append(list, strconv.Itoa(from))
		case step == 1:
			take(from, to, 1)
			list = append(list, strconv.Itoa(from)+"-"+strconv.Itoa(to))
		default:
			take(from, to, min(step, high))
			list = append(list, strconv.Itoa(from)+"-"+strconv.Itoa(to)+"/"+strconv.Itoa(min(step, high)))
		}
	}
	return strings.Join(list, ","), has
}

// TestNext compares Next with a cron that reads its clock each minute, around clock changes in several zones.
func TestNext(t *testing.T) {
	changes := map[string][]string{
		"Europe/Berlin": {"2026-03-29", "2026-10-25"}, "America/New_York": {"2026-03-08", "2026-11-01"},
		"Australia/Lord_Howe": {"2026-04-05", "2026-10-04"}, "America/Santiago": {"2026-04-04", "2026-09-06"},
		"Africa/Cairo": {"2026-04-24", "2026-10-29"}, "Asia/Kolkata": {"2026-01-31"},
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(slices.Sorted(func(yield func(string) bool) {
			for z := range changes {
				if !yield(z) {
					return
				}
			}
		})).Draw(t, "zone")
		in := dbtest.Must(time.LoadLocation(name))(t)
		day, _ := time.ParseInLocation(time.DateOnly, rapid.SampledFrom(changes[name]).Draw(t, "day"), in)
		minute, minutes := aField(t, "minute", 0, 59)
		hour, hours := aField(t, "hour", 0, 23)
		date, dates := aField(t, "day", 1, 31)
		month, months := aField(t, "month", 1, 12)
		weekday, weekdays := aField(t, "weekday", 0, 7)
		text := strings.Join([]string{minute, hour, date, month, weekday}, " ")
		s, err := schedule.ParseSpec(text)
		if err != nil {
			t.Skip(err)
		}
		weekdays[0] = weekdays[0] || weekdays[7]
		matches := func(c time.Time) bool { // c is what the clock shows
			days := dates[c.Day()] && weekdays[int(c.Weekday())]
			if date[0] != '*' && weekday[0] != '*' {
				days = dates[c.Day()] || weekdays[int(c.Weekday())]
			}
			return minutes[c.Minute()] && hours[c.Hour()] && months[int(c.Month())] && days
		}
		wild := minute[0] == '*' || hour[0] == '*'
		clock := func(at time.Time) time.Time {
			_, offset := at.In(in).Zone()
			return at.UTC().Add(time.Duration(offset) * time.Second)
		}
		from := day.Add(-26 * time.Hour)
		end := day.Add(50 * time.Hour)
		var want []time.Time
		furthest := clock(from)
		for at := from.Add(time.Minute); at.Before(end); at = at.Add(time.Minute) {
			c, due := clock(at), false
			switch {
			case wild:
				due = matches(c)
			case c.After(furthest): // including what the jump skipped
				for skipped := furthest.Add(time.Minute); !skipped.After(c); skipped = skipped.Add(time.Minute) {
					due = due || matches(skipped)
				}
				furthest = c
			}
			if due {
				want = append(want, at.UTC())
			}
		}
		var got []time.Time
		for at := s.Next(from, in); !at.IsZero() && at.Before(end); at = s.Next(at, in) {
			got = append(got, at)
		}
		dbtest.Ensure(t, slices.EqualFunc(got, want, time.Time.Equal), "%s in %s from %s\ngot  %v\nwant %v", text, name, from, got, want)
	})
}
