package monitor

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/engine"
)

// metricOf gives the metric to which an hour's row of a job type is to be added; nil if it isn't wanted.
type metricOf func(queue, jobType []byte) *metric

// storedHour is an hour that has been taken, as it is being read.
type storedHour struct {
	time.Time
	text []byte
	// left is what is left of its digest, of which each row is added to all of these.
	left digest
	to   []metricOf
}

// hoursAtOnce is how many hours are read together. A queue is added up over all of them before the next queue: so its sums stay in
// the processor's cache, which has no room for those of all queues.
const hoursAtOnce = 24

// eachHour calls each f with each hour in [from, to) that has been taken, and adds each row of the hour's metrics to the metric
// that f's answer gives for it; an answer may be nil. Rows of the same queue and hour come one after the other.
func (m *Monitor) eachHour(ctx context.Context, from, to time.Time, f ...func(hour time.Time) metricOf) error {
	rows, err := m.db.QueryContext(ctx, "SELECT "+m.db.TimeColumn("hour")+", digest FROM "+m.db.Hours()+" WHERE hour >= ? AND hour < ? ORDER BY hour",
		engine.At(from), engine.At(to))
	if err != nil {
		return fmt.Errorf("read the hours: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var undigested []storedHour
	open := make([]storedHour, 0, hoursAtOnce)
	for rows.Next() {
		var hour engine.Time
		var text sql.RawBytes
		if err := rows.Scan(&hour, &text); err != nil {
			return fmt.Errorf("read the hours: %w", err)
		}
		h := storedHour{Time: hour.Time}
		for _, begin := range f {
			if of := begin(hour.Time); of != nil {
				h.to = append(h.to, of)
			}
		}
		if _, ok := openDigest(text); !ok {
			undigested = append(undigested, h)
			continue
		}
		n := len(open)
		open = open[:n+1]
		h.text = append(open[n].text[:0], text...) // the text is the driver's
		h.left, _ = openDigest(h.text)
		if open[n] = h; len(open) == hoursAtOnce {
			addHours(open)
			open = open[:0]
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the hours: %w", err)
	}
	addHours(open)
	for _, h := range undigested {
		err := m.eachMetric(ctx, m.db, h.Time, h.Add(time.Hour), func(r metric) {
			for _, of := range h.to {
				if to := of([]byte(r.Queue), []byte(r.JobType)); to != nil {
					to.add(&r)
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// addHours adds the rows of the hours, queue by queue.
func addHours(hours []storedHour) {
	for {
		var next []byte
		some := false
		for i := range hours {
			if queue, ok := hours[i].left.queue(); ok && (!some || bytes.Compare(queue, next) < 0) {
				next, some = queue, true
			}
		}
		if !some {
			return
		}
		for i := range hours {
			h := &hours[i]
			for queue, ok := h.left.queue(); ok && bytes.Equal(queue, next); queue, ok = h.left.queue() {
				h.left.addRow(h.to)
			}
		}
	}
}
