// Package monitor turns each hour of activity into metrics, once, and hours into windows.
package monitor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/schema"
)

// Errors that callers test for.
var (
	// ErrIncomplete: the hour isn't over, or not for long enough.
	ErrIncomplete = errors.New("hour not complete yet")
	// ErrPurged: an hour can't be recounted because activity of it has been purged.
	ErrPurged = errors.New("activity of the hour has been purged")
)

// settling is how long after its end an hour is complete: by then the transactions that were open have committed, and
// the activity that they recorded can be read.
const settling = 5 * time.Minute

// Monitor counts the activity of one instance. It is safe for concurrent use, on many hosts at once.
type Monitor struct{ db *schema.DB }

// New is the monitor of db's instance.
func New(db *schema.DB) *Monitor { return &Monitor{db: db} }

// LastComplete is the last hour (UTC, its beginning) that is complete by the database's clock.
func (m *Monitor) LastComplete(ctx context.Context) (time.Time, error) {
	now, err := m.db.Clock(ctx)
	if err != nil {
		return time.Time{}, err
	}
	return lastComplete(now), nil
}

func lastComplete(now time.Time) time.Time { return hourOf(now.Add(-settling)).Add(-time.Hour) }

// completeAt is when the hour is complete.
func completeAt(hour time.Time) time.Time { return hour.Add(time.Hour + settling) }

// Complete says whether, at now, the hour is complete and can be taken.
func Complete(hour, now time.Time) bool { return !now.Before(completeAt(hour)) }

// hourOf is the beginning of the hour (UTC) that contains t.
func hourOf(t time.Time) time.Time { return t.UTC().Truncate(time.Hour) }

// taken gives the hours in [from, to) that have been taken.
func (m *Monitor) taken(ctx context.Context, from, to time.Time) (map[time.Time]bool, error) {
	var hours []engine.Time
	query := "SELECT " + m.db.TimeColumn("hour") + " FROM " + m.db.Hours() + " WHERE hour >= ? AND hour < ?"
	if err := m.db.SelectContext(ctx, &hours, query, engine.At(from), engine.At(to)); err != nil {
		return nil, fmt.Errorf("find the hours taken: %w", err)
	}
	taken := make(map[time.Time]bool, len(hours))
	for _, h := range hours {
		taken[h.Time] = true
	}
	return taken, nil
}

// queues are the names of the registered queues. What no queue can be called counts for nothing, and the database's Warn is
// told of it.
func (m *Monitor) queues(ctx context.Context) (names []string, err error) {
	var found []string
	query := "SELECT SUBSTR(queue, 1, 100) FROM " + m.db.Queues() + " WHERE queue <> 'NONE' ORDER BY queue"
	if err := m.db.SelectContext(ctx, &found, query); err != nil {
		return nil, fmt.Errorf("find the queues: %w", err)
	}
	for _, name := range found {
		if _, err := m.db.CheckQueue(name); err != nil {
			m.db.Warn(fmt.Errorf("a row of %s counts for nothing: %w; delete it", m.db.Queues(), err))
			continue
		}
		names = append(names, name)
	}
	return names, nil
}

// Started says whether a job of a type was started since a time, by the hours that have been taken; all says that these are all
// complete hours since then.
func (m *Monitor) Started(ctx context.Context, queue, jobType string, since time.Time) (some, all bool, err error) {
	query := "SELECT EXISTS (SELECT 1 FROM " + m.db.Metrics() + " WHERE hour >= ? AND queue = ? AND job_type = ? AND started > 0)"
	if err := m.db.GetContext(ctx, &some, query, engine.At(hourOf(since)), queue, jobType); err != nil {
		return false, false, fmt.Errorf("find out whether jobs of %s/%s were started: %w", queue, jobType, err)
	}
	last, err := m.LastComplete(ctx)
	if err != nil {
		return false, false, err
	}
	taken, err := m.taken(ctx, hourOf(since), last.Add(time.Hour))
	return some, len(taken) >= int(last.Add(time.Hour).Sub(hourOf(since))/time.Hour), err
}
