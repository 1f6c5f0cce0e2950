// Package monitor aggregates each hour of activity into metrics, reports on them, and judges the health of an instance.
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
	// ErrIncomplete: the hour has not ended, or ended less than 5 min ago.
	ErrIncomplete = errors.New("hour not complete yet")
	// ErrPurged: the hour can't be recounted because some of its activity was purged.
	ErrPurged = errors.New("activity of the hour has been purged")
)

// Monitor counts the activity of one instance. It is safe for concurrent use, also on several hosts.
type Monitor struct{ db *schema.DB }

// New returns the monitor of db's instance.
func New(db *schema.DB) *Monitor { return &Monitor{db: db} }

// queues returns the names of the registered queues. It warns about invalid names and leaves them out.
func (m *Monitor) queues(ctx context.Context) (names []string, err error) {
	var found []string
	query := "SELECT SUBSTR(queue, 1, 100) FROM " + m.db.Queues() + " WHERE queue <> 'NONE' ORDER BY queue"
	if err := m.db.SQL.SelectContext(ctx, &found, query); err != nil {
		return nil, fmt.Errorf("find the queues: %w", err)
	}
	for _, name := range found {
		if _, err := m.db.CheckQueue(name); err != nil {
			m.db.Warn(fmt.Errorf("a row of %s is ignored: %w; delete it", m.db.Queues(), err))
			continue
		}
		names = append(names, name)
	}
	return names, nil
}

// usable returns the registered queues that have a table of their own.
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
