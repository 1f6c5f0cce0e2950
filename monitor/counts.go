package monitor

import (
	"time"

	"github.com/hipq/hipq/internal/engine"
)

// Counts are what happened to jobs, over an hour or several.
type Counts struct {
	Added    int64 `json:"added"`
	Started  int64 `json:"started"`
	Finished int64 `json:"finished"`
	// Errors are attempts that are tried again, Failed those that made a job final with an error.
	Errors int64 `json:"errors"`
	Failed int64 `json:"failed"`

	// Wait is how long jobs were due before they started.
	Wait Times `json:"wait"`
	// Run is how long attempts took, of whatever outcome.
	Run Times `json:"run"`
}

func (c *Counts) add(o *Counts) {
	c.Added += o.Added
	c.Started += o.Started
	c.Finished += o.Finished
	c.Errors += o.Errors
	c.Failed += o.Failed
	c.Wait.add(&o.Wait)
	c.Run.add(&o.Run)
}

// sum finds out what follows from the counts.
func (c *Counts) sum() {
	c.Wait.sum()
	c.Run.sum()
}

// Workers are what happened to workers.
type Workers struct {
	Started  int64 `json:"started"`
	Finished int64 `json:"finished"`
	Died     int64 `json:"died"`
}

func (w *Workers) add(o Workers) {
	w.Started += o.Started
	w.Finished += o.Finished
	w.Died += o.Died
}

// metric is a row of the metrics table: an hour of one job type, or (see workersKey) of the workers.
type metric struct {
	Hour    engine.Time
	Queue   string
	JobType string
	Counts  `json:"-"`
	Workers `json:"-"`
	gauges
	// next is the row that a reader found after this one.
	next *metric
}

// gauges are those of a job type; nil, and the zero time, where they were not measured.
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
		" wait_count, wait_sum_ms, wait_min_ms, wait_max_ms, wait_p50_ms, wait_p95_ms, wait_p99_ms," +
		" run_count, run_sum_ms, run_min_ms, run_max_ms, run_p50_ms, run_p95_ms, run_p99_ms," +
		" backlog, held, oldest_due_ms, throttle_used, throttle_limit"
	metricRow = "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
)

// columns are where the values of metricColumns are.
func (r *metric) columns() []any {
	c, w := &r.Counts, &r.Workers
	all := []any{
		&r.Hour, &r.Queue, &r.JobType, &c.Added, &c.Started, &c.Finished, &c.Errors, &c.Failed, &w.Started, &w.Finished, &w.Died,
	}
	for _, t := range []*Times{&c.Wait, &c.Run} {
		all = append(all, &t.Count, &t.SumMS, &t.MinMS, &t.MaxMS, &t.P50MS, &t.P95MS, &t.P99MS)
	}
	return append(all, &r.Backlog, &r.Held, &r.OldestDueMS, &r.ThrottleUsed, &r.ThrottleLimit, &r.GaugeTime)
}

// entries is how many entries of the activity went into the row.
func (r *metric) entries() int64 {
	c, w := &r.Counts, &r.Workers
	return c.Added + c.Started + c.Finished + c.Errors + c.Failed + w.Started + w.Finished + w.Died
}

// add adds the counts of another hour.
func (r *metric) add(o *metric) {
	r.Counts.add(&o.Counts)
	r.Workers.add(o.Workers)
}

// key says what a metric is about, within its hour.
type key struct{ queue, jobType string }

// metrics are the rows of one hour, or the sums of several.
type metrics struct {
	hour  time.Time
	rows  map[key]*metric
	ticks hourTicks
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

// reader gives the rows of an hour that is read, made if they aren't there. Most hours have the same rows in the same order: so
// it first looks at the row that came next in the hour before.
func (m metrics) reader() metricOf {
	last := &metric{}
	return func(queue, jobType []byte) *metric {
		r := last.next
		if r == nil || r.Queue != string(queue) || r.JobType != string(jobType) {
			r = m.row(key{string(queue), string(jobType)})
			last.next = r
		}
		last = r
		return r
	}
}
