package monitor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/texts"
)

// Current is what has happened since the last complete hour. It is counted from the activity, and stored nowhere.
type Current struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// LeftOut says that there are more than a million entries, too many to count each time.
	LeftOut bool           `json:"left_out"`
	Queues  []CurrentQueue `json:"queues"`
}

// CurrentQueue is that of a queue, over all of its job types.
type CurrentQueue struct {
	Queue string `json:"queue"`
	Counts
}

// currentMost is how many ids of the activity are read for the current hour: a million entries take about a second.
const currentMost = 1_000_000

var errTooMuch = errors.New("too much activity to count before the hour is complete")

// Current counts what has happened since the last complete hour.
func (m *Monitor) Current(ctx context.Context) (Current, error) {
	now, err := m.db.SQL.Clock(ctx)
	if err != nil {
		return Current{}, err
	}
	c := Current{From: lastComplete(now).Add(time.Hour), To: now, Queues: []CurrentQueue{}}
	counted, err := m.countBetween(ctx, c.From, now, currentMost)
	if errors.Is(err, errTooMuch) {
		c.LeftOut = true
		return c, nil
	}
	sums := map[string]*Counts{}
	for k, r := range counted.rows {
		if k == workersKey {
			continue
		}
		if sums[k.queue] == nil {
			sums[k.queue] = &Counts{}
		}
		sums[k.queue].add(&r.Counts)
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		sums[name].sum()
		c.Queues = append(c.Queues, CurrentQueue{name, *sums[name]})
	}
	return c, texts.Wrap(err, "count the current hour")
}
