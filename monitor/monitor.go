// Package monitor aggregates each hour of activity into metrics, once, makes reports of them, and judges how an instance is.
package monitor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/schema"
)

// Errors that callers test for.
var (
	// ErrIncomplete: the hour isn't over, or not for long enough.
	ErrIncomplete = errors.New("hour not complete yet")
	// ErrPurged: an hour can't be recounted because activity of it has been purged.
	ErrPurged = errors.New("activity of the hour has been purged")
)

// Monitor counts the activity of one instance. It is safe for concurrent use, on many hosts at once.
type Monitor struct{ db *schema.DB }

// New is the monitor of db's instance.
func New(db *schema.DB) *Monitor { return &Monitor{db: db} }

// queues are the names of the registered queues. A name that no queue can have is left out with a warning.
func (m *Monitor) queues(ctx context.Context) (names []string, err error) {
	var found []string
	query := "SELECT SUBSTR(queue, 1, 100) FROM " + m.db.Queues() + " WHERE queue <> 'NONE' ORDER BY queue"
	if err := m.db.SQL.SelectContext(ctx, &found, query); err != nil {
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

// usable are the registered queues that have a table of their own.
func (m *Monitor) usable(ctx context.Context) ([]schema.Queue, error) {
	names, err := m.queues(ctx)
	if err != nil {
		return nil, err
	}
	queues := texts.Map(names, func(name string) schema.Queue { return schema.Queue{Name: name, Order: schema.OrderAny} })
	err = m.db.Check(ctx, queues)
	unfit, ok := errors.AsType[schema.QueueErrors](err)
	if err != nil && !ok {
		return nil, err
	}
	for _, name := range names {
		if err := unfit[name]; err != nil {
			m.db.Warn(fmt.Errorf("queue %s is not measured: %w", name, err))
		}
	}
	return slices.DeleteFunc(queues, func(q schema.Queue) bool { return unfit[q.Name] != nil }), nil
}
