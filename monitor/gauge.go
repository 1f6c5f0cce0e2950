package monitor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/queue/roster"
	"github.com/hipq/hipq/schema"
)

// backlog is what of one job type waits that shouldn't.
type backlog struct {
	JobType string      `db:"job_type"`
	N       int64       `db:"n"`
	Oldest  schema.Time `db:"oldest"`
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
			return fmt.Errorf("measure the backlog of %s: %w", q, err)
		}
	}
	for k, r := range hour.rows {
		if k != workersKey {
			r.measured(backlog{}, now)
		}
	}
	return nil
}

// usable are the registered queues that have a table of their own.
func (m *Monitor) usable(ctx context.Context) ([]string, error) {
	names, err := m.queues(ctx)
	if err != nil {
		return nil, err
	}
	tables := make([]schema.Queue, len(names))
	for i, name := range names {
		tables[i].Name = name
	}
	err = m.db.Check(ctx, tables)
	unfit, ok := errors.AsType[schema.QueueErrors](err)
	if err != nil && !ok {
		return nil, err
	}
	for name, err := range unfit {
		m.db.Warn(fmt.Errorf("queue %s is not measured: %w", name, err))
	}
	return slices.DeleteFunc(names, func(name string) bool { return unfit[name] != nil }), nil
}

func (m *Monitor) gaugeQueue(ctx context.Context, hour metrics, queue string, now time.Time) error {
	table, err := m.db.CheckQueue(queue)
	if err != nil {
		return err
	}
	order, err := m.db.OrderOf(ctx, m.db, table)
	if err != nil {
		return err
	}
	join, missing := roster.New(m.db).MissingAt("j.worker_id")
	pick, wake := m.db.Index(table, order.Pick()), m.db.Index(table, "wake")
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
		if err := m.db.SelectContext(ctx, &found, query, schema.At(now)); err != nil {
			return err
		}
		for _, b := range found {
			hour.row(key{queue, b.JobType}).measured(b, now)
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
	r.Backlog, r.OldestDueMS, r.GaugeTime = &n, &oldest, schema.At(now)
}
