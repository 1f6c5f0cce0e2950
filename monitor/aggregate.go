package monitor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/engine"
)

// AggregateOptions say how to aggregate an hour.
type AggregateOptions struct {
	// Again recounts an hour that was aggregated before. The gauges that were measured then stay, unless Gauge measures anew.
	Again bool
	// Gauge measures the backlog too. It is as of now, so it makes sense only for an hour that has just ended. The hours before are
	// recounted then if entries of them have come late.
	Gauge bool
}

// errDone rolls back what another has done already.
var errDone = errors.New("aggregated already")

// Aggregate counts the activity of the hour (UTC) that contains t into the metrics, and records that it did, in one
// transaction. That happens once: done is false if the hour had been aggregated before, or was by another host at this
// moment. So it is safe to repeat; after a commit whose answer was lost, done is false too. An hour that is not complete
// yet is ErrIncomplete; Again is ErrPurged if there is less activity left than had been counted.
//
// The reading comes before the transaction: an hour that is complete doesn't change, and on SQLite the transaction keeps
// all workers from writing.
func (m *Monitor) Aggregate(ctx context.Context, t time.Time, o AggregateOptions) (done bool, err error) {
	hour := hourOf(t)
	done, err = m.aggregate(ctx, hour, o)
	if done && o.Gauge {
		err = m.recountLate(ctx, hour)
	}
	if err != nil {
		return false, fmt.Errorf("aggregate the hour %s: %w", hour.Format(time.RFC3339), err)
	}
	return done, nil
}

// lateHours is for how many hours entries are added to one that was aggregated, if their transactions committed late.
const lateHours = 6

// recountLate recounts those of the hours before one that have more activity than was counted.
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
		if err == nil && there > counted[hour] { // metrics leave out what was cancelled
			err = m.db.SQL.GetContext(ctx, &uncounted, query+" AND kind = 'job' AND state = 'cancelled'", engine.At(hour), engine.At(hour.Add(time.Hour)))
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
	counted, err := m.count(ctx, hour)
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

// write records the hour and its metrics. The primary key of the hours decides who does.
func (m *Monitor) write(ctx context.Context, tx *engine.Tx, counted metrics, o AggregateOptions) error {
	hour, known := engine.At(counted.hour), int64(0)
	if o.Again {
		// first, because it makes those that recount the same hour take turns
		res, err := tx.ExecContext(ctx, "UPDATE "+m.db.Hours()+" SET aggregated_time = ? WHERE hour = ?", engine.At(tx.Now), hour)
		if err == nil {
			known, err = res.RowsAffected()
		}
		if err != nil {
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
	// there may be rows without the hour, too: somebody may have deleted that alone
	if _, err := tx.ExecContext(ctx, "DELETE FROM "+m.db.Metrics()+" WHERE hour = ?", hour); err != nil {
		return fmt.Errorf("delete the metrics: %w", err)
	}
	return m.insert(ctx, tx, counted)
}

// keep adds the old gauges of an hour to its new metrics, if they stay. It refuses to replace metrics by those of less activity.
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
	// nothing is ever added to an hour's activity but late, and nothing deleted but by purge
	if err == nil && after < before {
		err = fmt.Errorf("%w: %d of the %d entries that had been counted are left; the metrics stay as they are", ErrPurged, after, before)
	}
	return err
}
