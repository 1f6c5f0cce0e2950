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

// Course gives the hours of the week that ends with the hour (UTC) that contains t, oldest first, but for those that nobody has
// taken: what a chart shows, where Report sums up.
func (m *Monitor) Course(ctx context.Context, t time.Time) ([]CourseHour, error) {
	to := hourOf(t).Add(time.Hour)
	from := to.Add(-week)
	course, err := m.course(ctx, from, to)
	if err != nil {
		return nil, fmt.Errorf("report on the hours from %s to %s: %w", from.Format(time.RFC3339), to.Format(time.RFC3339), err)
	}
	return course, nil
}

func (m *Monitor) course(ctx context.Context, from, to time.Time) (course []CourseHour, err error) {
	at := map[time.Time]map[string]*QueueHour{}
	rows := map[time.Time]map[string]*metric{} // by hour and queue
	err = m.eachHour(ctx, from, to, func(hour time.Time) func(queue, jobType []byte) *metric {
		queues := map[string]*metric{}
		rows[hour], at[hour] = queues, map[string]*QueueHour{}
		course = append(course, CourseHour{hour, at[hour]})
		return func(queue, _ []byte) *metric {
			if string(queue) == workersKey.queue {
				return nil
			}
			r, ok := queues[string(queue)]
			if !ok {
				r = &metric{}
				queues[string(queue)] = r
			}
			return r
		}
	})
	if err != nil {
		return nil, err
	}
	for hour, queues := range rows {
		for name, r := range queues {
			r.sum()
			hourOfQueue(at[hour], name).Counts = r.Counts
		}
	}
	return course, m.addBacklogs(ctx, at, from, to)
}

// addBacklogs adds what was measured at the ends of the hours.
func (m *Monitor) addBacklogs(ctx context.Context, at map[time.Time]map[string]*QueueHour, from, to time.Time) error {
	query := "SELECT hour, queue, CAST(SUM(backlog) AS SIGNED INTEGER), CAST(MAX(oldest_due_ms) AS SIGNED INTEGER) FROM " + m.db.Metrics() +
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
