package monitor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
)

// Missing are the hours of the week up to the hour (UTC) that contains t, itself included, that are complete and that
// nobody has taken. There are none before the instance's first activity: a fresh installation has missed nothing.
func (m *Monitor) Missing(ctx context.Context, t time.Time) ([]time.Time, error) {
	last, err := m.LastComplete(ctx)
	if err != nil {
		return nil, err
	}
	begin, err := m.Begin(ctx)
	if err != nil || begin.IsZero() {
		return []time.Time{}, err
	}
	to := hourOf(t).Add(time.Hour)
	return m.untaken(ctx, later(begin, to.Add(-week)), to, last)
}

// MissingSince are the complete hours (UTC), from that of a time on, that nobody has taken, oldest first: in there those whose
// activity is there, if there was any; in gone those whose activity has been purged. There are none before Begin.
func (m *Monitor) MissingSince(ctx context.Context, since time.Time) (there, gone []time.Time, err error) {
	last, err := m.LastComplete(ctx)
	if err != nil {
		return nil, nil, err
	}
	begin, err := m.Begin(ctx)
	if err != nil || begin.IsZero() {
		return nil, nil, err
	}
	missing, err := m.untaken(ctx, later(begin, hourOf(since)), last.Add(time.Hour), last)
	if err != nil || len(missing) == 0 {
		return nil, nil, err
	}
	var first engine.Time
	if err := m.db.QueryRowContext(ctx, "SELECT "+m.db.TimeText("MIN(at)")+" FROM "+m.db.Activity()).Scan(&first); err != nil {
		return nil, nil, fmt.Errorf("find the first activity: %w", err)
	}
	n := len(missing)
	if !first.IsZero() {
		n, _ = slices.BinarySearchFunc(missing, hourOf(first.Time), time.Time.Compare)
	}
	return missing[n:], missing[:n], nil
}

// untaken are the hours in [from, to), up to the last complete one, that nobody has taken.
func (m *Monitor) untaken(ctx context.Context, from, to, last time.Time) ([]time.Time, error) {
	taken, err := m.taken(ctx, from, to)
	if err != nil {
		return nil, err
	}
	missing := []time.Time{}
	for h := from; h.Before(to) && !h.After(last); h = h.Add(time.Hour) {
		if !taken[h] {
			missing = append(missing, h)
		}
	}
	return missing, nil
}

// Begin is the hour (UTC) in which the instance began: that of its first activity or, when this has been purged, of the first
// metrics. It is zero if there is neither.
func (m *Monitor) Begin(ctx context.Context) (time.Time, error) {
	var activity, counted engine.Time
	err := m.db.QueryRowContext(ctx, "SELECT (SELECT "+m.db.TimeText("MIN(at)")+" FROM "+m.db.Activity()+"), (SELECT "+m.db.TimeText("MIN(hour)")+" FROM "+m.db.Metrics()+")").
		Scan(&activity, &counted)
	if err != nil {
		return time.Time{}, fmt.Errorf("find the first hour: %w", err)
	}
	switch {
	case activity.IsZero():
		return counted.Time, nil
	case counted.IsZero() || activity.Before(counted.Time):
		return hourOf(activity.Time), nil
	}
	return counted.Time, nil
}
