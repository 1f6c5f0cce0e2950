package monitor

import (
	"context"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/engine"
)

// CourseHour is one of the hours that have been taken (UTC, its beginning), by itself.
type CourseHour struct {
	Hour time.Time
	// Queues has those to which anything happened in the hour, and those whose backlog was measured at its end.
	Queues map[string]*QueueHour
}

// QueueHour is an hour of a queue, over all of its job types.
type QueueHour struct {
	Counts
	// Measured says whether the backlog was measured at the end of the hour. If not it is 0, and so is OldestDueMS.
	Measured    bool
	Backlog     int64
	OldestDueMS int64
}

// course is a report's course in the making.
type course struct {
	from, to time.Time
	hours    []CourseHour
	// sums are those of the queue's hour that is being read: the rows of one come one after the other.
	sums metric
	of   *QueueHour
}

func newCourse(to time.Time) *course { return &course{from: to.Add(-week), to: to} }

// hour begins an hour; nil for one before the week.
func (c *course) hour(hour time.Time) metricOf {
	if hour.Before(c.from) {
		return nil
	}
	queues := map[string]*QueueHour{}
	c.hours = append(c.hours, CourseHour{hour, queues})
	return func(queue, _ []byte) *metric {
		if string(queue) == workersKey.queue {
			return nil
		}
		if of := queues[string(queue)]; of == nil || of != c.of {
			c.end()
			c.of = hourOfQueue(queues, string(queue))
		}
		return &c.sums
	}
}

// end ends the queue's hour that is being read.
func (c *course) end() {
	if c.of == nil {
		return
	}
	c.sums.sum()
	c.of.Counts = c.sums.Counts
	wait, run := c.sums.Wait.histogram, c.sums.Run.histogram
	c.of.Wait.histogram, c.of.Run.histogram = histogram{}, histogram{}
	clear(wait.n)
	clear(run.n)
	c.sums = metric{}
	c.sums.Wait.histogram, c.sums.Run.histogram = wait, run // for the next: there are thousands
}

func (m *Monitor) endCourse(ctx context.Context, c *course) ([]CourseHour, error) {
	c.end()
	at := map[time.Time]map[string]*QueueHour{}
	for _, h := range c.hours {
		at[h.Hour] = h.Queues
	}
	return c.hours, m.addBacklogs(ctx, at, c.from, c.to)
}

// addBacklogs adds what was measured at the ends of the hours.
func (m *Monitor) addBacklogs(ctx context.Context, at map[time.Time]map[string]*QueueHour, from, to time.Time) error {
	query := "SELECT " + m.db.TimeColumn("hour") + ", queue, CAST(SUM(backlog) AS SIGNED INTEGER), CAST(MAX(oldest_due_ms) AS SIGNED INTEGER) FROM " + m.db.Metrics() +
		" WHERE hour >= ? AND hour < ? AND backlog IS NOT NULL GROUP BY hour, queue"
	rows, err := m.db.QueryContext(ctx, query, engine.At(from), engine.At(to))
	if err != nil {
		return fmt.Errorf("read the backlogs: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var hour engine.Time
		var name string
		var backlog, oldest int64
		if err := rows.Scan(&hour, &name, &backlog, &oldest); err != nil {
			return fmt.Errorf("read the backlogs: %w", err)
		}
		if queues, ok := at[hour.Time]; ok {
			q := hourOfQueue(queues, name)
			q.Measured, q.Backlog, q.OldestDueMS = true, backlog, oldest
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the backlogs: %w", err)
	}
	return nil
}

func hourOfQueue(queues map[string]*QueueHour, name string) *QueueHour {
	if queues[name] == nil {
		queues[name] = &QueueHour{}
	}
	return queues[name]
}
