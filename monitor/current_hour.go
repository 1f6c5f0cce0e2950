package monitor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/texts"
)

// Current is what happened since the last complete hour. It is counted from the activity and not stored.
type Current struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// LeftOut is true if nothing was counted, because more than 1,000,000 entries take too long to count.
	LeftOut bool `json:"left_out"`
	// Queues are the queues with activity.
	Queues []CurrentQueue `json:"queues"`
}

// CurrentQueue has the counts of a queue over all its job types.
type CurrentQueue struct {
	Queue string `json:"queue"`
	// Counts are what happened over all job types.
	Counts
}

// currentMost is how many ids of the activity may be read for the current hour: a million entries take about 1 s.
const currentMost = 1_000_000

var errTooMuch = errors.New("too much activity to count before the hour is complete")

// Current counts what happened since the last complete hour.
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
	sums := Hour{Queues: map[string]*QueueHour{}}
	for _, r := range counted.rows {
		sums.add(r)
	}
	for _, name := range slices.Sorted(maps.Keys(sums.Queues)) {
		sums.Queues[name].sum()
		c.Queues = append(c.Queues, CurrentQueue{name, sums.Queues[name].Counts})
	}
	return c, texts.Wrap(err, "count the current hour")
}
