package monitor

// Times are how long something took each time, in milliseconds.
type Times struct {
	Count int64 `json:"count"`
	SumMS int64 `json:"sum_ms"`
	// MinMS, MaxMS and AvgMS, which is rounded down, are 0 where Count is 0.
	MinMS int64 `json:"min_ms"`
	MaxMS int64 `json:"max_ms"`
	AvgMS int64 `json:"avg_ms"`
	// The median, and what 95 and 99 of 100 don't exceed, of all the times that were merged, within 2 % of the truth. They are nil
	// where Count is 0, or where an hour is among those merged that was taken by a version which had no percentiles.
	P50MS *int64 `json:"p50_ms"`
	P95MS *int64 `json:"p95_ms"`
	P99MS *int64 `json:"p99_ms"`

	histogram histogram
}

// put counts one time more. What follows from that is for sum to find out.
func (t *Times) put(ms int64) {
	if t.Count == 0 || ms < t.MinMS {
		t.MinMS = ms
	}
	t.MaxMS = max(t.MaxMS, ms)
	t.Count++
	t.SumMS += ms
	t.histogram.put(bucketOf(ms), 1)
}

// add adds what is counted in another. What follows from that is for sum to find out.
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
	t.histogram.add(&o.histogram)
}

// sum finds out the average and the percentiles.
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
