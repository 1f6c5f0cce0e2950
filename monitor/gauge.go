package monitor

import (
	"context"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/engine"
)

// gauge measures, as of now, the backlog of each registered queue: jobs that are due, and those whose worker is dead; and the use
// of its throttle limit. Types of the hour that have none get a 0, which is not the same as not measured.
func (m *Monitor) gauge(ctx context.Context, hour metrics, now time.Time) error {
	queues, err := m.usable(ctx)
	if err != nil {
		return err
	}
	shards, err := m.queueShards(ctx)
	if err != nil {
		return err
	}
	for _, q := range queues {
		counts, err := m.backlog(ctx, q, now, 0)
		if err != nil {
			return fmt.Errorf("measure the backlog of %s: %w", q.Name, err)
		}
		used, err := m.used(ctx, q, "job_type")
		if err != nil {
			return err
		}
		for _, c := range append(counts, used...) {
			hour.row(key{q.Name, c.JobType}).measured(c, now)
		}
	}
	for k, r := range hour.rows {
		if k == workersKey {
			continue
		}
		r.measured(jobCount{}, now)
		if of := shards[k.queue]; len(of) > 0 {
			r.ThrottleLimit = new(max(of[0].Limit, 0))
		}
	}
	return nil
}

func (r *metric) measured(c jobCount, now time.Time) {
	var oldest int64
	if !c.Oldest.IsZero() {
		oldest = now.Sub(c.Oldest.Time).Milliseconds()
	}
	if r.Backlog == nil {
		r.Backlog, r.Held, r.OldestDueMS, r.ThrottleUsed = new(int64), new(int64), new(int64), new(int64)
	}
	*r.Backlog += c.N
	if c.Status == "throttled" { // for want of room in their groups
		*r.Held += c.N
	}
	*r.OldestDueMS = max(*r.OldestDueMS, oldest)
	*r.ThrottleUsed += c.Used
	r.GaugeTime = engine.At(now)
}
