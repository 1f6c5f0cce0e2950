package monitor

import (
	"context"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/schema"
)

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
		r.measured(jobCount{}, now)
		if limit, ok := limits[k.queue]; ok {
			r.ThrottleLimit = &limit
		}
	}
	return nil
}

// gaugeQueue measures a queue, and gives its throttle limit.
func (m *Monitor) gaugeQueue(ctx context.Context, hour metrics, q schema.Queue, now time.Time) (limit int64, err error) {
	counts, err := m.backlog(ctx, q, now, 0)
	if err != nil {
		return 0, err
	}
	used, err := m.used(ctx, q, "job_type")
	if err != nil {
		return 0, err
	}
	for _, s := range append(counts, used...) {
		hour.row(key{q.Name, s.JobType}).measured(s, now)
	}
	err = m.db.GetContext(ctx, &limit, "SELECT CAST(throttle_limit AS SIGNED INTEGER) FROM "+m.db.Queues()+" WHERE queue = ?", q.Name)
	return max(limit, 0), err
}

// measured adds to the gauges of the row.
func (r *metric) measured(s jobCount, now time.Time) {
	var oldest int64
	if !s.Oldest.IsZero() {
		oldest = now.Sub(s.Oldest.Time).Milliseconds()
	}
	if r.Backlog == nil {
		r.Backlog, r.Held, r.OldestDueMS, r.ThrottleUsed = new(int64), new(int64), new(int64), new(int64)
	}
	*r.Backlog += s.N
	if s.Status == "throttled" { // for want of room in their groups
		*r.Held += s.N
	}
	*r.OldestDueMS = max(*r.OldestDueMS, oldest)
	*r.ThrottleUsed += s.Used
	r.GaugeTime = engine.At(now)
}
