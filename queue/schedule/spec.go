package schedule

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

// Spec says when slots are: by the five fields of crontab(5), or at intervals. ParseSpec makes one.
type Spec struct {
	// text is the Spec as written, with single spaces.
	text string
	// every is the interval; 0 with fields.
	every time.Duration
	// fields are the five crontab fields.
	fields [5]numbers
	// wild says that slots follow elapsed hours instead of times of day.
	wild bool
}

// numbers are the values that a field allows.
type numbers struct {
	set  uint64
	star bool
}

func (n numbers) has(i int) bool { return n.set>>i&1 == 1 }

// String returns the Spec as written.
func (s Spec) String() string { return s.text }

// Equal says whether both have the same slots in the same zone, for example @daily and 0 0 * * *.
func (s Spec) Equal(o Spec) bool { return s.every == o.every && s.fields == o.fields }

// Zoned says whether the slots depend on a time zone; those of @every don't.
func (s Spec) Zoned() bool { return s.every == 0 }

// MinEvery is the shortest interval of @every, because cron starts a worker once a minute.
const MinEvery = time.Minute

var names = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

type field struct {
	name      string
	low, high int
	// words are the names of its numbers, from low on.
	words string
}

var fields = []field{
	{name: "minute", high: 59},
	{name: "hour", high: 23},
	{name: "day of month", low: 1, high: 31},
	{name: "month", low: 1, high: 12, words: "jan feb mar apr may jun jul aug sep oct nov dec"},
	{name: "day of week", high: 7, words: "sun mon tue wed thu fri sat"},
}

// ParseSpec parses:
//
//	30 2 * * mon-fri   minute, hour, day of month, month, day of week, as in crontab(5)
//	@hourly, @daily (or @midnight), @weekly, @monthly, @yearly (or @annually)
//	@every 10m         at the multiples of that time since 1970, in UTC; also in days and weeks, as @every 14d
//
// Each field is *, a number, a range, or a comma-separated list of both; /N after * or a range takes each N-th number. If
// both day fields are given, one must match, or both if either begins with *. ErrInvalid refuses other texts, and Specs
// without slots.
func ParseSpec(text string) (Spec, error) {
	parts := strings.Fields(text)
	s := Spec{text: strings.Join(parts, " ")}
	refuse := func(format string, args ...any) (Spec, error) {
		return Spec{}, fmt.Errorf("%w: %.80q %s", ErrInvalid, text, fmt.Sprintf(format, args...))
	}
	if len(parts) > 0 && strings.HasPrefix(parts[0], "@") {
		full, known := names[strings.ToLower(s.text)]
		switch {
		case strings.EqualFold(parts[0], "@every") && len(parts) == 2:
			var err error
			if s.every, err = texts.ParseDuration(parts[1]); err != nil {
				return refuse("has no valid time; write @every 10m, @every 1h30m, or @every 14d")
			}
			if s.every < MinEvery || s.every > 366*24*time.Hour || s.every%time.Second != 0 {
				return refuse("is out of range (1m to 366d, in whole seconds)")
			}
			return s, nil
		case strings.EqualFold(parts[0], "@reboot"):
			return refuse("is unknown to a queue of several hosts; enqueue the job when the host boots")
		case !known:
			return refuse("is not one of @hourly, @daily, @weekly, @monthly, @yearly, or @every with a time, such as @every 10m")
		}
		parts = strings.Fields(full)
	}
	switch len(parts) {
	case 5:
	case 6, 7:
		return refuse("has %d fields; five are allowed (minute, hour, day of month, month, day of week), none for seconds or years", len(parts))
	default:
		return refuse(`must have the five fields minute, hour, day of month, month, day of week, as in "30 2 * * *"`)
	}
	for i, f := range fields {
		var err error
		if s.fields[i], err = f.parse(parts[i]); err != nil {
			return refuse("is invalid: %v", err)
		}
	}
	s.wild = s.fields[0].star || s.fields[1].star
	if s.onClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return refuse("never comes: none of these months has such a day")
	}
	return s, nil
}

func (f field) parse(text string) (n numbers, err error) {
	n.star = strings.HasPrefix(text, "*")
	if n.star {
		step := "1"
		if text != "*" {
			rest, ok := strings.CutPrefix(text, "*/")
			if !ok {
				return n, f.refuse(text)
			}
			step = rest
		}
		text = fmt.Sprintf("%d-%d/%s", f.low, f.high, step)
	}
	for element := range strings.SplitSeq(text, ",") {
		span, step, stepped := strings.Cut(element, "/")
		first, last, ranged := strings.Cut(span, "-")
		if first == "" || ranged && last == "" {
			return n, f.refuse(cmp.Or(element, text))
		}
		low, err := f.number(first)
		if err != nil {
			return n, err
		}
		high, by := low, 1
		if ranged {
			if high, err = f.number(last); err != nil {
				return n, err
			}
			if high == 0 && low > 0 && f.high == 7 { // a week that ends on Sunday
				high = 7
			}
			if high < low {
				return n, fmt.Errorf("%s %q ends before it begins; write two ranges", f.name, span)
			}
		}
		if stepped {
			if !ranged {
				return n, fmt.Errorf("%s %q has a step without a range; write %s-%d/%s", f.name, element, first, f.high, step)
			}
			if by, err = f.step(step); err != nil {
				return n, err
			}
		}
		for ; low <= high; low += by {
			n.set |= 1 << low
		}
	}
	if f.high == 7 && n.has(7) { // 7 is Sunday too
		n.set = n.set&^(1<<7) | 1
	}
	return n, nil
}

func (f field) refuse(text string) error {
	return fmt.Errorf("%s %.40q is neither *, nor a number from %d to %d, nor a range or a list of numbers and ranges", f.name, text, f.low, f.high)
}

func (f field) number(text string) (int, error) {
	for i, word := range strings.Fields(f.words) {
		if strings.EqualFold(text, word) {
			return f.low + i, nil
		}
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || len(text) > 2 || text[0] == '+' || text[0] == '-':
		return 0, f.refuse(text)
	case n < f.low || n > f.high:
		return 0, fmt.Errorf("%s %d is not from %d to %d", f.name, n, f.low, f.high)
	}
	return n, nil
}

// step parses the number after a slash. A step beyond the field would run less often than expected.
func (f field) step(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > f.high || len(text) > 2 || text[0] == '+' {
		return 0, fmt.Errorf("%s: a step of %.40q is not a number from 1 to %d; for longer steps write @every, such as @every 90m", f.name, text, f.high)
	}
	return n, nil
}

// onClock returns the next matching clock time after one, both as if in UTC. It is the zero Time if none comes in 50 years.
func (s Spec) onClock(after time.Time) time.Time {
	minute, hour, day, month, weekday := s.fields[0], s.fields[1], s.fields[2], s.fields[3], s.fields[4]
	t := after.UTC().Truncate(time.Minute).Add(time.Minute)
	for end := t.AddDate(50, 0, 0); t.Before(end); {
		isDay := day.has(t.Day()) && weekday.has(int(t.Weekday()))
		if !day.star && !weekday.star {
			isDay = day.has(t.Day()) || weekday.has(int(t.Weekday()))
		}
		switch {
		case !month.has(int(t.Month())):
			t = time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		case !isDay:
			t = time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, time.UTC)
		case !hour.has(t.Hour()):
			t = t.Truncate(time.Hour).Add(time.Hour)
		case !minute.has(t.Minute()):
			t = t.Add(time.Minute)
		default:
			return t
		}
	}
	return time.Time{}
}

// Next returns the first slot after a time in a zone (nil: UTC), or the zero Time if there is none in the next years.
//
// Clock changes work as in crontab(5). A Spec with fixed minute and hour has each daily slot once. A skipped slot is due when
// the clock is put forward, and a repeated one the first time. If minute or hour begins with *, each matching time on the
// clock is a slot: twice in a repeated hour, never in a skipped one.
func (s Spec) Next(after time.Time, zone *time.Location) time.Time {
	if s.every > 0 {
		seconds := int64(s.every / time.Second)
		return time.Unix((after.Unix()/seconds+1)*seconds, 0).UTC() // the next multiple since 1970
	}
	zone = cmp.Or(zone, time.UTC)
	// between two clock changes, a time is what the clock shows less its offset
	at, shown := after, onClocks(after, zone)
	for {
		begin, _ := at.In(zone).ZoneBounds()
		end := job.ZoneChange(at.In(zone))
		if !s.wild && !begin.IsZero() {
			// times shown before the clock was put back are over
			if before := begin.UTC().Add(offset(begin.Add(-1), zone)); shown.Before(before) {
				shown = before.Add(-1)
			}
		}
		clock := s.onClock(shown)
		if clock.IsZero() {
			return clock
		}
		slot := clock.Add(-offset(at, zone))
		switch {
		case end.IsZero() || slot.Before(end):
			return slot.UTC()
		case !s.wild && clock.Before(onClocks(end, zone)): // the clock skips this slot
			return end.UTC()
		}
		at, shown = end, onClocks(end, zone).Add(-1)
	}
}

// onClocks returns what a zone's clocks show, as if in UTC.
func onClocks(t time.Time, zone *time.Location) time.Time { return t.UTC().Add(offset(t, zone)) }

func offset(t time.Time, zone *time.Location) time.Duration {
	_, seconds := t.In(zone).Zone()
	return time.Duration(seconds) * time.Second
}
