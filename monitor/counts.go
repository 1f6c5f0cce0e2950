package monitor

// Counts are what happened to jobs, over an hour or several.
type Counts struct {
	Added    int64 `json:"added"`
	Started  int64 `json:"started"`
	Finished int64 `json:"finished"`
	// Errors are attempts that are tried again.
	Errors int64 `json:"errors"`
	// Failed are attempts that made a job final with an error.
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

func (c *Counts) sum() {
	c.Wait.sum()
	c.Run.sum()
}

// Bad is how many attempts ended in an error.
func (c Counts) Bad() int64 { return c.Errors + c.Failed }

// Attempts is how many attempts have ended.
func (c Counts) Attempts() int64 { return c.Finished + c.Bad() }

// ErrorRate is which part of the attempts ended in an error; 0 if there are none.
func (c Counts) ErrorRate() float64 { return part(c.Bad(), c.Attempts()) }

// Times are how long something took each time, in milliseconds.
type Times struct {
	Count int64 `json:"count"`
	SumMS int64 `json:"sum_ms"`
	// MinMS, MaxMS and AvgMS, which is rounded down, are 0 where Count is 0.
	MinMS int64 `json:"min_ms"`
	MaxMS int64 `json:"max_ms"`
	AvgMS int64 `json:"avg_ms"`
	// P50MS is the median; P95MS and P99MS are what 95 and 99 of 100 don't exceed, of all the times that were merged, within 2 % of
	// the truth. They are nil where Count is 0, or where the histogram of one of the merged hours can't be read.
	P50MS *int64 `json:"p50_ms"`
	P95MS *int64 `json:"p95_ms"`
	P99MS *int64 `json:"p99_ms"`

	histogram histogram
}

// put counts one time more. The caller calls sum in the end.
func (t *Times) put(ms int64) {
	if t.Count == 0 || ms < t.MinMS {
		t.MinMS = ms
	}
	t.MaxMS = max(t.MaxMS, ms)
	t.Count++
	t.SumMS += ms
	t.histogram.put(bucketOf(ms), 1)
}

// add adds what is counted in another. The caller calls sum in the end.
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
		ms[i] = min(max(ms[i], t.MinMS), t.MaxMS) // which are exact
	}
	t.P50MS, t.P95MS, t.P99MS = &ms[0], &ms[1], &ms[2]
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
