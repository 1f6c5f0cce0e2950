package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// queueRecord is a registered queue as its table has it.
type queueRecord struct {
	Queue         string
	ThrottleLimit int   `db:"throttle_limit"`
	KeepFinished  int64 `db:"keep_finished"`
	KeepFailed    int64 `db:"keep_failed"`
	Settings      string
}

const queueColumns = "queue, throttle_limit, keep_finished, keep_failed, settings"

// settings are what the commands without a queue's config need to know besides.
type settings struct {
	ThrottleGroups  *job.ThrottleGroups `json:"throttle_groups,omitempty"`
	Rate            *job.Rate           `json:"rate,omitempty"`
	Concurrency     int                 `json:"concurrency,omitempty"`
	Order           job.Order           `json:"order,omitempty"`
	PriorityOrder   job.PriorityOrder   `json:"priority_order,omitempty"`
	DefaultPriority *int                `json:"default_priority,omitempty"`
}

func (o Options) record() (queueRecord, error) {
	s := settings{
		ThrottleGroups: o.ThrottleGroups, Concurrency: o.Concurrency, Order: o.Order, PriorityOrder: o.PriorityOrder,
		DefaultPriority: o.DefaultPriority,
	}
	if o.Rate.Starts > 0 {
		s.Rate = &o.Rate
	}
	text, err := json.Marshal(s) // a map's keys are sorted in it: the same settings are the same text
	if err != nil {
		return queueRecord{}, fmt.Errorf("write down the settings of %s: %w", o.Name, err)
	}
	return queueRecord{
		o.Name, o.ThrottleLimit, int64(max(0, o.KeepFinished) / time.Second), int64(max(0, o.KeepFailed) / time.Second), string(text),
	}, nil
}

func (r queueRecord) options() (Options, error) {
	var s settings
	if r.Settings != job.None {
		if err := json.Unmarshal([]byte(r.Settings), &s); err != nil {
			return Options{}, fmt.Errorf("read the settings of %s: %w", r.Queue, err)
		}
	}
	o := Options{
		Name: r.Queue, ThrottleLimit: r.ThrottleLimit, ThrottleGroups: s.ThrottleGroups, Concurrency: s.Concurrency,
		Order: s.Order, PriorityOrder: s.PriorityOrder, DefaultPriority: s.DefaultPriority,
		KeepFinished: kept(r.KeepFinished), KeepFailed: kept(r.KeepFailed),
	}
	if s.Rate != nil {
		o.Rate = *s.Rate
	}
	return o, nil
}

func kept(seconds int64) time.Duration {
	if seconds == 0 {
		return DiscardAtOnce
	}
	return time.Duration(seconds) * time.Second
}

// Register records the queue and the configured types in the database, for the commands and the applications that have
// no config of this queue. It writes only what has changed, and may be repeated. Workers do it when they begin.
func (q *Queue) Register(ctx context.Context) error {
	want, err := q.record()
	if err != nil {
		return err
	}
	var there []queueRecord
	if err := q.db.SelectContext(ctx, &there, "SELECT "+queueColumns+" FROM "+q.db.Queues()+" WHERE queue = ?", q.Name); err != nil {
		return fmt.Errorf("read the registration of %s: %w", q.Name, err)
	}
	known, err := q.loadTypes(ctx)
	if err != nil {
		return err
	}
	var changed []job.Type
	for name, t := range q.configured {
		if known[name] != recordOf(t) {
			changed = append(changed, t)
		}
	}
	if len(there) == 1 && there[0] == want && len(changed) == 0 {
		return nil
	}
	err = q.db.Tx(ctx, func(tx *schema.Tx) error {
		err := tx.Upsert(ctx, q.db.Queues(), []string{"queue"}, []any{q.Name}, []string{"throttle_limit", "keep_finished", "keep_failed", "settings"},
			[]any{want.ThrottleLimit, want.KeepFinished, want.KeepFailed, want.Settings})
		if err != nil {
			return err
		}
		for _, t := range changed {
			if err := q.saveType(ctx, tx, t); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("register queue %s: %w", q.Name, err)
	}
	return nil
}

// Registered gives all queues of the instance as the database has them, whoever's config they are in. Their types are
// not among the options.
func Registered(ctx context.Context, db *schema.DB) ([]Options, error) {
	var rows []queueRecord
	if err := db.SelectContext(ctx, &rows, "SELECT "+queueColumns+" FROM "+db.Queues()+" WHERE queue <> 'NONE' ORDER BY queue"); err != nil {
		return nil, fmt.Errorf("list the queues: %w", err)
	}
	all := make([]Options, len(rows))
	for i, r := range rows {
		var err error
		if all[i], err = r.options(); err != nil {
			return nil, err
		}
	}
	return all, nil
}
