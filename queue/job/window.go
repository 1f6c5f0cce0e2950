package job

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
)

// ErrWindow is wrapped by errors about time windows.
var ErrWindow = errors.New("time window not allowed")

// maxWindows makes a job's windows fit their column: as Encode writes them, each has at most 31 of its 2,048 bytes.
const maxWindows = 64

const (
	dayMinutes  = 24 * 60
	weekMinutes = 7 * dayMinutes
)

var dayNames = [7]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// weekdays is a bit set of time.Weekday. The empty set means every day.
type weekdays uint8

const everyDay weekdays = 1<<7 - 1

// Window is a daily period in which a job may start. The zero Window is all day, every day.
type Window struct {
	// days are the days on which the window opens; it may close on the next.
	days weekdays
	// from and to are minutes of the day, below dayMinutes. If to <= from, the window closes on the next day; 24:00 is 0.
	from, to int
}

// Windows are times of day in which a job may start; none means always.
//
// The wall clock decides, in whole minutes. If the clock is put back, both passes of an hour are inside. If it is put forward
// over an opening, the window opens right after the gap, or not that day if the gap covers it all.
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
		return w, errors.New("too many words: write days, one space, and two times joined by a dash")
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
	if d := slices.Index(dayNames[:], s); d >= 0 {
		return d, nil
	}
	return 0, fmt.Errorf("%.60q is not a day: the days are mon, tue, wed, thu, fri, sat, sun", s)
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
		return 0, fmt.Errorf("%.60q is not a time: write two digits, a colon and two digits", s)
	}
	hour, minute := twoDigits(s), twoDigits(s[3:])
	if minute > 59 || hour*60+minute > dayMinutes {
		return 0, fmt.Errorf("there is no %s: the times go from 00:00 to 24:00", s)
	}
	return hour*60 + minute, nil
}

func areDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }

func twoDigits(s string) int { return int(s[0]-'0')*10 + int(s[1]-'0') }

// ParseWindows reads a list of windows; an empty list means none.
func ParseWindows(list []string) (Windows, error) {
	if len(list) > maxWindows {
		return nil, fmt.Errorf("%w: %d windows; the maximum is %d: join them, for example into \"mon-fri 09:00-17:30\"", ErrWindow, len(list), maxWindows)
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

// String returns the window in ParseWindow's syntax.
func (w Window) String() string {
	to := cmp.Or(w.to, dayMinutes)
	span := fmt.Sprintf("%02d:%02d-%02d:%02d", w.from/60, w.from%60, to/60, to%60)
	if days := w.days.String(); days != "" {
		return days + " " + span
	}
	return span
}

// String is empty for every day. Three or more consecutive days become a range; a week begins on Monday.
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

// Strings returns the windows in ParseWindow's syntax, never nil.
func (ws Windows) Strings() []string { return texts.Map(ws, Window.String) }

// Contains says whether t's wall clock in t's location is inside. The opening is inside, the end isn't.
func (ws Windows) Contains(t time.Time) bool {
	day, minute := wallClock(t)
	return len(ws) == 0 || slices.ContainsFunc(ws, func(w Window) bool { return w.contains(day, minute) })
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

// Next returns the first instant inside from t on, in t's location: t itself if it is inside.
func (ws Windows) Next(t time.Time) time.Time {
	// Between two zone changes the clock runs evenly, so the opening is a sum. The loop ends because no zone changes every
	// week.
	for !ws.Contains(t) {
		opening, change := ws.opening(t), ZoneChange(t)
		if change.IsZero() || opening.Before(change) {
			return opening
		}
		t = change
	}
	return t
}

// opening returns when the first window opens after t, which is outside, if the clock runs evenly until then.
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

// ZoneChange returns an instant after t until which t's zone doesn't change, or zero if it never changes.
func ZoneChange(t time.Time) time.Time {
	_, change := t.ZoneBounds()
	if !change.IsZero() && !change.After(t) {
		// Go counts 365 days a year here, so on the last day of a leap year the change may have passed
		return t.Add(24 * time.Hour)
	}
	return change
}

// ZoneChanges returns the changes of t's zone from t to end: time and new offset, in seconds. The first is the offset at t.
func ZoneChanges(t, end time.Time) (list [][2]int64) {
	for !t.IsZero() && t.Before(end) {
		if _, offset := t.Zone(); len(list) == 0 || list[len(list)-1][1] != int64(offset) {
			list = append(list, [2]int64{t.Unix(), int64(offset)})
		}
		t = ZoneChange(t)
	}
	return list
}

// Encode returns the stored text: a JSON list, or None.
func (ws Windows) Encode() string {
	if len(ws) == 0 {
		return None
	}
	return `["` + strings.Join(ws.Strings(), `","`) + `"]`
}

// DecodeWindows reads the stored text, from Encode or an application's INSERT.
func DecodeWindows(s string) (Windows, error) {
	if s == None {
		return nil, nil
	}
	var ws Windows
	err := ws.UnmarshalJSON([]byte(s))
	return ws, err
}

// MarshalJSON writes a list of strings, which is empty without windows.
func (ws Windows) MarshalJSON() ([]byte, error) { return json.Marshal(ws.Strings()) }

// UnmarshalJSON reads a list of strings; null means none.
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
