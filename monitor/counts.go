package monitor

import (
	"time"

	"github.com/hipq/hipq/internal/engine"
)

// Counts are what happened to jobs, over an hour or several.
type Counts struct {
	Added    int64 `json:"added" db:"added"`
	Started  int64 `json:"started" db:"started"`
	Finished int64 `json:"finished" db:"finished"`
	// Errors are attempts that are tried again, Failed those that made a job final with an error.
	Errors int64 `json:"errors" db:"errors"`
	Failed int64 `json:"failed" db:"failed"`

	// How long jobs were due before they started, in milliseconds.
	WaitCount int64 `json:"wait_count" db:"wait_count"`
	WaitSumMS int64 `json:"wait_sum_ms" db:"wait_sum_ms"`
	WaitMaxMS int64 `json:"wait_max_ms" db:"wait_max_ms"`
	// WaitAvgMS is rounded down; 0 where nothing started.
	WaitAvgMS int64 `json:"wait_avg_ms" db:"-"`

	// How long attempts took, of whatever outcome, in milliseconds.
	RunCount int64 `json:"run_count" db:"run_count"`
	RunSumMS int64 `json:"run_sum_ms" db:"run_sum_ms"`
	RunMaxMS int64 `json:"run_max_ms" db:"run_max_ms"`
	// RunAvgMS is rounded down; 0 where nothing ended.
	RunAvgMS int64 `json:"run_avg_ms" db:"-"`
}

func (c *Counts) add(o Counts) {
	c.Added += o.Added
	c.Started += o.Started
	c.Finished += o.Finished
	c.Errors += o.Errors
	c.Failed += o.Failed
	c.WaitCount += o.WaitCount
	c.WaitSumMS += o.WaitSumMS
	c.WaitMaxMS = max(c.WaitMaxMS, o.WaitMaxMS)
	c.WaitAvgMS = c.WaitSumMS / max(c.WaitCount, 1)
	c.RunCount += o.RunCount
	c.RunSumMS += o.RunSumMS
	c.RunMaxMS = max(c.RunMaxMS, o.RunMaxMS)
	c.RunAvgMS = c.RunSumMS / max(c.RunCount, 1)
}

// Workers are what happened to workers.
type Workers struct {
	Started  int64 `json:"started" db:"workers_started"`
	Finished int64 `json:"finished" db:"workers_finished"`
	Died     int64 `json:"died" db:"workers_died"`
}

func (w *Workers) add(o Workers) {
	w.Started += o.Started
	w.Finished += o.Finished
	w.Died += o.Died
}

// metric is a row of the metrics table: an hour of one job type, or (see workersKey) of the workers.
type metric struct {
	Hour    engine.Time `db:"hour"`
	Queue   string      `db:"queue"`
	JobType string      `db:"job_type"`
	Counts  `json:"-"`
	Workers `json:"-"`
	// The gauges; nil, and the zero time, where they were not measured.
	Backlog     *int64      `db:"backlog"`
	OldestDueMS *int64      `db:"oldest_due_ms"`
	GaugeTime   engine.Time `db:"gauge_time"`
}

const (
	metricColumns = "hour, queue, job_type, added, started, finished, errors, failed, workers_started, workers_finished, workers_died," +
		" wait_count, wait_sum_ms, wait_max_ms, run_count, run_sum_ms, run_max_ms, backlog, oldest_due_ms, gauge_time"
	metricRow = "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
)

func (r *metric) values() []any {
	c, w := &r.Counts, &r.Workers
	return []any{
		r.Hour, r.Queue, r.JobType, c.Added, c.Started, c.Finished, c.Errors, c.Failed, w.Started, w.Finished, w.Died,
		c.WaitCount, c.WaitSumMS, c.WaitMaxMS, c.RunCount, c.RunSumMS, c.RunMaxMS, r.Backlog, r.OldestDueMS, r.GaugeTime,
	}
}

// entries is how many entries of the activity went into the row.
func (r *metric) entries() int64 {
	c, w := &r.Counts, &r.Workers
	return c.Added + c.Started + c.Finished + c.Errors + c.Failed + w.Started + w.Finished + w.Died
}

// key says what a metric is about, within its hour.
type key struct{ queue, jobType string }

// metrics are the rows of one hour.
type metrics struct {
	hour time.Time
	rows map[key]*metric
}

// row is the row of k, made if it isn't there.
func (m metrics) row(k key) *metric {
	r, ok := m.rows[k]
	if !ok {
		r = &metric{Hour: engine.At(m.hour), Queue: k.queue, JobType: k.jobType}
		m.rows[k] = r
	}
	return r
}
