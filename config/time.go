package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
)

// dayAndTime matches a time in a zone: a day, a time of day, or both.
var dayAndTime = func() func() *regexp.Regexp {
	const day, clock = `(yesterday|today|tomorrow|[0-9]{4}-[0-9]{2}-[0-9]{2})`, `([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.][0-9]{1,9})?)?)`
	return texts.Pattern(`^(?:` + day + `(?:[ T]` + clock + `)?|` + clock + `)$`)
}()

// ParseTime parses a time as people write it, from 1970 to 9998:
//
//	2026-12-31T23:00:00Z, 2026-12-31 23:00:00+01:00    RFC 3339
//	2026-12-31 23:00, 2026-12-31 23:00:05.5, 2026-12-31  in the zone; a day alone means its beginning
//	tomorrow 09:00, today, yesterday 18:30             likewise
//	09:00                                              today
//	now, -1h, +90s, +1d                                relative to now: a duration with its sign
//
// A time of day that the zone's clocks skip or show twice on that day is refused; the error lists the possible times.
// now is called only if needed.
func ParseTime(text string, zone *time.Location, now func() (time.Time, error)) (t time.Time, err error) {
	parts := dayAndTime().FindStringSubmatch(text)
	switch {
	case text == "now":
		t, err = now()
	case strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-"):
		t, err = fromNow(text, now)
	case parts != nil:
		t, err = inZone(parts[1], parts[2]+parts[3], zone, now)
	default:
		standard := text
		if len(text) > 10 && text[10] == ' ' { // as the stored procedures take it
			standard = text[:10] + "T" + text[11:]
		}
		if t, err = time.Parse(time.RFC3339, standard); err != nil {
			err = errNoTime
		}
	}
	if errors.Is(err, errNoTime) {
		return t, fmt.Errorf("%s %w", shown(text), err)
	}
	if err == nil && (t.UTC().Year() < 1970 || t.UTC().Year() > 9998) {
		err = fmt.Errorf("%s is not between 1970 and 9998 in UTC", shown(text))
	}
	return t, err
}

var errNoTime = errors.New(`is not a time; write 2026-12-31T23:00:00Z, "2026-12-31 23:00" or "tomorrow 09:00" in the config's zone, +90s, or -1h`)

// fromNow parses a duration with its sign.
func fromNow(text string, now func() (time.Time, error)) (time.Time, error) {
	d, err := ParseDuration(text[1:])
	if err != nil {
		return time.Time{}, err
	}
	if text[0] == '-' {
		d = -d
	}
	t, err := now()
	return t.Add(d), err
}

// inZone parses a day (empty means today) and a time of day (empty means midnight) in the zone.
func inZone(day, clock string, zone *time.Location, now func() (time.Time, error)) (time.Time, error) {
	ahead, named := map[string]int{"": 0, "yesterday": -1, "today": 0, "tomorrow": 1}[day]
	if named {
		t, err := now()
		if err != nil {
			return t, err
		}
		y, m, d := t.In(zone).Date()
		// in UTC, because the zone's clocks may skip the current time of day on that day
		day = time.Date(y, m, d+ahead, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
	}
	dayAlone := clock == ""
	if dayAlone {
		clock = "00:00"
	}
	if len(clock) < len("00:00:00") {
		clock += ":00"
	}
	wall, err := time.Parse(time.DateTime, day+" "+clock)
	if err != nil {
		return wall, errNoTime
	}
	return local(wall, zone, dayAlone)
}

// local is when the zone's clocks show wall. For a day alone, it is when the day begins.
func local(wall time.Time, zone *time.Location, dayAlone bool) (time.Time, error) {
	var all, right []time.Time
	for _, near := range []time.Duration{-24 * time.Hour, 24 * time.Hour} { // no zone changes its clocks twice in that time
		_, offset := wall.Add(near).In(zone).Zone()
		t := wall.Add(-time.Duration(offset) * time.Second).In(zone)
		if slices.ContainsFunc(all, t.Equal) {
			continue
		}
		all = append(all, t)
		if t.Format(time.DateTime) == wall.Format(time.DateTime) {
			right = append(right, t)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	switch {
	case len(right) == 1:
		return right[0], nil
	case len(all) == 1: // changed, and changed back
		return all[0], nil
	case dayAlone && len(right) > 1:
		return all[0], nil // the first midnight
	case dayAlone:
		return all[1], nil // no midnight: the day begins when the clocks change
	}
	how := "does not exist"
	if len(right) > 1 {
		how = "occurs twice"
	}
	return time.Time{}, fmt.Errorf("%s %s in %s because the clocks change; write %s or %s", wall.Format(time.DateTime), how, zone,
		all[0].UTC().Format(time.RFC3339), all[1].UTC().Format(time.RFC3339))
}
