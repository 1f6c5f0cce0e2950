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

// standing is how jobs of one type stand.
type standing struct {
	JobType string `db:"job_type"`
	// N of them wait that shouldn't, the first since Oldest; Held of these wait for room in their group.
	N      int64       `db:"n"`
	Held   int64       `db:"held"`
	Oldest engine.Time `db:"oldest"`
	// Used is what those weigh that count against the queue's limit.
	Used int64 `db:"used"`
}

// gauge measures, as of now, the backlog of each registered queue: jobs that are due, and those whose worker is dead; and the use
// of its throttle limit. Types of the hour that have none get a 0, which is not the same as not measured.
func (m *Monitor) gauge(ctx context.Context, hour metrics, now time.Time) error {
	queues, err := m.usable(ctx)
	if err != nil {
		return err
	}
	limits := map[string]int64{}
	for _, q := range queues {
		if limits[q.Name], err = m.gaugeQueue(ctx, hour, q, now); err != nil {
			return fmt.Errorf("measure the backlog of %s: %w", q.Name, err)
		}
	}
	for k, r := range hour.rows {
		if k == workersKey {
			continue
		}
		r.measured(standing{}, now)
		if limit, ok := limits[k.queue]; ok {
			r.ThrottleLimit = &limit
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

// gaugeQueue measures a queue, and gives its throttle limit.
func (m *Monitor) gaugeQueue(ctx context.Context, hour metrics, q schema.Queue, now time.Time) (limit int64, err error) {
	table, err := m.db.CheckQueue(q.Name)
	if err != nil {
		return 0, err
	}
	at := engine.At(now)
	join, missing := roster.New(m.db).MissingAt("j.worker_id")
	pick, wake := m.db.Index(table, q.Order.Pick()), m.db.Index(table, "wake")
	for _, query := range []struct {
		text string
		args []any
	}{
		// in the line, held back by a full group, or inserted by plain SQL and not taken in yet
		{"SELECT job_type, COUNT(*) AS n, CAST(SUM(line = 'held') AS SIGNED INTEGER) AS held, " + m.db.TimeText("MIN(scheduled_run_time)") + " AS oldest FROM " +
			table + " " + pick + " WHERE line IN ('due', 'held', 'new') AND scheduled_run_time <= ? GROUP BY job_type", []any{at}},
		// due, but no worker has promoted it
		{"SELECT job_type, COUNT(*) AS n, " + m.db.TimeText("MIN(scheduled_run_time)") + " AS oldest FROM " + table + " " + wake +
			" WHERE line = 'later' AND wake_time <= ? GROUP BY job_type", []any{at}},
		// a dead worker's; of these, only what was not started is due
		{"SELECT j.job_type, COUNT(*) AS n, " + m.db.TimeText("MIN(CASE WHEN j.state <> 'running' THEN j.scheduled_run_time END)") + " AS oldest" +
			" FROM " + table + " AS j " + pick + " " + join + " WHERE j.line = 'locked' AND " + missing + " GROUP BY j.job_type", []any{at}},
		// what counts against the limit, as those who start jobs see it
		{"SELECT job_type, CAST(COALESCE(SUM(throttle_factor), 0) AS SIGNED INTEGER) AS used FROM " + table + " " + pick +
			" WHERE line IN ('locked', 'waiting') AND (state <> 'error' OR answered = 1) GROUP BY job_type", nil},
	} {
		var found []standing
		if err := m.db.SelectContext(ctx, &found, query.text, query.args...); err != nil {
			return 0, err
		}
		for _, s := range found {
			hour.row(key{q.Name, s.JobType}).measured(s, now)
		}
	}
	err = m.db.GetContext(ctx, &limit, "SELECT CAST(throttle_limit AS SIGNED INTEGER) FROM "+m.db.Queues()+" WHERE queue = ?", q.Name)
	return max(limit, 0), err
}

// measured adds to the gauges of the row.
func (r *metric) measured(s standing, now time.Time) {
	var oldest int64
	if !s.Oldest.IsZero() {
		oldest = now.Sub(s.Oldest.Time).Milliseconds()
	}
	if r.Backlog == nil {
		r.Backlog, r.Held, r.OldestDueMS, r.ThrottleUsed = new(int64), new(int64), new(int64), new(int64)
	}
	*r.Backlog += s.N
	*r.Held += s.Held
	*r.OldestDueMS = max(*r.OldestDueMS, oldest)
	*r.ThrottleUsed += s.Used
	r.GaugeTime = engine.At(now)
}
