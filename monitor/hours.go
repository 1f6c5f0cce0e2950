package monitor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
)

// settling is how long after its end an hour is complete. By then hipq's open transactions have committed. recountLate
// finds what applications commit later.
const settling = 5 * time.Minute

// LastComplete returns the start (UTC) of the last complete hour by the database's clock.
func (m *Monitor) LastComplete(ctx context.Context) (time.Time, error) {
	now, err := m.db.SQL.Clock(ctx)
	return lastComplete(now), err
}

func lastComplete(now time.Time) time.Time { return hourOf(now.Add(-settling)).Add(-time.Hour) }

func completeAt(hour time.Time) time.Time { return hour.Add(time.Hour + settling) }

// Complete reports whether the hour is complete at now, so that it can be aggregated.
func Complete(hour, now time.Time) bool { return !now.Before(completeAt(hour)) }

func hourOf(t time.Time) time.Time { return t.UTC().Truncate(time.Hour) }

func (m *Monitor) aggregated(ctx context.Context, from, to time.Time) (map[time.Time]bool, error) {
	var hours []engine.Time
	query := "SELECT " + m.db.SQL.TimeColumn("hour") + " FROM " + m.db.Hours() + " WHERE hour >= ? AND hour < ?"
	if err := m.db.SQL.SelectContext(ctx, &hours, query, engine.At(from), engine.At(to)); err != nil {
		return nil, fmt.Errorf("find the aggregated hours: %w", err)
	}
	done := make(map[time.Time]bool, len(hours))
	for _, h := range hours {
		done[h.Time] = true
	}
	return done, nil
}

// Missing returns the complete hours (UTC) that were not aggregated in the week up to and including the hour of t.
// Hours before the instance's first activity are not missing.
func (m *Monitor) Missing(ctx context.Context, t time.Time) ([]time.Time, error) {
	to := hourOf(t).Add(time.Hour)
	return m.missing(ctx, to.Add(-week), to)
}

// MissingSince returns the complete hours (UTC) from since on that were not aggregated, oldest first. The activity of
// there can still be counted; the activity of gone was purged. Hours before Begin are not missing.
func (m *Monitor) MissingSince(ctx context.Context, since time.Time) (there, gone []time.Time, err error) {
	missing, err := m.missing(ctx, hourOf(since), never.Time)
	if err != nil || len(missing) == 0 {
		return nil, nil, err
	}
	return m.apart(ctx, missing)
}

// apart divides missing hours into those whose activity is there, and those whose activity is gone.
func (m *Monitor) apart(ctx context.Context, missing []time.Time) (there, gone []time.Time, err error) {
	first, err := m.time(ctx, "MIN(at)", m.db.Activity())
	n := len(missing)
	if !first.IsZero() {
		n, _ = slices.BinarySearchFunc(missing, hourOf(first), time.Time.Compare)
	}
	return missing[n:], missing[:n], err
}

// missing returns the complete hours in [from, to) from Begin on that were not aggregated.
func (m *Monitor) missing(ctx context.Context, from, to time.Time) ([]time.Time, error) {
	missing := []time.Time{}
	begin, err := m.Begin(ctx)
	if err != nil || begin.IsZero() {
		return missing, err
	}
	last, err := m.LastComplete(ctx)
	if err != nil {
		return nil, err
	}
	done, err := m.aggregated(ctx, from, to)
	if begin.After(from) {
		from = begin
	}
	for h := from; h.Before(to) && !h.After(last); h = h.Add(time.Hour) {
		if !done[h] {
			missing = append(missing, h)
		}
	}
	return missing, err
}

// Ran returns when an hour was last aggregated; zero if none was.
func (m *Monitor) Ran(ctx context.Context) (time.Time, error) {
	return m.time(ctx, "MAX(aggregated_time)", m.db.Hours())
}

// Begin returns the hour (UTC) of the instance's first activity or, if that was purged, of its first metrics. Without
// both it is zero.
func (m *Monitor) Begin(ctx context.Context) (time.Time, error) {
	first, err := m.time(ctx, "MIN(at)", m.db.Activity())
	if err != nil {
		return time.Time{}, err
	}
	hour, err := m.time(ctx, "MIN(hour)", m.db.Metrics())
	if !first.IsZero() && (hour.IsZero() || first.Before(hour)) {
		hour = hourOf(first)
	}
	return hour, err
}

// Unmonitored returns the hour (UTC) of the first activity after the last aggregated hour, if that is at least a day
// ago; else zero. Only a forced purge deletes activity from then on.
func (m *Monitor) Unmonitored(ctx context.Context) (since time.Time, err error) {
	now, err := m.db.SQL.Clock(ctx)
	if err != nil {
		return since, err
	}
	last, err := m.time(ctx, "MAX(hour)", m.db.Hours())
	if err != nil {
		return since, err
	}
	next := time.Unix(0, 0)
	if !last.IsZero() {
		next = last.Add(time.Hour)
	}
	first, err := m.time(ctx, "MIN(at)", m.db.Activity()+" WHERE at >= ?", engine.At(next))
	if err != nil || first.IsZero() || now.Sub(first) < 24*time.Hour+settling {
		return since, err
	}
	return hourOf(first), nil
}

// time reads a time; it is zero if there is none.
func (m *Monitor) time(ctx context.Context, expression, from string, args ...any) (time.Time, error) {
	var t engine.Time
	err := m.db.SQL.GetContext(ctx, &t, "SELECT "+m.db.SQL.TimeText(expression)+" FROM "+from, args...)
	return t.Time, texts.Wrap(err, "read %s of %s", expression, from)
}

// Started reports in some whether the metrics since a time have a started job of the type. all is set if no complete
// hour since then is missing.
func (m *Monitor) Started(ctx context.Context, queue, jobType string, since time.Time) (some, all bool, err error) {
	query := "SELECT EXISTS (SELECT 1 FROM " + m.db.Metrics() + " WHERE hour >= ? AND queue = ? AND job_type = ? AND started > 0)"
	if err := m.db.SQL.GetContext(ctx, &some, query, engine.At(hourOf(since)), queue, jobType); err != nil {
		return false, false, fmt.Errorf("find out whether jobs of %s/%s were started: %w", queue, jobType, err)
	}
	last, err := m.LastComplete(ctx)
	if err != nil {
		return false, false, err
	}
	done, err := m.aggregated(ctx, hourOf(since), last.Add(time.Hour))
	return some, len(done) >= int(last.Add(time.Hour).Sub(hourOf(since))/time.Hour), err
}
