package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/schema"
)

// A queue whose table is not that of this hipq, or has gone while the worker runs, or an index of it, is left out: the worker
// looks there no more, and starts nothing of it. Its jobs that run come to their end, and are settled if that can be; else they
// are lost. The other queues are worked as ever, and at the end the worker's error says what was left out.

// leftOut says whether err means that a source's queue has lost its table, or has been divided otherwise, and leaves the queue out if
// so.
func (d *dispatcher) leftOut(s *source, err error) bool {
	if err == nil || !d.db.Lacks(err, s.Name) && !errors.Is(err, queue.ErrShards) {
		return false
	}
	d.leaveOut(s.Name, err)
	return true
}

// leaveOut leaves a queue out, for that reason.
func (d *dispatcher) leaveOut(name string, err error) {
	for _, o := range d.sources {
		if o.Name != name {
			continue
		}
		if o.gone == nil {
			d.Log.Warn("a queue is left out", "queue", o.Name, "error", err)
			o.gone = err
		}
		o.nothing()
		o.failing, o.unseen, o.undecided, o.untaken = false, false, nil, nil
		unanswered := o.unanswered
		o.unanswered = nil
		for _, r := range unanswered {
			d.drop(o, r)
		}
	}
}

// checkTables makes sure, before the worker does anything, that the tables are those of this hipq. Queues whose tables are not
// are left out; if there is no other, that is the error.
func (d *dispatcher) checkTables(ctx context.Context) error {
	tables := make([]schema.Queue, len(d.Queues))
	for i, q := range d.Queues {
		tables[i] = q.Table()
	}
	err := d.db.CheckOnce(ctx, tables)
	unfit, ok := errors.AsType[schema.QueueErrors](err)
	if !ok {
		return err
	}
	for name, err := range unfit {
		d.leaveOut(name, err)
	}
	return nil
}

// drop gives up a round of a source that is left out. What it was to settle is tried once more without anything else, which
// needs no index.
func (d *dispatcher) drop(s *source, r round) {
	d.reserve(s, -r.reserved)
	switch {
	case len(r.Settle) == 0:
	case r.Slots > 0:
		d.settleApart(s, r.Settle)
	default:
		d.summary.Lost += len(r.Settle)
		d.Log.Warn("attempts can't be settled: their queue is left out", "queue", s.Name, "attempts", len(r.Settle))
	}
}

// isLeftOut says that a queue is left out.
func (d *dispatcher) isLeftOut(name string) bool {
	return slices.ContainsFunc(d.sources, func(s *source) bool { return s.Name == name && s.gone != nil })
}

// allLeftOut says that there is no queue any more.
func (d *dispatcher) allLeftOut() bool {
	return !slices.ContainsFunc(d.sources, func(s *source) bool { return s.gone == nil })
}

// withLeftOut is the worker's error, and behind it which queues were left out.
func (d *dispatcher) withLeftOut(err error) error {
	told := map[string]bool{}
	for _, s := range d.sources {
		if s.gone != nil && !told[s.Name] {
			told[s.Name] = true
			err = errors.Join(err, fmt.Errorf("queue %s is left out: %w", s.Name, s.gone))
		}
	}
	return err
}
