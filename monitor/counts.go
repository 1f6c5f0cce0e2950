package monitor

// Counts is what happened to jobs in an hour or longer.
type Counts struct {
	// Added is the number of jobs that were added.
	Added int64 `json:"added"`
	// Started is the number of attempts that started.
	Started int64 `json:"started"`
	// Finished is the number of jobs that finished.
	Finished int64 `json:"finished"`
	// Errors is the number of attempts that are retried.
	Errors int64 `json:"errors"`
	// Failed is the number of jobs that failed for good.
	Failed int64 `json:"failed"`

	// Wait is how long jobs were due before they started.
	Wait Times `json:"wait"`
	// Run is how long attempts took, whatever their outcome.
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

func (c *Counts) sum() {
	c.Wait.sum()
	c.Run.sum()
}

// Bad is the number of attempts that ended in an error.
func (c Counts) Bad() int64 { return c.Errors + c.Failed }

// Attempts is the number of attempts that ended.
func (c Counts) Attempts() int64 { return c.Finished + c.Bad() }

// ErrorRate is the fraction of attempts that ended in an error; 0 without attempts.
func (c Counts) ErrorRate() float64 { return part(c.Bad(), c.Attempts()) }

// Times summarizes durations in milliseconds.
type Times struct {
	// Count is the number of attempts that started or, of run times, that ran and ended.
	Count int64 `json:"count"`
	// SumMS is the sum of the times.
	SumMS int64 `json:"sum_ms"`
	// MinMS is the shortest time; 0 if Count is 0.
	MinMS int64 `json:"min_ms"`
	// MaxMS is the longest time; 0 if Count is 0.
	MaxMS int64 `json:"max_ms"`
	// AvgMS is the average, rounded down; 0 if Count is 0.
	AvgMS int64 `json:"avg_ms"`
	// P50MS is the median within 2 %. It is nil if Count is 0 or a stored histogram can't be read.
	P50MS *int64 `json:"p50_ms"`
	// P95MS is the 95th percentile, as P50MS.
	P95MS *int64 `json:"p95_ms"`
	// P99MS is the 99th percentile, as P50MS.
	P99MS *int64 `json:"p99_ms"`

	histogram histogram
}

// put adds a time. The caller calls sum after the last one.
func (t *Times) put(ms int64) {
	if t.Count == 0 || ms < t.MinMS {
		t.MinMS = ms
	}
	t.MaxMS = max(t.MaxMS, ms)
	t.Count++
	t.SumMS += ms
	t.histogram.put(bucketOf(ms), 1)
}

// add merges other times. The caller calls sum after the last ones.
func (t *Times) add(o *Times) {
	if o.Count == 0 {
		return
	}
	if t.Count == 0 || o.MinMS < t.MinMS {
		t.MinMS = o.MinMS
	}
	t.MaxMS = max(t.MaxMS, o.MaxMS)
	t.Count += o.Count
	t.SumMS += o.SumMS
	t.histogram.add(o.histogram)
}

func (t *Times) sum() {
	t.AvgMS = t.SumMS / max(t.Count, 1)
	t.P50MS, t.P95MS, t.P99MS = nil, nil, nil
	ms, ok := t.histogram.percentiles(t.Count)
	if !ok || t.Count == 0 {
		return
	}
	for i := range ms {
		ms[i] = min(max(ms[i], t.MinMS), t.MaxMS) // the bounds are exact
	}
	t.P50MS, t.P95MS, t.P99MS = &ms[0], &ms[1], &ms[2]
}

// Workers counts what happened to workers.
type Workers struct {
	// Started is the number of workers that started.
	Started int64 `json:"started"`
	// Finished is the number of workers that finished.
	Finished int64 `json:"finished"`
	// Died is the number of workers that were declared dead or ended with unsettled jobs.
	Died int64 `json:"died"`
}

func (w *Workers) add(o Workers) {
	w.Started += o.Started
	w.Finished += o.Finished
	w.Died += o.Died
}
