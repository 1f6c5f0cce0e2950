package schedule

import "time"

// Next is the first slot after a time, in a zone; nil is UTC. The zero Time is none in the next years.
//
// Where clocks are changed, it does as crontab(5) says. A Spec for times of the day, whose minute and hour both name theirs, has
// each of its slots of the day once: one that the clocks leave out is due when they are put forward, one that they show twice
// is due the first time. A Spec whose minute or hour begins with * goes by the hours as they pass: it has a slot whenever the
// clocks show one of its times, so both times in an hour that comes twice, and none in one that is left out.
func (s Spec) Next(after time.Time, zone *time.Location) time.Time {
	if s.every > 0 {
		return nextMultiple(after, s.every)
	}
	if zone == nil {
		zone = time.UTC
	}
	// from change to change of the zone's clocks: between two of them a time is what the clocks show, less their offset
	at, shown := after, onClocks(after, zone)
	for {
		begin, end := at.In(zone).ZoneBounds()
		if !s.wild && !begin.IsZero() {
			// what the clocks have shown before they were put back is over
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
		case !s.wild && clock.Before(onClocks(end, zone)): // the clocks leave it out
			return end.UTC()
		}
		at, shown = end, onClocks(end, zone).Add(-1)
	}
}

// onClocks is what the clocks of a zone show at a time, as if that were UTC.
func onClocks(t time.Time, zone *time.Location) time.Time { return t.UTC().Add(offset(t, zone)) }

// offset is by how much the clocks of a zone are ahead at a time.
func offset(t time.Time, zone *time.Location) time.Duration {
	_, seconds := t.In(zone).Zone()
	return time.Duration(seconds) * time.Second
}

// nextMultiple is the first multiple of a time, counted from 1970, after t.
func nextMultiple(t time.Time, every time.Duration) time.Time {
	seconds := int64(every / time.Second)
	return time.Unix((t.Unix()/seconds+1)*seconds, 0).UTC()
}
