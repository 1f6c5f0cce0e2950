package queue

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

// typeRecord is a registered job type as its table has it.
type typeRecord struct {
	Type           string
	Timeout        int64
	Priority       int
	ThrottleFactor int
	Windows        string
	Settings       string
}

// typeColumns are those of a typeRecord, with the most bytes that each may have.
var typeColumns = columnsOf(
	bounded{"job_type", job.MaxTypeBytes}, bounded{"timeout", 24}, bounded{"priority", 24}, bounded{"throttle_factor", 24},
	bounded{"time_windows", 1 << 16}, bounded{"settings", 1 << 16},
)

func recordOf(t job.Type) typeRecord {
	return typeRecord{t.Name, int64(t.Timeout / time.Second), t.Priority, t.ThrottleFactor, t.Windows.Encode(), encodeTypeSettings(t)}
}

// jobType gives the type that a row says, which is an error if its jobs could not be.
func (r typeRecord) jobType() (job.Type, error) {
	if r.Timeout < 1 || r.Timeout > job.MaxSeconds {
		return job.Type{}, fmt.Errorf("timeout %d is not a number of seconds from 1 to %d", r.Timeout, job.MaxSeconds)
	}
	t := job.DefaultType(r.Type)
	t.Timeout, t.Priority, t.ThrottleFactor = time.Duration(r.Timeout)*time.Second, r.Priority, r.ThrottleFactor
	err := job.New{Type: t.Name, Timeout: t.Timeout, Priority: &t.Priority, ThrottleFactor: &t.ThrottleFactor}.Check()
	if err == nil {
		t.Windows, err = job.DecodeWindows(r.Windows)
	}
	var s typeSettings
	if json.Unmarshal([]byte(r.Settings), &s) == nil && s.policy().Check() == nil {
		t.Retry, t.Async, t.RetryHandler = s.policy(), s.Async, s.RetryHandler
	}
	return t, err
}

// registeredType is a row of a job type, empty if it counts for nothing, and the type that it says.
type registeredType struct {
	record typeRecord
	says   job.Type
}

// readTypes reads the registered types of a condition, besides that of the queue. What a row says that can't be a type's counts
// for nothing: at most its name is left, with what holds where nothing is said. The database's Warn is told of it, unless the
// config has the type: then its row is about to be mended.
func (q *Queue) readTypes(ctx context.Context, from engine.Reader, which string, args ...any) (list []registeredType, err error) {
	query := "SELECT " + typeColumns.list + " FROM " + q.db.JobTypes() + " WHERE queue = ? " + which
	err = readRows(ctx, from, query, append([]any{q.Name}, args...), func(row []any) {
		c := cells{columns: typeColumns, row: row, noBytes: q.db.AnyBytes}
		name := c.text(0)
		named := c.flaw == nil && job.CheckType(name) == nil
		r := typeRecord{name, c.number(1), int(c.number(2)), int(c.number(3)), c.text(4), c.text(5)}
		t, flaw := job.Type{}, c.flaw
		if flaw == nil {
			t, flaw = r.jobType()
		}
		if flaw == nil && q.RefuseWeightless && t.ThrottleFactor == 0 {
			flaw = job.ErrWeightless
		}
		if flaw == nil {
			list = append(list, registeredType{r, t})
			return
		}
		if named {
			list = append(list, registeredType{says: q.defaultType(name)})
		}
		if _, mended := q.configured[name]; !mended || !named {
			q.db.Warn(fmt.Errorf("a row of %s, queue %s, job type %.60q, counts for nothing: %w; "+
				"delete it, or run hipq init with a config that has the job type", q.db.JobTypes(), q.Name, name, flaw))
		}
	})
	if err != nil {
		return nil, fmt.Errorf("read the job types of %s: %w", q.Name, err)
	}
	return list, nil
}

// loadTypes reads the registered types, and remembers them.
func (q *Queue) loadTypes(ctx context.Context) (map[string]typeRecord, error) {
	list, err := q.readTypes(ctx, q.db, "")
	if err != nil {
		return nil, err
	}
	records, types := map[string]typeRecord{}, map[string]job.Type{}
	for _, r := range list {
		records[r.says.Name], types[r.says.Name] = r.record, r.says
	}
	q.known.add(types)
	return records, nil
}

func (q *Queue) saveType(ctx context.Context, tx *engine.Tx, t job.Type) error {
	r := recordOf(t)
	err := tx.Upsert(ctx, q.db.JobTypes(), []string{"queue", "job_type"}, []any{q.Name, r.Type},
		[]string{"timeout", "priority", "throttle_factor", "time_windows", "settings"},
		[]any{r.Timeout, r.Priority, r.ThrottleFactor, r.Windows, r.Settings})
	if err != nil {
		return fmt.Errorf("register job type %s of %s: %w", t.Name, q.Name, err)
	}
	return nil
}

// typesIn are a queue's job types in a transaction.
type typesIn struct {
	q  *Queue
	tx *engine.Tx
	// app is the transaction if it is an application's; nil is one of hipq's own.
	app *sql.Tx
	// seen are those that it has read or registered: to be remembered when it has committed, for it may yet be rolled back.
	seen map[string]job.Type
}

func (q *Queue) typesIn(tx *engine.Tx) typesIn {
	return typesIn{q: q, tx: tx, seen: map[string]job.Type{}}
}

// get gives the defaults of a type: the config's, else those in the database, where a type that nobody knew yet is
// registered by this, in the caller's transaction: another one might wait for it for ever.
func (in typesIn) get(ctx context.Context, name string) (t job.Type, err error) {
	if t, ok := in.q.configured[name]; ok {
		return t, nil
	}
	if t, ok := in.q.known.get(name); ok {
		return t, nil
	}
	t, ok := in.seen[name]
	if ok {
		return t, nil
	}
	if t, ok, err = in.read(ctx, name, ""); err != nil {
		return job.Type{}, err
	}
	switch {
	case !ok:
		if t, err = in.add(ctx, name); err != nil {
			return job.Type{}, err
		}
		if in.app != nil {
			in.q.known.registered(name, in.app)
		}
	case in.app != nil:
		in.q.known.addRead(t, in.app)
	}
	in.seen[name] = t
	return t, nil
}

func (in typesIn) read(ctx context.Context, name, lock string) (t job.Type, found bool, err error) {
	list, err := in.q.readTypes(ctx, in.tx, "AND job_type = ? "+lock, name)
	if err != nil || len(list) == 0 {
		return job.Type{}, false, err
	}
	return list[0].says, true, nil
}

// add registers a type. One that is there all the same stays as it is: an application's transaction may have begun before it
// was registered, and see the database as it was then.
func (in typesIn) add(ctx context.Context, name string) (job.Type, error) {
	o, err := in.q.withRegistered(ctx, in.tx)
	if err != nil {
		return job.Type{}, err
	}
	in.q.known.divided(o.division())
	t := o.defaultType(name)
	r := recordOf(t)
	_, err = in.tx.ExecContext(ctx, "INSERT INTO "+in.q.db.JobTypes()+" (queue, job_type, timeout, priority, throttle_factor, time_windows)"+
		" VALUES (?, ?, ?, ?, ?, ?)", in.q.Name, r.Type, r.Timeout, r.Priority, r.ThrottleFactor, r.Windows)
	if engine.IsDuplicate(err) {
		if there, ok, err := in.read(ctx, name, in.q.db.ForShare); ok || err != nil {
			return there, err
		}
	}
	if err != nil {
		return t, fmt.Errorf("register job type %s of %s: %w", name, in.q.Name, err)
	}
	return t, nil
}

// TypeNames gives the names of all job types that the queue has had, or has in the config.
func (q *Queue) TypeNames(ctx context.Context) ([]string, error) {
	known, err := q.loadTypes(ctx)
	if err != nil {
		return nil, err
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(known)), maps.Keys(q.configured))
	slices.Sort(names)
	return slices.Compact(names), nil
}
