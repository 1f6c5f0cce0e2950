package monitor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/roster"
	"github.com/hipq/hipq/schema"
)

// backlog is what of one job type waits that shouldn't.
type backlog struct {
	JobType string      `db:"job_type"`
	N       int64       `db:"n"`
	Oldest  engine.Time `db:"oldest"`
}

// gauge measures, as of now, the backlog of each registered queue: jobs that are due, and those whose worker is dead.
// Types of the hour that have none get a 0, which is not the same as not measured.
func (m *Monitor) gauge(ctx context.Context, hour metrics, now time.Time) error {
	queues, err := m.usable(ctx)
	if err != nil {
		return err
	}
	for _, q := range queues {
		if err := m.gaugeQueue(ctx, hour, q, now); err != nil {
			return fmt.Errorf("measure the backlog of %s: %w", q.Name, err)
		}
	}
	for k, r := range hour.rows {
		if k != workersKey {
			r.measured(backlog{}, now)
		}
	}
	return nil
}

// usable are the registered queues that have a table of their own, each in the order that it has.
func (m *Monitor) usable(ctx context.Context) ([]schema.Queue, error) {
	names, err := m.queues(ctx)
	if err != nil {
		return nil, err
	}
	queues := make([]schema.Queue, len(names))
	for i, name := range names {
		table, err := m.db.CheckQueue(name)
		if err != nil {
			return nil, err
		}
		queues[i].Name = name
		if queues[i].Order, err = m.db.OrderOf(ctx, table); err != nil && !errors.Is(err, schema.ErrNotMigrated) {
			return nil, err
		}
	}
	err = m.db.Check(ctx, queues)
	unfit, ok := errors.AsType[schema.QueueErrors](err)
	if err != nil && !ok {
		return nil, err
	}
	for _, name := range names {
		if err := unfit[name]; err != nil {
			m.db.Warn(fmt.Errorf("queue %s is not measured: %w", name, err))
		}
	}
	return slices.DeleteFunc(queues, func(q schema.Queue) bool { return unfit[q.Name] != nil }), nil
}

func (m *Monitor) gaugeQueue(ctx context.Context, hour metrics, q schema.Queue, now time.Time) error {
	table, err := m.db.CheckQueue(q.Name)
	if err != nil {
		return err
	}
	join, missing := roster.New(m.db).MissingAt("j.worker_id")
	pick, wake := m.db.Index(table, q.Order.Pick()), m.db.Index(table, "wake")
	for _, query := range []string{
		// in the line, held back by a full group, or inserted by plain SQL and not taken in yet
		"SELECT job_type, COUNT(*) AS n, MIN(scheduled_run_time) AS oldest FROM " + table + " " + pick +
			" WHERE line IN ('due', 'held', 'new') AND scheduled_run_time <= ? GROUP BY job_type",
		// due, but no worker has promoted it
		"SELECT job_type, COUNT(*) AS n, MIN(scheduled_run_time) AS oldest FROM " + table + " " + wake +
			" WHERE line = 'later' AND wake_time <= ? GROUP BY job_type",
		// a dead worker's; of these, only what was not started is due
		"SELECT j.job_type, COUNT(*) AS n, MIN(CASE WHEN j.state <> 'running' THEN j.scheduled_run_time END) AS oldest" +
			" FROM " + table + " AS j " + pick +
			" " + join + " WHERE j.line = 'locked' AND " + missing + " GROUP BY j.job_type",
	} {
		var found []backlog
		if err := m.db.SelectContext(ctx, &found, query, engine.At(now)); err != nil {
			return err
		}
		for _, b := range found {
			hour.row(key{q.Name, b.JobType}).measured(b, now)
		}
	}
	return nil
}

// measured adds to the gauges of the row.
func (r *metric) measured(b backlog, now time.Time) {
	var n, oldest int64
	if r.Backlog != nil {
		n, oldest = *r.Backlog, *r.OldestDueMS
	}
	n += b.N
	if !b.Oldest.IsZero() {
		oldest = max(oldest, now.Sub(b.Oldest.Time).Milliseconds())
	}
	r.Backlog, r.OldestDueMS, r.GaugeTime = &n, &oldest, engine.At(now)
}
