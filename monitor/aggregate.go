package monitor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
)

// AggregateOptions controls how an hour is aggregated.
type AggregateOptions struct {
	// Again recounts an hour that was aggregated before. It keeps the measured gauges unless Gauge is set.
	Again bool
	// Gauge also measures the current backlog, so use it only for an hour that has just ended. It then recounts earlier
	// hours to which late entries were added.
	Gauge bool
}

// errDone rolls back because another process has aggregated the hour.
var errDone = errors.New("aggregated already")

// Aggregate counts the activity of the hour (UTC) that contains t, and saves the metrics in one transaction. done is
// false if the hour was aggregated before, or by another host meanwhile. The call may be repeated. If a commit
// succeeded but its answer was lost, the next call returns false. The error is ErrIncomplete if the hour is not
// complete, and ErrPurged if Again finds less activity than was counted.
//
// It reads before the transaction: a complete hour doesn't change, and on SQLite a transaction blocks all workers'
// writes.
func (m *Monitor) Aggregate(ctx context.Context, t time.Time, o AggregateOptions) (done bool, err error) {
	hour := hourOf(t)
	done, err = m.aggregate(ctx, hour, o)
	if done && o.Gauge {
		err = m.recountLate(ctx, hour)
	}
	return done && err == nil, texts.Wrap(err, "aggregate the hour %s", hour.Format(time.RFC3339))
}

// lateHours is how many earlier hours are checked for entries of transactions that committed late.
const lateHours = 6

// recountLate recounts the aggregated hours before an hour if they have more activity than was counted.
func (m *Monitor) recountLate(ctx context.Context, before time.Time) error {
	from := before.Add(-lateHours * time.Hour)
	known, err := m.aggregated(ctx, from, before)
	if err != nil {
		return err
	}
	counted := map[time.Time]int64{}
	if err := m.eachMetric(ctx, m.db.SQL, from, before, func(r *metric) { counted[r.Hour.Time] += r.entries() }); err != nil {
		return err
	}
	query := "SELECT COUNT(*) FROM " + m.db.Activity() + " " + m.db.SQL.Index(m.db.Activity(), "at") + " WHERE at >= ? AND at < ?"
	for hour := range known {
		var there, uncounted int64
		err := m.db.SQL.GetContext(ctx, &there, query, engine.At(hour), engine.At(hour.Add(time.Hour)))
		if err == nil && there > counted[hour] { // metrics leave out what operators do
			states := append([]any{engine.At(hour), engine.At(hour.Add(time.Hour))}, texts.Map(activity.Operated, func(s activity.State) any { return string(s) })...)
			err = m.db.SQL.GetContext(ctx, &uncounted, query+" AND state IN "+engine.In(len(activity.Operated)), states...)
		}
		if err != nil {
			return fmt.Errorf("count the activity: %w", err)
		}
		if there-uncounted > counted[hour] {
			if _, err := m.aggregate(ctx, hour, AggregateOptions{Again: true}); err != nil && !errors.Is(err, ErrPurged) {
				return err
			}
		}
	}
	return nil
}

func (m *Monitor) aggregate(ctx context.Context, hour time.Time, o AggregateOptions) (bool, error) {
	now, err := m.db.SQL.Clock(ctx)
	if err != nil {
		return false, err
	}
	if at := completeAt(hour); now.Before(at) {
		return false, fmt.Errorf("%w: it will be at %s, now it is %s", ErrIncomplete, at.Format(time.RFC3339), now.Format(time.RFC3339))
	}
	if !o.Again {
		known, err := m.aggregated(ctx, hour, hour.Add(time.Hour))
		if err != nil || known[hour] {
			return false, err
		}
	}
	counted, err := m.countBetween(ctx, hour, hour.Add(time.Hour), math.MaxInt64)
	if err != nil {
		return false, err
	}
	if o.Gauge {
		if err := m.gauge(ctx, counted, now); err != nil {
			return false, err
		}
	}
	err = m.db.SQL.Tx(ctx, func(tx *engine.Tx) error { return m.write(ctx, tx, counted, o) })
	if errors.Is(err, errDone) {
		return false, nil
	}
	return err == nil, err
}

// write saves the hour and its metrics. The primary key of the hours table decides which process does.
func (m *Monitor) write(ctx context.Context, tx *engine.Tx, counted metrics, o AggregateOptions) error {
	hour, known := engine.At(counted.hour), int64(0)
	if o.Again {
		// First, because the row lock makes concurrent recounts take turns.
		var err error
		if known, err = tx.Affected(ctx, "UPDATE "+m.db.Hours()+" SET aggregated_time = ? WHERE hour = ?", engine.At(tx.Now), hour); err != nil {
			return fmt.Errorf("record the hour: %w", err)
		}
		if known > 0 {
			if err := m.keep(ctx, tx, counted, !o.Gauge); err != nil {
				return err
			}
		}
	}
	if known == 0 {
		_, err := tx.ExecContext(ctx, "INSERT INTO "+m.db.Hours()+" (hour, aggregated_time) VALUES (?, ?)", hour, engine.At(tx.Now))
		if engine.IsDuplicate(err) {
			return errDone
		}
		if err != nil {
			return fmt.Errorf("record the hour: %w", err)
		}
	}
	// Metrics may exist without their hour if someone deleted only the hour.
	if _, err := tx.ExecContext(ctx, "DELETE FROM "+m.db.Metrics()+" WHERE hour = ?", hour); err != nil {
		return fmt.Errorf("delete the metrics: %w", err)
	}
	return m.insert(ctx, tx, counted)
}

// keep copies an hour's gauges if they stay. It returns ErrPurged if the new metrics count fewer entries.
func (m *Monitor) keep(ctx context.Context, tx *engine.Tx, counted metrics, gauges bool) error {
	var before, after int64
	for _, r := range counted.rows {
		after += r.entries()
	}
	err := m.eachMetric(ctx, tx, counted.hour, counted.hour.Add(time.Hour), func(r *metric) {
		if before += r.entries(); gauges && !r.GaugeTime.IsZero() {
			counted.row(r.key()).gauges = r.gauges
		}
	})
	// Activity is only added to an hour by late commits, and only deleted by purge.
	if err == nil && after < before {
		err = fmt.Errorf("%w: %d of the %d entries that had been counted are left; the metrics stay as they are", ErrPurged, after, before)
	}
	return err
}
