package monitor

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
)

// metric is a row of the metrics table: an hour of one job type, or of the workers (workersKey).
type metric struct {
	Hour    engine.Time
	Queue   string
	JobType string
	Counts  `json:"-"`
	Workers `json:"-"`
	gauges
}

// gauges are the measured values of a job type; nil, and a zero GaugeTime, if they were not measured.
type gauges struct {
	Backlog       *int64
	Held          *int64
	OldestDueMS   *int64
	ThrottleUsed  *int64
	ThrottleLimit *int64
	GaugeTime     engine.Time
}

const (
	metricColumns = "hour, " + metricCounts + ", gauge_time"
	metricCounts  = "queue, job_type, added, started, finished, errors, failed, workers_started, workers_finished, workers_died," +
		" wait_count, wait_sum_ms, wait_min_ms, wait_max_ms, wait_p50_ms, wait_p95_ms, wait_p99_ms, wait_histogram," +
		" run_count, run_sum_ms, run_min_ms, run_max_ms, run_p50_ms, run_p95_ms, run_p99_ms, run_histogram," +
		" backlog, held, oldest_due_ms, throttle_used, throttle_limit"
	metricRow = "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
)

func (r *metric) columns() []any {
	c, w := &r.Counts, &r.Workers
	all := []any{
		&r.Hour, &r.Queue, &r.JobType, &c.Added, &c.Started, &c.Finished, &c.Errors, &c.Failed, &w.Started, &w.Finished, &w.Died,
	}
	for _, t := range []*Times{&c.Wait, &c.Run} {
		all = append(all, &t.Count, &t.SumMS, &t.MinMS, &t.MaxMS, &t.P50MS, &t.P95MS, &t.P99MS, &t.histogram)
	}
	return append(all, &r.Backlog, &r.Held, &r.OldestDueMS, &r.ThrottleUsed, &r.ThrottleLimit, &r.GaugeTime)
}

// entries is how many activity entries the row counts.
func (r *metric) entries() int64 {
	c, w := &r.Counts, &r.Workers
	return c.Added + c.Started + c.Finished + c.Errors + c.Failed + w.Started + w.Finished + w.Died
}

func (r *metric) add(o *metric) {
	r.Counts.add(&o.Counts)
	r.Workers.add(o.Workers)
}

// key identifies a metric within its hour.
type key struct{ queue, jobType string }

func (k key) compare(o key) int {
	return cmp.Or(strings.Compare(k.queue, o.queue), strings.Compare(k.jobType, o.jobType))
}

func (r *metric) key() key { return key{r.Queue, r.JobType} }

// metrics are the rows of one hour, or the sums of several hours.
type metrics struct {
	hour time.Time
	rows map[key]*metric
}

func newMetrics(hour time.Time) metrics { return metrics{hour, map[key]*metric{}} }

func (m metrics) row(k key) *metric {
	r, ok := m.rows[k]
	if !ok {
		r = &metric{Hour: engine.At(m.hour), Queue: k.queue, JobType: k.jobType}
		m.rows[k] = r
	}
	return r
}

// eachMetric calls f with each row of the hours in [from, to), by hour, queue and job type. f must not keep the row,
// which is reused.
func (m *Monitor) eachMetric(ctx context.Context, in engine.Reader, from, to time.Time, f func(*metric)) error {
	return m.eachMetricOf(ctx, in, [2]time.Time{from, to}, nil, f)
}

// eachMetricOf is eachMetric, between two times, of one job type, or of all for nil.
func (m *Monitor) eachMetricOf(ctx context.Context, in engine.Reader, between [2]time.Time, of *key, f func(*metric)) error {
	query := "SELECT " + m.db.SQL.TimeColumn("hour") + ", " + metricCounts + ", " + m.db.SQL.TimeColumn("gauge_time") + " FROM " + m.db.Metrics() +
		" WHERE hour >= ? AND hour < ?"
	args := []any{engine.At(between[0]), engine.At(between[1])}
	if of != nil {
		query, args = query+" AND queue = ? AND job_type = ?", append(args, of.queue, of.jobType)
	}
	query += " ORDER BY hour, queue, job_type"
	var r metric
	columns := r.columns()
	err := engine.ReadOn(ctx, in, engine.Query{SQL: query, Args: args, Scan: engine.EachRow(func(row *sql.Rows) error {
		if err := row.Scan(columns...); err != nil {
			return err
		}
		f(&r)
		return nil
	})})
	return texts.Wrap(err, "read the metrics")
}

func (m *Monitor) insert(ctx context.Context, tx *engine.Tx, counted metrics) error {
	const maxRows = 500 // SQLite allows 32,766 parameters
	for part := range slices.Chunk(slices.Collect(maps.Values(counted.rows)), maxRows) {
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
