package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

type queueRecord struct {
	Queue         string
	ThrottleLimit int
	KeepFinished  int64
	KeepFailed    int64
	Settings      string
	// Division is the number of the queue's division.
	Division int
}

// settings are the other registered options of a queue, as JSON.
type settings struct {
	Options
	// Zone is for the stored procedures: see zoneChanges.
	Zone [][2]int64 `json:"zone,omitempty"`
}

func (o Options) record(year int) queueRecord {
	// Checked options always marshal. Map keys are sorted, so equal settings give equal texts.
	text, _ := json.Marshal(settings{o, zoneChanges(o.Location, year)})
	return queueRecord{
		o.Name, o.ThrottleLimit, int64(max(0, o.KeepFinished) / time.Second), int64(max(0, o.KeepFailed) / time.Second), string(text),
		o.division().Number(),
	}
}

// options returns what a row says, or an error if no config could have written it.
func (r queueRecord) options(db *schema.DB) (Options, error) {
	var s settings
	if _, err := db.CheckQueue(r.Queue); err != nil {
		return Options{}, err
	}
	if r.Settings != job.None {
		if err := json.Unmarshal([]byte(r.Settings), &s); err != nil {
			return Options{}, fmt.Errorf("settings: %w", err)
		}
	}
	o := s.Options
	o.Name, o.ThrottleLimit, o.Shards = r.Queue, r.ThrottleLimit, policy.ShardsIn(r.Division)
	o.KeepFinished = cmp.Or(time.Duration(r.KeepFinished)*time.Second, DiscardAtOnce)
	o.KeepFailed = cmp.Or(time.Duration(r.KeepFailed)*time.Second, DiscardAtOnce)
	if o.Shards < 1 {
		return Options{}, fmt.Errorf("the division %d is not valid", r.Division)
	}
	return o, o.check()
}

// registeredOptions returns the registered options; zero if no config could have written them. It runs the other queries too.
func (q *Queue) registeredOptions(ctx context.Context, from engine.Reader, others ...engine.Query) (o Options, err error) {
	own := registrations(q.db, "= ?", []any{q.Name}, func(r queueRecord) {
		if registered, flaw := r.options(q.db); flaw == nil { // Registered warns about a flaw
			o = registered
		}
	})
	err = engine.ReadOn(ctx, from, append([]engine.Query{own}, others...)...)
	return o, texts.Wrap(err, "read the registration of %s", q.Name)
}

func registrations(db *schema.DB, which string, args []any, f func(queueRecord)) engine.Query {
	query := "SELECT queue, throttle_limit, keep_finished, keep_failed, settings, division FROM " + db.Queues() + " WHERE queue " + which
	var r queueRecord
	into := []any{&r.Queue, &r.ThrottleLimit, &r.KeepFinished, &r.KeepFailed, &r.Settings, &r.Division}
	return engine.Query{SQL: query, Args: args, Scan: engine.Into(func() { f(r) }, into...)}
}

// Register stores the queue and the configured types in the database, for commands and applications without the queue's
// config. Workers call it when they start. It writes only what changed or is unreadable, deletes types that have left this config,
// and may be repeated. If the registered division or limits differ, it writes nothing and fails with ErrShards or ErrLimits.
func (q *Queue) Register(ctx context.Context) error { return q.register(ctx, false) }

// register also applies the limits if reshard.
func (q *Queue) register(ctx context.Context, reshard bool) error {
	var now engine.Time
	var there queueRecord
	var rows []ShardRow
	known := map[string]typeRecord{}
	// an idle tick does little more than this
	err := q.db.SQL.Read(ctx, engine.Values(engine.Value{SQL: q.db.SQL.TimeText(q.db.SQL.NowSQL), Into: &now}),
		registrations(q.db, "= ?", []any{q.Name}, func(r queueRecord) { there = r }), q.ShardRows(&rows), q.typesQuery(known))
	if err != nil {
		return fmt.Errorf("read the registration of %s: %w", q.Name, err)
	}
	want := q.record(now.Year()) // by the database's clock, because hosts' clocks may differ
	changed, gone := q.unregistered(known)
	if there == want && len(changed) == 0 && len(gone) == 0 && q.shards().areSound(rows) {
		return nil
	}
	if there.Division > 0 && !reshard {
		if err := q.otherwise(there); err != nil {
			return err // the caller that skips the queue names it
		}
	}
	if old, flaw := there.options(q.db); flaw == nil && !reflect.DeepEqual(old.ThrottleGroups, q.ThrottleGroups) {
		// under the new limits, other jobs wait
		for more := true; more && err == nil; {
			more, err = q.makeAvailable(ctx, job.StatusThrottled, q.ClaimIndex()+" WHERE status = 'throttled'")
		}
		if err != nil {
			return fmt.Errorf("register queue %s: %w", q.Name, err)
		}
	}
	err = q.db.SQL.Tx(ctx, func(tx *engine.Tx) error {
		if there.Queue == "" { // 0: not registered yet, unless another worker was faster
			_, err := tx.ExecContext(ctx, "INSERT INTO "+q.db.Queues()+" (queue, division) VALUES (?, 0)", q.Name)
			if err != nil && !engine.IsDuplicate(err) {
				return err
			}
		}
		// The lock keeps others from registering the queue before this commits.
		var locked queueRecord
		if err := tx.Read(ctx, registrations(q.db, "= ? "+q.db.SQL.ForUpdate, []any{q.Name}, func(r queueRecord) { locked = r })); err != nil {
			return err
		}
		// a division below 1 is unregistered, or overwritten by hand
		if err := q.otherwise(locked); locked.Division > 0 && err != nil && (!reshard || !errors.Is(err, ErrLimits)) {
			return err
		}
		err := tx.Write(ctx, "UPDATE "+q.db.Queues()+" SET throttle_limit = ?, keep_finished = ?, keep_failed = ?, settings = ?,"+
			" division = CASE WHEN division < 1 THEN ? ELSE division END WHERE queue = ?",
			want.ThrottleLimit, want.KeepFinished, want.KeepFailed, want.Settings, want.Division, q.Name)
		if err != nil {
			return err
		}
		for _, r := range changed {
			err := tx.Upsert(ctx, q.db.JobTypes(), 2,
				[]string{"queue", "job_type", "timeout", "priority", "throttle_factor", "time_windows", "settings"},
				[]any{q.Name, r.Type, r.Timeout, r.Priority, r.ThrottleFactor, r.Windows, r.Settings})
			if err != nil {
				return err
			}
		}
		if len(gone) > 0 {
			err := tx.Write(ctx, "DELETE FROM "+q.db.JobTypes()+" WHERE queue = ? AND job_type IN "+engine.In(len(gone)), append([]any{q.Name}, gone...)...)
			if err != nil {
				return err
			}
		}
		// At once, because a job heavier than the limit goes by the registered limit.
		return q.shards().makeShards(ctx, tx)
	})
	q.known.Store(nil) // it may have changed
	if errors.Is(err, ErrShards) {
		return err // the caller that skips the queue names it
	}
	return texts.Wrap(err, "register queue %s", q.Name)
}

// Registered returns all registered queues, by name, without their types. It skips invalid rows with a warning through the
// database's Warn. It doesn't check the queues' tables.
func Registered(ctx context.Context, db *schema.DB) ([]Options, error) {
	var all []Options
	err := db.SQL.Read(ctx, registrations(db, "<> 'NONE' ORDER BY queue", nil, func(r queueRecord) {
		o, flaw := r.options(db)
		if flaw == nil {
			all = append(all, o)
			return
		}
		db.Warn(fmt.Errorf("a row of %s (queue %.60q) is ignored: %.200v; "+
			"delete it, or run hipq init with a config that has the queue", db.Queues(), r.Queue, flaw))
	}))
	return all, texts.Wrap(err, "list the queues")
}

// zoneChanges lists the changes of a zone's clock in three years: each a time and the offset from then on, in seconds. The
// first is the initial offset. Nil means UTC. So registrations change once a year, and UTC's never.
func zoneChanges(zone *time.Location, year int) [][2]int64 {
	at, end := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(year+3, 1, 1, 0, 0, 0, 0, time.UTC)
	list := job.ZoneChanges(at.In(zone), end)
	if len(list) == 1 && list[0][1] == 0 {
		return nil
	}
	return list
}
