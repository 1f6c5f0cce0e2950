package monitor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
)

// TakeOptions say how to take an hour.
type TakeOptions struct {
	// Again recounts an hour that has been taken. The gauges that were measured then stay, unless Gauge measures anew.
	Again bool
	// Gauge measures the backlog too. It is as of now, so it makes sense only for an hour that has just ended.
	Gauge bool
}

// errTaken rolls back what another has done already.
var errTaken = errors.New("taken already")

// Take counts the activity of the hour (UTC) that contains t into the metrics, and records that it did, in one
// transaction. That happens once: taken is false if the hour had been taken before, or was by another host at this
// moment. So it is safe to repeat; after a commit whose answer was lost, taken is false too. An hour that is not complete
// yet is ErrIncomplete; Again is ErrPurged if there is less activity left than had been counted.
//
// The reading comes before the transaction: an hour that is complete doesn't change, and on SQLite the transaction keeps
// all workers from writing.
func (m *Monitor) Take(ctx context.Context, t time.Time, o TakeOptions) (taken bool, err error) {
	hour := hourOf(t)
	if taken, err = m.take(ctx, hour, o); err != nil {
		return false, fmt.Errorf("take the hour %s: %w", hour.Format(time.RFC3339), err)
	}
	return taken, nil
}

func (m *Monitor) take(ctx context.Context, hour time.Time, o TakeOptions) (bool, error) {
	now, err := m.db.Clock(ctx)
	if err != nil {
		return false, err
	}
	if at := completeAt(hour); now.Before(at) {
		return false, fmt.Errorf("%w: it will be at %s, now it is %s", ErrIncomplete, at.Format(time.RFC3339), now.Format(time.RFC3339))
	}
	if !o.Again {
		known, err := m.taken(ctx, hour, hour.Add(time.Hour))
		if err != nil || known[hour] {
			return false, err
		}
	}
	counted, err := m.count(ctx, hour)
	if err != nil {
		return false, err
	}
	if counted.ticks, err = m.readTicks(ctx, hour); err != nil {
		return false, err
	}
	if o.Gauge {
		if err := m.gauge(ctx, counted, now); err != nil {
			return false, err
		}
	}
	err = m.db.Tx(ctx, func(tx *engine.Tx) error { return m.write(ctx, tx, counted, o) })
	if errors.Is(err, errTaken) {
		return false, nil
	}
	return err == nil, err
}

// write records the hour and its metrics. The primary key of the hours decides who does.
func (m *Monitor) write(ctx context.Context, tx *engine.Tx, counted metrics, o TakeOptions) error {
	hour := engine.At(counted.hour)
	if o.Again {
		// first, for it makes those who recount the same hour take turns
		res, err := tx.ExecContext(ctx, "UPDATE "+m.db.Hours()+" SET taken_time = ?, digest = ? WHERE hour = ?",
			engine.At(tx.Now), counted.encode(), hour)
		if err != nil {
			return fmt.Errorf("record the hour: %w", err)
		}
		if n, err := res.RowsAffected(); err != nil || n > 0 {
			if err == nil {
				err = m.replace(ctx, tx, counted, !o.Gauge)
			}
			if err == nil {
				err = m.replaceTicks(ctx, tx, hour, counted.ticks)
			}
			return err
		}
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO "+m.db.Hours()+" (hour, taken_time, gap_ms, gap_from, digest) VALUES (?, ?, ?, ?, ?)",
		hour, engine.At(tx.Now), counted.ticks.Gap.MS, counted.ticks.Gap.From, counted.encode())
	if engine.IsDuplicate(err) {
		return errTaken
	}
	if err != nil {
		return fmt.Errorf("record the hour: %w", err)
	}
	// a hand other than hipq's may have deleted the hour alone
	if err := m.replaceTicks(ctx, tx, hour, counted.ticks); err != nil {
		return err
	}
	if err := tx.Write(ctx, "DELETE FROM "+m.db.Metrics()+" WHERE hour = ?", hour); err != nil {
		return fmt.Errorf("delete the metrics: %w", err)
	}
	return m.insert(ctx, tx, counted)
}

// replace puts new metrics in the place of those of an hour that has been taken, with the old gauges if they are to stay.
func (m *Monitor) replace(ctx context.Context, tx *engine.Tx, counted metrics, keepGauges bool) error {
	var before, after int64
	for _, r := range counted.rows {
		after += r.entries()
	}
	var old []metric
	err := m.eachMetric(ctx, tx, counted.hour, counted.hour.Add(time.Hour), func(r metric) { old = append(old, r) })
	if err != nil {
		return err
	}
	for _, r := range old {
		before += r.entries()
		if keepGauges && !r.GaugeTime.IsZero() {
			n := counted.row(key{r.Queue, r.JobType})
			n.gauges = r.gauges
		}
	}
	// nothing is ever added to an hour's activity but late, and nothing taken away but by purge
	if after < before {
		return fmt.Errorf("%w: %d of the %d entries that had been counted are left; the metrics stay as they are", ErrPurged, after, before)
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM "+m.db.Metrics()+" WHERE hour = ?", engine.At(counted.hour)); err != nil {
		return fmt.Errorf("delete the metrics: %w", err)
	}
	return m.insert(ctx, tx, counted)
}

func (m *Monitor) insert(ctx context.Context, tx *engine.Tx, counted metrics) error {
	// SQLite takes 32,766 parameters
	const maxRows = 500
	rows := make([]*metric, 0, len(counted.rows))
	for _, r := range counted.rows {
		rows = append(rows, r)
	}
	for part := range slices.Chunk(rows, maxRows) {
		var args []any
		for _, r := range part {
			args = append(args, r.columns()...)
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO "+m.db.Metrics()+" ("+metricColumns+") VALUES "+engine.Rows(metricRow, len(part)), args...)
		if err != nil {
			return fmt.Errorf("write the metrics: %w", err)
		}
	}
	return nil
}
