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

// jobs is a queue with its table.
type jobs struct {
	queue, table string
	// claim makes a query use the claim index.
	claim  string
	shards []queueShard // at least one
}

// queueShard is a queue joined with one of its shards. An undivided queue has one, with place 0.
type queueShard struct {
	Queue    string
	Paused   bool
	Division int
	Limit    int64 `db:"throttle_limit"`
	Place    int   `db:"shard"`
	Share    int64
}

// queues returns the registered queues, read in one query. It warns about invalid names and leaves them out.
func (m *Monitor) queues(ctx context.Context) (all []jobs, err error) {
	var found []queueShard
	query := "SELECT SUBSTR(q.queue, 1, 100) AS queue, q.paused <> 0 AS paused, q.division, CAST(q.throttle_limit AS SIGNED INTEGER) AS throttle_limit," +
		" COALESCE(s.shard, 0) AS shard, CAST(COALESCE(s.share, 0) AS SIGNED INTEGER) AS share FROM " + m.db.Queues() +
		" q LEFT JOIN " + m.db.Shards() + " s ON s.queue = q.queue WHERE q.queue <> 'NONE' ORDER BY q.queue"
	if err := m.db.SQL.SelectContext(ctx, &found, query); err != nil {
		return nil, fmt.Errorf("find the queues: %w", err)
	}
	for _, s := range found {
		if last := len(all) - 1; last >= 0 && all[last].queue == s.Queue {
			all[last].shards = append(all[last].shards, s)
			continue
		}
		table, err := m.db.CheckQueue(s.Queue)
		if err != nil {
			m.db.Warn(fmt.Errorf("a row of %s is ignored: %w; delete it", m.db.Queues(), err))
			continue
		}
		all = append(all, jobs{s.Queue, table, m.db.SQL.Index(table, schema.ClaimIndex), []queueShard{s}})
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
