package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
)

// ErrWindow is wrapped by the refusal of a time window.
var ErrWindow = errors.New("time window not allowed")

// maxWindows is how many windows a job may have, so that they fit their column.
const maxWindows = 100

const (
	dayMinutes  = 24 * 60
	weekMinutes = 7 * dayMinutes
)

var dayNames = [7]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// weekdays is a set of time.Weekday, a bit each. The empty set stands for every day.
type weekdays uint8

const everyDay weekdays = 1<<7 - 1

// Window is one daily span in which a job may start. The zero Window is the whole of every day.
type Window struct {
	// days are those on which it opens; it may end on the next.
	days weekdays
	// from and to are minutes of the day, below dayMinutes. With to <= from it ends past midnight, or at it: 24:00 is 0.
	from, to int
}

// Windows are times of day within which a job must start; none means always.
//
// The wall clock decides, in whole minutes: an instant is inside if the date and time that its zone's clock shows are.
// So when the clock is put back both passes of an hour are inside, and when it is put forward a window whose opening is
// skipped opens right after the gap, or not at all that day if all of it is skipped.
type Windows []Window

// ParseWindow reads "05:00-07:00", "22:00-02:00" (past midnight), "mon-fri 09:00-17:30", "sat,sun 00:00-24:00".
func ParseWindow(s string) (Window, error) {
	w, err := parseWindow(strings.Fields(strings.ToLower(s)))
	if err != nil {
		return Window{}, fmt.Errorf(`%w: %.60q: %w; write for example "05:00-07:00", "22:00-02:00" (past midnight) or "mon-fri 09:00-17:30"`, ErrWindow, s, err)
	}
	return w, nil
}

func parseWindow(words []string) (w Window, err error) {
	switch len(words) {
	case 0:
		return w, errors.New("it is empty")
	case 1:
	case 2:
		if w.days, err = parseDays(words[0]); err != nil {
			return w, err
		}
	default:
		return w, errors.New("too many words: it is days, one space, and two times joined by a dash")
	}
	w.from, w.to, err = parseSpan(words[len(words)-1])
	return w, err
}

// parseDays reads "mon", "mon-fri", "fri-mon", "mon,wed-fri".
func parseDays(s string) (weekdays, error) {
	var set weekdays
	for part := range strings.SplitSeq(s, ",") {
		first, last, isRange := strings.Cut(part, "-")
		d, err := parseDay(first)
		if err != nil {
			return 0, err
		}
		set |= 1 << d
		if !isRange {
			continue
		}
		end, err := parseDay(last)
		if err != nil {
			return 0, err
		}
		if d == end {
			return 0, fmt.Errorf("%q could be one day or seven: write %q, or no days for every day", part, first)
		}
		for d != end {
			d = (d + 1) % 7
			set |= 1 << d
		}
	}
	if set == everyDay {
		return 0, nil
	}
	return set, nil
}

func parseDay(s string) (int, error) {
	for d, name := range dayNames {
		if s == name {
			return d, nil
		}
	}
	return 0, fmt.Errorf("%.60q is not a day: they are mon, tue, wed, thu, fri, sat, sun", s)
}

// parseSpan reads "22:00-02:00".
func parseSpan(s string) (from, to int, err error) {
	first, last, ok := strings.Cut(s, "-")
	if !ok {
		return 0, 0, fmt.Errorf("%.60q is not two times joined by a dash", s)
	}
	if from, err = parseClock(first); err != nil {
		return 0, 0, err
	}
	if to, err = parseClock(last); err != nil {
		return 0, 0, err
	}
	switch from {
	case dayMinutes:
		return 0, 0, errors.New("it can't open at 24:00: write 00:00 and the next day")
	case to:
		return 0, 0, errors.New("it ends when it opens: for the whole day write 00:00-24:00")
	}
	return from, to % dayMinutes, nil
}

// parseClock reads "07:30" up to "24:00" as minutes.
func parseClock(s string) (int, error) {
	if _, err := parseDay(s); err == nil {
		return 0, fmt.Errorf("the times are missing after %q", s)
	}
	if len(s) != len("07:30") || s[2] != ':' || !areDigits(s[:2]) || !areDigits(s[3:]) {
		return 0, fmt.Errorf("%.60q is not a time: it is two digits, a colon, two digits", s)
	}
	hour, minute := twoDigits(s), twoDigits(s[3:])
	if minute > 59 || hour*60+minute > dayMinutes {
		return 0, fmt.Errorf("there is no %s: the times go from 00:00 to 24:00", s)
	}
	return hour*60 + minute, nil
}

func areDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }

func twoDigits(s string) int { return int(s[0]-'0')*10 + int(s[1]-'0') }

// ParseWindows reads a list of them; an empty list is none.
func ParseWindows(list []string) (Windows, error) {
	if len(list) > maxWindows {
		return nil, fmt.Errorf("%w: a list of %d, there may be %d: join them, for example into \"mon-fri 09:00-17:30\"", ErrWindow, len(list), maxWindows)
	}
	var ws Windows
	for _, s := range list {
		w, err := ParseWindow(s)
		if err != nil {
			return nil, err
		}
		ws = append(ws, w)
	}
	return ws, nil
}

// String is what ParseWindow reads.
func (w Window) String() string {
	to := w.to
	if to == 0 {
		to = dayMinutes
	}
	span := fmt.Sprintf("%02d:%02d-%02d:%02d", w.from/60, w.from%60, to/60, to%60)
	if days := w.days.String(); days != "" {
		return days + " " + span
	}
	return span
}

// String is empty for every day. Three days in a row, and more, are a range; a week begins on Monday.
func (set weekdays) String() string {
	var parts []string
	for i := range 7 {
		first := time.Weekday((i + 1) % 7)
		if set == 0 || !set.has(first) || set.has(before(first)) {
			continue
		}
		length := 1
		for set.has((first + time.Weekday(length)) % 7) {
			length++
		}
		last := dayNames[(int(first)+length-1)%7]
		switch length {
		case 1:
			parts = append(parts, last)
		case 2:
			parts = append(parts, dayNames[first], last)
		default:
			parts = append(parts, dayNames[first]+"-"+last)
		}
	}
	return strings.Join(parts, ",")
}

func (set weekdays) has(d time.Weekday) bool { return set == 0 || set&(1<<d) != 0 }

func before(d time.Weekday) time.Weekday { return (d + 6) % 7 }

// Strings is what ParseWindows reads, never nil.
func (ws Windows) Strings() []string { return texts.Map(ws, Window.String) }

// Contains says whether the wall clock of t, in t's own location, is inside: the opening is, the end isn't.
func (ws Windows) Contains(t time.Time) bool {
	if len(ws) == 0 {
		return true
	}
	day, minute := wallClock(t)
	for _, w := range ws {
		if w.contains(day, minute) {
			return true
		}
	}
	return false
}

func wallClock(t time.Time) (day time.Weekday, minute int) {
	return t.Weekday(), t.Hour()*60 + t.Minute()
}

func (w Window) contains(day time.Weekday, minute int) bool {
	if w.from < w.to {
		return w.days.has(day) && w.from <= minute && minute < w.to
	}
	return w.days.has(day) && minute >= w.from || w.days.has(before(day)) && minute < w.to
}

// Next is the first instant from t on that is inside, in t's location: t itself if it is.
func (ws Windows) Next(t time.Time) time.Time {
	// Between two changes of the zone the clock runs evenly, so there the opening is a sum. This ends because no zone
	// keeps changing every week.
	for !ws.Contains(t) {
		opening, change := ws.opening(t), zoneChange(t)
		if change.IsZero() || opening.Before(change) {
			return opening
		}
		t = change
	}
	return t
}

// opening is when the first window opens after t, which is outside of all, if the clock runs evenly until then.
func (ws Windows) opening(t time.Time) time.Time {
	day, minute := wallClock(t)
	now, wait := int(day)*dayMinutes+minute, weekMinutes
	for _, w := range ws {
		for d := time.Sunday; d <= time.Saturday; d++ {
			if w.days.has(d) {
				wait = min(wait, (int(d)*dayMinutes+w.from-now+weekMinutes)%weekMinutes)
			}
		}
	}
	intoMinute := time.Duration(t.Second())*time.Second + time.Duration(t.Nanosecond())
	return t.Add(time.Duration(wait)*time.Minute - intoMinute)
}

// zoneChange is an instant after t up to which t's zone stays as it is, or zero if it does for ever.
func zoneChange(t time.Time) time.Time {
	_, change := t.ZoneBounds()
	if !change.IsZero() && !change.After(t) {
		// Go takes each year for 365 days here: on the last day of a leap year the change that it gives has passed.
		return t.Add(24 * time.Hour)
	}
	return change
}

// ZoneChanges are the changes of t's zone from t up to end: when each happens and the offset from then on, both in seconds. The
// first is the offset at t.
func ZoneChanges(t, end time.Time) (list [][2]int64) {
	for !t.IsZero() && t.Before(end) {
		if _, offset := t.Zone(); len(list) == 0 || list[len(list)-1][1] != int64(offset) {
			list = append(list, [2]int64{t.Unix(), int64(offset)})
		}
		t = zoneChange(t)
	}
	return list
}

// Encode is the text of the table: a JSON list, None for none.
func (ws Windows) Encode() string {
	if len(ws) == 0 {
		return None
	}
	return `["` + strings.Join(ws.Strings(), `","`) + `"]`
}

// DecodeWindows reads what Encode wrote, or an application's own INSERT.
func DecodeWindows(s string) (Windows, error) {
	if s == None {
		return nil, nil
	}
	var ws Windows
	err := ws.UnmarshalJSON([]byte(s))
	return ws, err
}

// MarshalJSON writes a list of strings, empty for none.
func (ws Windows) MarshalJSON() ([]byte, error) { return json.Marshal(ws.Strings()) }

// UnmarshalJSON reads a list of strings; null is none.
func (ws *Windows) UnmarshalJSON(text []byte) error {
	var list []string
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf(`%w: %.60q is not a JSON list of strings; write for example ["05:00-07:00", "mon-fri 09:00-17:30"]`, ErrWindow, text)
	}
	parsed, err := ParseWindows(list)
	if err == nil {
		*ws = parsed
	}
	return err
}
