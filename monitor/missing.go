package monitor

import (
	"context"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/engine"
)

// Missing are the hours of the week up to the hour (UTC) that contains t, itself included, that are complete and that
// nobody has taken. There are none before the instance's first activity: a fresh installation has missed nothing.
func (m *Monitor) Missing(ctx context.Context, t time.Time) ([]time.Time, error) {
	missing := []time.Time{}
	last, err := m.LastComplete(ctx)
	if err != nil {
		return nil, err
	}
	begin, err := m.begin(ctx)
	if err != nil || begin.IsZero() {
		return missing, err
	}
	to := hourOf(t).Add(time.Hour)
	from := to.Add(-week)
	if begin.After(from) {
		from = begin
	}
	taken, err := m.taken(ctx, from, to)
	if err != nil {
		return nil, err
	}
	for h := from; h.Before(to) && !h.After(last); h = h.Add(time.Hour) {
		if !taken[h] {
			missing = append(missing, h)
		}
	}
	return missing, nil
}

// begin is the hour in which the instance began: that of its first activity or, when this has been purged, the first
// that was taken. It is zero if there is neither.
func (m *Monitor) begin(ctx context.Context) (time.Time, error) {
	var activity, taken engine.Time
	err := m.db.QueryRowContext(ctx, "SELECT (SELECT MIN(at) FROM "+m.db.Activity()+"), (SELECT MIN(hour) FROM "+m.db.Hours()+")").
		Scan(&activity, &taken)
	if err != nil {
		return time.Time{}, fmt.Errorf("find the first hour: %w", err)
	}
	switch {
	case activity.IsZero():
		return taken.Time, nil
	case taken.IsZero() || activity.Before(taken.Time):
		return hourOf(activity.Time), nil
	}
	return taken.Time, nil
}
