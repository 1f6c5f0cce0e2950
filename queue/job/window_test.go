package job_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"pgregory.net/rapid"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/job"
)

// windowZones have clock changes that break sums of hours; some have none.
var windowZones = []string{
	"UTC", "America/New_York", "Europe/Berlin", "Asia/Kathmandu", "Asia/Kolkata", "Asia/Tokyo",
	"Australia/Lord_Howe",                                                    // changes by half an hour
	"America/Havana", "Asia/Beirut", "America/Asuncion", "America/Sao_Paulo", // skip midnight
	"Pacific/Apia", "Pacific/Kwajalein", "Pacific/Kiritimati", // skipped a day
	"Pacific/Chatham",  // changes at 02:45
	"America/St_Johns", // changed at 00:01
	"America/Scoresbysund",
	"Antarctica/Troll",  // changes by two hours
	"Africa/Casablanca", // four changes a year
	"Africa/Monrovia",   // 44m30s behind until 1972
	"Asia/Pyongyang", "America/Caracas", "Asia/Tehran",
}

func windowZone(t rapid.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	dbtest.Require(t, err == nil, "%v", err)
	return loc
}

func windowsOf(t *testing.T, list ...string) job.Windows {
	t.Helper()
	return dbtest.Must(job.ParseWindows(list))(t)
}

// windowModel says for each minute of the week, from midnight on Sunday, whether it is inside.
type windowModel [7 * 1440]bool

func (m *windowModel) contains(t time.Time) bool {
	return m[int(t.Weekday())*1440+t.Hour()*60+t.Minute()]
}

// drawWindow draws a window's text and marks it in the model.
func drawWindow(t *rapid.T, m *windowModel) string {
	names := []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
	from := rapid.OneOf(rapid.IntRange(0, 1439), rapid.IntRange(0, 180)).Draw(t, "from")
	length := rapid.OneOf(rapid.IntRange(1, 90), rapid.IntRange(1, 1439)).Draw(t, "length")
	to := (from + length) % 1440
	text := fmt.Sprintf("%02d:%02d-%02d:%02d", from/60, from%60, to/60, to%60)
	if to == 0 && rapid.Bool().Draw(t, "24:00") {
		text = fmt.Sprintf("%02d:%02d-24:00", from/60, from%60)
	}
	days := []int{0, 1, 2, 3, 4, 5, 6}
	switch rapid.IntRange(0, 2).Draw(t, "kind of days") {
	case 1:
		days = rapid.SliceOfN(rapid.IntRange(0, 6), 1, 4).Draw(t, "days")
		var list []string
		for _, d := range days {
			list = append(list, names[d])
		}
		text = strings.Join(list, ",") + " " + text
	case 2:
		first, more := rapid.IntRange(0, 6).Draw(t, "first"), rapid.IntRange(1, 6).Draw(t, "more")
		days = nil
		for i := range more + 1 {
			days = append(days, (first+i)%7)
		}
		text = names[first] + "-" + names[(first+more)%7] + " " + text
	}
	for _, d := range days {
		for i := range length {
			m[(d*1440+from+i)%len(m)] = true
		}
	}
	if rapid.Bool().Draw(t, "upper case") {
		text = strings.ToUpper(text)
	}
	return text
}

// drawInstant prefers days near clock changes and the turn of the year.
func drawInstant(t *rapid.T) time.Time {
	loc := windowZone(t, rapid.SampledFrom(windowZones).Draw(t, "zone"))
	year := rapid.IntRange(1970, 2100).Draw(t, "year")
	at := time.Date(year, time.January, 1, 0, 0, 0, 0, loc)
	switch rapid.IntRange(0, 3).Draw(t, "near") {
	case 0:
		at = at.AddDate(0, 0, rapid.IntRange(0, 365).Draw(t, "day"))
	case 1, 2:
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			if _, end := at.ZoneBounds(); end.After(at) {
				at = end
			}
		}
	}
	at = at.Add(time.Duration(rapid.IntRange(-2*86400, 86400).Draw(t, "seconds")) * time.Second)
	return at.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 1, 999_999_999}).Draw(t, "nanoseconds")))
}

func checkNext(t rapid.TB, ws job.Windows, m *windowModel, at time.Time) {
	t.Helper()
	next := ws.Next(at)
	switch {
	case next.Location() != at.Location():
		t.Fatalf("Next(%v) is in %v", at, next.Location())
	case next.Before(at):
		t.Fatalf("%v: Next(%v) = %v is before it", ws, at, next)
	case next.After(at.AddDate(0, 0, 15)):
		t.Fatalf("%v: Next(%v) = %v is too far", ws, at, next)
	case !m.contains(next) || !ws.Contains(next):
		t.Fatalf("%v: Next(%v) = %v is outside", ws, at, next)
	case next.After(at) && m.contains(next.Add(-1)):
		t.Fatalf("%v: Next(%v) = %v is not the first instant", ws, at, next)
	}
	// Since 1970 every zone's offset is in whole half minutes, so this checks all minutes.
	for s := at; s.Before(next); s = s.Truncate(30 * time.Second).Add(30 * time.Second) {
		inside := m.contains(s)
		dbtest.Require(t, inside == ws.Contains(s), "%v: Contains(%v) = %v", ws, s, !inside)
		dbtest.Require(t, !inside, "%v: Next(%v) = %v but %v is inside", ws, at, next, s)
	}
}

func TestWindowsNextIsTheFirstInstantInside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m windowModel
		var list []string
		for range rapid.IntRange(1, 3).Draw(t, "windows") {
			list = append(list, drawWindow(t, &m))
		}
		ws := dbtest.Must(job.ParseWindows(list))(t)
		checkNext(t, ws, &m, drawInstant(t))
	})
}

func TestWindowsAroundChangesOfTheClock(t *testing.T) {
	const layout = "2006-01-02 15:04:05 -0700"
	for _, c := range []struct{ name, zone, windows, from, want string }{
		{"the opening is skipped", "Europe/Berlin", "02:30-04:00", "2025-03-30 00:00:00 +0100", "2025-03-30 03:00:00 +0200"},
		{"all of it is skipped", "Europe/Berlin", "02:00-03:00", "2025-03-30 00:00:00 +0100", "2025-03-31 02:00:00 +0200"},
		{"all of it is skipped, for a week", "Europe/Berlin", "sun 02:00-03:00", "2025-03-23 03:00:00 +0100", "2025-04-06 02:00:00 +0200"},
		{"after the gap of a day of 23 hours", "Europe/Berlin", "05:00-07:00", "2025-03-30 00:00:00 +0100", "2025-03-30 05:00:00 +0200"},
		{"the second pass opens again", "Europe/Berlin", "02:00-02:30", "2025-10-26 02:45:00 +0200", "2025-10-26 02:00:00 +0100"},
		{"the second pass ends inside", "Europe/Berlin", "01:00-02:30", "2025-10-26 02:15:00 +0100", "2025-10-26 02:15:00 +0100"},
		{"after the second pass of a day of 25 hours", "Europe/Berlin", "05:00-07:00", "2025-10-26 00:00:00 +0200", "2025-10-26 05:00:00 +0100"},
		{"the first instant of the second pass", "America/New_York", "01:00-01:01", "2025-11-02 01:01:00 -0400", "2025-11-02 01:00:00 -0500"},
		{"past midnight over a change", "America/New_York", "sat 22:00-03:30", "2025-03-08 12:00:00 -0500", "2025-03-08 22:00:00 -0500"},
		{"half an hour forward: partly skipped", "Australia/Lord_Howe", "02:10-02:45", "2025-10-05 01:59:59 +1030", "2025-10-05 02:30:00 +1100"},
		{"half an hour forward: all skipped", "Australia/Lord_Howe", "02:00-02:30", "2025-10-05 01:59:59 +1030", "2025-10-06 02:00:00 +1100"},
		{"half an hour back: again", "Australia/Lord_Howe", "01:30-01:40", "2025-04-06 01:45:00 +1100", "2025-04-06 01:30:00 +1030"},
		{"no midnight: opens after the gap", "America/Havana", "sun 00:00-02:00", "2025-03-08 12:00:00 -0500", "2025-03-09 01:00:00 -0400"},
		{"no midnight: none that day", "America/Havana", "00:00-00:30", "2025-03-08 12:00:00 -0500", "2025-03-10 00:00:00 -0400"},
		{"no midnight: past it", "Asia/Beirut", "sat 23:59-01:30", "2025-03-30 01:00:00 +0300", "2025-03-30 01:00:00 +0300"},
		{"no midnight: the day's first", "Asia/Beirut", "00:00-24:00", "2025-03-29 23:59:59 +0200", "2025-03-29 23:59:59 +0200"},
		{"no midnight: Sunday begins at one", "Asia/Beirut", "sun 00:00-24:00", "2025-03-29 12:00:00 +0200", "2025-03-30 01:00:00 +0300"},
		{"a day that never was", "Pacific/Apia", "fri 09:00-17:00", "2011-12-29 12:00:00 -1000", "2012-01-06 09:00:00 +1400"},
		{"the day after it", "Pacific/Apia", "sat 00:00-24:00", "2011-12-29 12:00:00 -1000", "2011-12-31 00:00:00 +1400"},
		{"past a midnight of two days: it closes with the clock", "Pacific/Apia", "thu 22:00-02:00", "2011-12-31 00:00:00 +1400", "2012-01-05 22:00:00 +1400"},
		{"past a midnight of two days: the skipped day's opening", "Pacific/Apia", "fri 22:00-02:00", "2011-12-29 22:00:00 -1000", "2011-12-31 00:00:00 +1400"},
		{"a change at 02:45", "Pacific/Chatham", "03:00-03:45", "2025-09-28 02:44:59 +1245", "2025-09-29 03:00:00 +1345"},
		{"seconds in the zone", "Africa/Monrovia", "00:30-01:00", "1972-01-06 23:00:00 -0044", "1972-01-07 00:44:30 +0000"},
		{"the last day of a leap year", "America/New_York", "10:00-11:00", "2096-12-31 12:00:00 -0500", "2097-01-01 10:00:00 -0500"},
		{"over the last day of a leap year", "America/New_York", "tue 10:00-11:00", "2096-12-27 12:00:00 -0500", "2097-01-01 10:00:00 -0500"},
		{"seconds don't open early", "Asia/Kathmandu", "05:00-07:00", "2025-01-01 04:59:59 +0545", "2025-01-01 05:00:00 +0545"},
		{"the end is outside", "Asia/Kathmandu", "05:00-07:00", "2025-01-01 07:00:00 +0545", "2025-01-02 05:00:00 +0545"},
		{"the last second is inside", "Asia/Kathmandu", "05:00-07:00", "2025-01-01 06:59:59 +0545", "2025-01-01 06:59:59 +0545"},
		{"the nearest of two", "UTC", "sat 10:00-12:00,05:00-07:00", "2025-01-04 08:00:00 +0000", "2025-01-04 10:00:00 +0000"},
		{"none", "UTC", "", "2025-01-04 08:00:00 +0000", "2025-01-04 08:00:00 +0000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			from := dbtest.Must(time.Parse(layout, c.from))(t)
			var list []string
			if c.windows != "" {
				list = strings.Split(c.windows, ",")
			}
			got := windowsOf(t, list...).Next(from.In(windowZone(t, c.zone)))
			dbtest.Same(t, got.Format(layout), c.want, "%s: Next(%s) =", c.windows, c.from)
		})
	}
}

func TestWindowsNextInsideIsUnchanged(t *testing.T) {
	ws := windowsOf(t, "mon-fri 09:00-17:30")
	at := time.Date(2025, 6, 2, 9, 0, 0, 123, windowZone(t, "Europe/Berlin"))
	got := ws.Next(at)
	dbtest.Ensure(t, got == at, "Next(%v) = %v", at, got) //nolint:staticcheck // unchanged includes the location
	n := testing.AllocsPerRun(100, func() { ws.Next(at) })
	dbtest.Ensure(t, n == 0, "%v allocations", n)
}

func TestParseWindowSays(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{"", "it is empty"},
		{"  ", "it is empty"},
		{"25:00", `"25:00" is not two times joined by a dash`},
		{"25:00-26:00", "there is no 25:00"},
		{"09:60-10:00", "there is no 09:60"},
		{"23:00-24:01", "there is no 24:01"},
		{"24:00-02:00", "it can't open at 24:00"},
		{"9-17", `"9" is not a time`},
		{"9:00-17:00", `"9:00" is not a time`},
		{"09:00-17", `"17" is not a time`},
		{"09:00:00-17:00:00", `"09:00:00" is not a time`},
		{"09:00-", `"" is not a time`},
		{"-09:00", `"" is not a time`},
		{"09:00-12:00-15:00", `"12:00-15:00" is not a time`},
		{"09:00–17:00", "joined by a dash"},
		{"+9:00-17:00", `"+9:00" is not a time`},
		{"09:00 17:00", `"09:00" is not a day`},
		{"09:00 - 17:00", "too many words"},
		{"mon", `"mon" is not two times joined by a dash`},
		{"mon-fri", `the times are missing after "mon"`},
		{"mon-fri 09:00", `"09:00" is not two times`},
		{"mon - fri 09:00-17:00", "too many words"},
		{"monday 09:00-17:00", `"monday" is not a day`},
		{"mon-frei 09:00-17:00", `"frei" is not a day`},
		{"mon, 09:00-17:00", `"" is not a day`},
		{"mon-wed-fri 09:00-17:00", `"wed-fri" is not a day`},
		{"mon-mon 09:00-17:00", `"mon-mon" could be one day or seven`},
		{"09:00-09:00", "it ends when it opens"},
		{"00:00-00:00", "for the whole day write 00:00-24:00"},
		{"fri 09:00-17:00 UTC", "too many words"},
		{"\xff\xfe-\xff", "is not a time"},
		{strings.Repeat("x", 1<<20), "joined by a dash"},
	} {
		w, err := job.ParseWindow(c.text)
		if !errors.Is(err, job.ErrWindow) {
			t.Errorf("%q: %v, %v", c.text, w, err)
			continue
		}
		for _, part := range []string{fmt.Sprintf("%.60q", c.text), c.says, `"mon-fri 09:00-17:30"`} {
			dbtest.Ensure(t, strings.Contains(err.Error(), part), "%.60q: the error doesn't say %s: %v", c.text, part, err)
		}
		dbtest.Ensure(t, len(err.Error()) <= 500, "%.60q: the error is %d bytes long", c.text, len(err.Error()))
	}
}

func TestWindowString(t *testing.T) {
	for text, want := range map[string]string{
		"05:00-07:00":             "05:00-07:00",
		" 05:00-07:00 ":           "05:00-07:00",
		"22:00-02:00":             "22:00-02:00",
		"22:00-00:00":             "22:00-24:00",
		"00:00-24:00":             "00:00-24:00",
		"MON-Fri  09:00-17:30":    "mon-fri 09:00-17:30",
		"sun,sat 10:00-12:00":     "sat,sun 10:00-12:00",
		"fri-mon 22:00-02:00":     "fri-mon 22:00-02:00",
		"mon-sun 22:00-02:00":     "22:00-02:00",
		"wed-tue 22:00-02:00":     "22:00-02:00",
		"sun-mon 22:00-02:00":     "sun,mon 22:00-02:00",
		"fri,mon-wed 10:00-12:00": "mon-wed,fri 10:00-12:00",
	} {
		w, err := job.ParseWindow(text)
		dbtest.Ensure(t, err == nil && w.String() == want, "%q: %q, %v, want %q", text, w, err, want)
	}
	dbtest.Same(t, (job.Window{}).String(), "00:00-24:00", "the zero Window")
}

func TestWindowsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []string
		for range rapid.IntRange(0, 4).Draw(t, "windows") {
			list = append(list, drawWindow(t, &windowModel{}))
		}
		ws := dbtest.Must(job.ParseWindows(list))(t)
		again, err := job.ParseWindows(ws.Strings())
		dbtest.Require(t, err == nil && slices.Equal(ws, again), "%v as strings: %v, %v", ws, again, err)
		decoded, err := job.DecodeWindows(ws.Encode())
		dbtest.Require(t, err == nil && slices.Equal(ws, decoded), "%s decoded: %v, %v", ws.Encode(), decoded, err)
		text := dbtest.Must(json.Marshal(ws))(t)
		dbtest.Require(t, len(ws) == 0 || string(text) == ws.Encode(), "JSON %s, encoded %s", text, ws.Encode())
		var back job.Windows
		err = json.Unmarshal(text, &back)
		dbtest.Require(t, err == nil && slices.Equal(ws, back), "%s from JSON: %v, %v", text, back, err)
	})
}

func TestWindowsNone(t *testing.T) {
	for _, text := range []string{"NONE", "[]", "null"} {
		ws, err := job.DecodeWindows(text)
		dbtest.Ensure(t, err == nil && ws == nil, "%s: %v, %v", text, ws, err)
	}
	var none job.Windows
	dbtest.Same(t, none.Encode(), job.None, "none is encoded as")
	text, err := json.Marshal(none)
	dbtest.Ensure(t, err == nil && string(text) == "[]", "none as JSON: %s, %v", text, err)
	dbtest.Ensure(t, none.Strings() != nil, "the strings of none are nil")
}

func TestWindowsRefuse(t *testing.T) {
	many := dbtest.Must(json.Marshal(slices.Repeat([]string{"05:00-07:00"}, 101)))(t)
	for _, text := range []string{"", "none", "05:00-07:00", `"05:00-07:00"`, `[5]`, `{}`, `["05:00-07:00"`, `["05:00-07:00"] x`, `["25:00"]`, `[null]`, string(many)} {
		ws, err := job.DecodeWindows(text)
		dbtest.Ensure(t, errors.Is(err, job.ErrWindow) && strings.Contains(err.Error(), "09:00-17:30") && ws == nil, "decoded %.60s: %v, %v", text, ws, err)
	}
	j := struct{ Windows job.Windows }{windowsOf(t, "05:00-07:00")}
	err := json.Unmarshal([]byte(`{"Windows":["mon-fri"]}`), &j)
	dbtest.Ensure(t, errors.Is(err, job.ErrWindow), "within JSON: %v", err)
	dbtest.Same(t, len(j.Windows), 1, "a refusal changed the windows to %v", j.Windows)
}
