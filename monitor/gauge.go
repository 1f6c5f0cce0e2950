package monitor

import (
	"context"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/schema"
)

// standing is how jobs of one type stand, in one shard and one status; there may be several of them.
type standing struct {
	JobType string `db:"job_type"`
	// Place is the number of the shard in the tables.
	Place  int    `db:"shard"`
	Status string `db:"status"`
	// N of them wait that shouldn't, the first since Oldest.
	N      int64       `db:"n"`
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

// gaugeQueue measures a queue, and gives its throttle limit.
func (m *Monitor) gaugeQueue(ctx context.Context, hour metrics, q schema.Queue, now time.Time) (limit int64, err error) {
	standings, err := m.backlog(ctx, q, now, 0)
	if err != nil {
		return 0, err
	}
	used, err := m.used(ctx, q, "job_type")
	if err != nil {
		return 0, err
	}
	for _, s := range append(standings, used...) {
		hour.row(key{q.Name, s.JobType}).measured(s, now)
	}
	err = m.db.GetContext(ctx, &limit, "SELECT CAST(throttle_limit AS SIGNED INTEGER) FROM "+m.db.Queues()+" WHERE queue = ?", q.Name)
	return max(limit, 0), err
}

// used sums up what counts against a queue's limit, as those that start jobs see it: by job type or by shard.
func (m *Monitor) used(ctx context.Context, q schema.Queue, by string) (used []standing, err error) {
	table, err := m.db.CheckQueue(q.Name)
	if err != nil {
		return nil, err
	}
	err = m.db.SelectContext(ctx, &used, "SELECT "+by+", CAST(COALESCE(SUM(throttle_factor + 0.0), 0) AS SIGNED INTEGER) AS used FROM "+table+" "+
		m.db.Index(table, schema.ClaimIndex)+" WHERE "+schema.Counts+" GROUP BY "+by)
	if err != nil {
		return nil, fmt.Errorf("sum up the throttle factors of %s: %w", q.Name, err)
	}
	return used, nil
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
	if s.Status == "throttled" { // for want of room in their groups
		*r.Held += s.N
	}
	*r.OldestDueMS = max(*r.OldestDueMS, oldest)
	*r.ThrottleUsed += s.Used
	r.GaugeTime = engine.At(now)
}
