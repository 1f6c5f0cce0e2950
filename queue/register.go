package queue

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/shards"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// queueRecord is a registered queue as its table has it.
type queueRecord struct {
	Queue         string
	ThrottleLimit int
	KeepFinished  int64
	KeepFailed    int64
	Settings      string
	// Division is the number of how it is divided.
	Division int
}

// scanQueue reads a registered queue's row.
func scanQueue(row *sql.Rows) (r queueRecord, err error) {
	err = row.Scan(&r.Queue, &r.ThrottleLimit, &r.KeepFinished, &r.KeepFailed, &r.Settings, &r.Division)
	return r, err
}

const queueColumns = "queue, throttle_limit, keep_finished, keep_failed, settings, division"

// settings are what the commands without a queue's config need to know besides.
type settings struct {
	ThrottleGroups   *job.ThrottleGroups `json:"throttle_groups,omitempty"`
	RefuseWeightless bool                `json:"refuse_weightless,omitempty"`
	Rate             *job.Rate           `json:"rate,omitempty"`
	Concurrency      int                 `json:"concurrency,omitempty"`
	Order            job.Order           `json:"order,omitempty"`
	PriorityOrder    job.PriorityOrder   `json:"priority_order,omitempty"`
	DefaultPriority  *int                `json:"default_priority,omitempty"`
	DefaultTimeout   int64               `json:"default_timeout,omitempty"`
	DefaultRetry     *retrySettings      `json:"default_retry,omitempty"`
	StrictTypes      bool                `json:"strict_types,omitempty"`
	// Zone is for the stored procedures: see zoneChanges.
	Zone [][2]int64 `json:"zone,omitempty"`
}

func (o Options) record() (queueRecord, error) {
	s := settings{
		ThrottleGroups: o.ThrottleGroups, RefuseWeightless: o.RefuseWeightless, Concurrency: o.Concurrency, Order: o.Order,
		PriorityOrder: o.PriorityOrder, DefaultPriority: o.DefaultPriority, DefaultTimeout: int64(o.DefaultTimeout / time.Second),
		StrictTypes: o.StrictTypes, Zone: zoneChanges(o.Location, time.Now().UTC().Year()),
	}
	if o.Rate.Starts > 0 {
		s.Rate = &o.Rate
	}
	if o.DefaultRetry != nil {
		s.DefaultRetry = new(retrySettingsOf(*o.DefaultRetry))
	}
	text, err := json.Marshal(s) // a map's keys are sorted in it: the same settings are the same text
	if err != nil {
		return queueRecord{}, fmt.Errorf("write down the settings of %s: %w", o.Name, err)
	}
	return queueRecord{
		o.Name, o.ThrottleLimit, int64(max(0, o.KeepFinished) / time.Second), int64(max(0, o.KeepFailed) / time.Second), string(text),
		o.division().Number(),
	}, nil
}

// options gives what a row says, which is an error if no config could have said it.
func (r queueRecord) options() (Options, error) {
	var s settings
	if r.Settings != job.None {
		if err := json.Unmarshal([]byte(r.Settings), &s); err != nil {
			return Options{}, fmt.Errorf("settings: %w", err)
		}
	}
	o := Options{
		Name: r.Queue, ThrottleLimit: r.ThrottleLimit, ThrottleGroups: s.ThrottleGroups, RefuseWeightless: s.RefuseWeightless, Shards: shards.N(r.Division),
		Concurrency: s.Concurrency, Order: s.Order, PriorityOrder: s.PriorityOrder, DefaultPriority: s.DefaultPriority,
		DefaultTimeout: seconds(s.DefaultTimeout), KeepFinished: kept(r.KeepFinished), KeepFailed: kept(r.KeepFailed), StrictTypes: s.StrictTypes,
	}
	if s.Rate != nil {
		o.Rate = *s.Rate
	}
	if s.DefaultRetry != nil {
		o.DefaultRetry = new(s.DefaultRetry.policy())
	}
	if r.Division < 1 || o.Shards < 1 {
		return Options{}, fmt.Errorf("the division %d is none", r.Division)
	}
	if err := o.check(); err != nil {
		return Options{}, err
	}
	return o, nil
}

// seconds are those of a table, as far as they can be a time; beyond that, they are something that no config could have.
func seconds(n int64) time.Duration {
	return time.Duration(min(max(n, -1), job.MaxSeconds+1)) * time.Second
}

func kept(n int64) time.Duration {
	if n == 0 {
		return DiscardAtOnce
	}
	return seconds(n)
}

// registeredOptions are the queue's, as they are registered; the zero Options if nothing is registered that a config could have said.
func (q *Queue) registeredOptions(ctx context.Context, from engine.Reader) (o Options, err error) {
	query := "SELECT " + queueColumns + " FROM " + q.db.Queues() + " WHERE queue = ?"
	err = engine.ReadOn(ctx, from, engine.Query{SQL: query, Args: []any{q.Name}, Scan: engine.EachRow(func(row *sql.Rows) error {
		r, err := scanQueue(row)
		if said, flaw := r.options(); err == nil && flaw == nil { // else Registered warns of it
			o = said
		}
		return err
	})})
	if err != nil {
		return Options{}, fmt.Errorf("read the registration of %s: %w", q.Name, err)
	}
	return o, nil
}

// Register records the queue and the configured types in the database, for the commands and the applications that have
// no config of this queue. It writes only what has changed, rows that can't be read among it, and may be repeated. Workers do it
// when they begin. ErrShards if the database's queue is divided otherwise, which Reshard changes: then it writes nothing.
func (q *Queue) Register(ctx context.Context) error {
	want, err := q.record()
	if err != nil {
		return err
	}
	var there queueRecord
	var rows []shardRow
	known := map[string]typeRecord{}
	// an idle tick does this and not much besides
	err = q.db.Read(ctx, engine.Query{
		SQL: "SELECT " + queueColumns + " FROM " + q.db.Queues() + " WHERE queue = ?", Args: []any{q.Name},
		Scan: engine.EachRow(func(row *sql.Rows) (err error) {
			there, err = scanQueue(row)
			return err
		}),
	}, q.shardRows(time.Time{}, func(s shardRow) { rows = append(rows, s) }), q.typesQuery(known))
	if err != nil {
		return fmt.Errorf("read the registration of %s: %w", q.Name, err)
	}
	var changed []job.Type
	for name, t := range q.configured {
		if known[name] != recordOf(t) {
			changed = append(changed, t)
		}
	}
	if there == want && len(changed) == 0 && q.areSound(rows) {
		return nil
	}
	err = q.db.Tx(ctx, func(tx *engine.Tx) error {
		columns := []string{"throttle_limit", "keep_finished", "keep_failed", "settings"}
		values := []any{want.ThrottleLimit, want.KeepFinished, want.KeepFailed, want.Settings}
		number, err := q.divisionOf(ctx, tx)
		if err != nil {
			return err
		}
		if number < 1 { // it isn't registered, or a hand has written something else there
			columns, values = append(columns, "division"), append(values, want.Division)
		}
		if err := tx.Upsert(ctx, q.db.Queues(), []string{"queue"}, []any{q.Name}, columns, values); err != nil {
			return err
		}
		// its row is ours now: nobody divides the queue otherwise before this is committed
		if number, err = q.divisionOf(ctx, tx); err != nil {
			return err
		}
		if number != want.Division {
			return q.otherwiseDivided(number)
		}
		for _, t := range changed {
			if err := q.saveType(ctx, tx, t); err != nil {
				return err
			}
		}
		// at once, for a job that weighs more than the limit goes by what is registered
		return q.makeShards(ctx, tx)
	})
	if errors.Is(err, ErrShards) {
		return err // who leaves the queue out for that names it
	}
	if err != nil {
		return fmt.Errorf("register queue %s: %w", q.Name, err)
	}
	q.known.Store(nil) // it has changed
	return nil
}

// Registered gives all queues of the instance as the database has them, whoever's config they are in, by name. Their types
// are not among the options. A row that can't be a queue's counts for nothing, and the database's Warn is told of it; whether
// a queue's table can be used is not looked at.
func Registered(ctx context.Context, db *schema.DB) ([]Options, error) {
	var all []Options
	query := "SELECT " + queueColumns + " FROM " + db.Queues() + " WHERE queue <> 'NONE' ORDER BY queue"
	err := db.Read(ctx, engine.Query{SQL: query, Scan: engine.EachRow(func(row *sql.Rows) error {
		r, err := scanQueue(row)
		if err != nil {
			return err
		}
		_, flaw := db.CheckQueue(r.Queue)
		var o Options
		if flaw == nil {
			o, flaw = r.options()
		}
		if flaw == nil {
			all = append(all, o)
			return nil
		}
		db.Warn(fmt.Errorf("a row of %s, queue %.60q, counts for nothing: %.200v; "+
			"delete it, or run hipq init with a config that has the queue", db.Queues(), r.Queue, flaw))
		return nil
	})})
	if err != nil {
		return nil, fmt.Errorf("list the queues: %w", err)
	}
	return all, nil
}
