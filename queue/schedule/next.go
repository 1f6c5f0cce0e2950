package schedule

import (
	"cmp"
	"time"

	"github.com/hipq/hipq/queue/job"
)

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

// offset returns a zone's offset from UTC.
func offset(t time.Time, zone *time.Location) time.Duration {
	_, seconds := t.In(zone).Zone()
	return time.Duration(seconds) * time.Second
}
