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

// jobs is the table of a queue.
type jobs struct {
	queue, table string
	// claim makes a query use the claim index.
	claim string
}

// queues returns the registered queues. It warns about invalid names and leaves them out.
func (m *Monitor) queues(ctx context.Context) (all []jobs, err error) {
	var found []string
	query := "SELECT SUBSTR(queue, 1, 100) FROM " + m.db.Queues() + " WHERE queue <> 'NONE' ORDER BY queue"
	if err := m.db.SQL.SelectContext(ctx, &found, query); err != nil {
		return nil, fmt.Errorf("find the queues: %w", err)
	}
	for _, name := range found {
		table, err := m.db.CheckQueue(name)
		if err != nil {
			m.db.Warn(fmt.Errorf("a row of %s is ignored: %w; delete it", m.db.Queues(), err))
			continue
		}
		all = append(all, jobs{name, table, m.db.SQL.Index(table, schema.ClaimIndex)})
	}
	return all, nil
}

// usable returns the registered queues that have a table of their own.
func (m *Monitor) usable(ctx context.Context) ([]jobs, error) {
	all, err := m.queues(ctx)
	if err != nil {
		return nil, err
	}
	err = m.db.Check(ctx, texts.Map(all, func(q jobs) schema.Queue { return schema.Queue{Name: q.queue, Order: schema.OrderAny} }))
	unfit, ok := errors.AsType[schema.QueueErrors](err)
	if err != nil && !ok {
		return nil, err
	}
	return slices.DeleteFunc(all, func(q jobs) bool {
		err := unfit[q.queue]
		if err != nil {
			m.db.Warn(fmt.Errorf("queue %s is not measured: %w", q.queue, err))
		}
		return err != nil
	}), nil
}
