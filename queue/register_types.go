package queue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// typeRecord is a registered job type as its table has it.
type typeRecord struct {
	Type           string `db:"job_type"`
	Timeout        int64
	Priority       int
	ThrottleFactor int    `db:"throttle_factor"`
	Windows        string `db:"time_windows"`
}

func recordOf(t job.Type) typeRecord {
	return typeRecord{t.Name, int64(t.Timeout / time.Second), t.Priority, t.ThrottleFactor, t.Windows.Encode()}
}

func (r typeRecord) jobType() (job.Type, error) {
	windows, err := job.DecodeWindows(r.Windows)
	if err != nil {
		return job.Type{}, fmt.Errorf("job type %s: %w", r.Type, err)
	}
	t := job.DefaultType(r.Type)
	t.Timeout, t.Priority, t.ThrottleFactor, t.Windows = time.Duration(r.Timeout)*time.Second, r.Priority, r.ThrottleFactor, windows
	return t, nil
}

// readTypes reads the registered types of a condition, besides that of the queue.
func (q *Queue) readTypes(ctx context.Context, from sqlx.QueryerContext, which string, args ...any) (rows []typeRecord, err error) {
	query := "SELECT job_type, timeout, priority, throttle_factor, time_windows FROM " + q.db.JobTypes() + " WHERE queue = ? " + which
	if err := sqlx.SelectContext(ctx, from, &rows, query, append([]any{q.Name}, args...)...); err != nil {
		return nil, fmt.Errorf("read the job types of %s: %w", q.Name, err)
	}
	return rows, nil
}

// loadTypes reads the registered types, and remembers them.
func (q *Queue) loadTypes(ctx context.Context) (map[string]typeRecord, error) {
	rows, err := q.readTypes(ctx, q.db, "")
	if err != nil {
		return nil, err
	}
	records, types := map[string]typeRecord{}, map[string]job.Type{}
	for _, r := range rows {
		t, err := r.jobType()
		if err != nil {
			return nil, err
		}
		records[r.Type], types[r.Type] = r, t
	}
	q.remember(types)
	return records, nil
}

func (q *Queue) saveType(ctx context.Context, tx *schema.Tx, t job.Type) error {
	r := recordOf(t)
	err := tx.Upsert(ctx, q.db.JobTypes(), []string{"queue", "job_type"}, []any{q.Name, r.Type},
		[]string{"timeout", "priority", "throttle_factor", "time_windows"}, []any{r.Timeout, r.Priority, r.ThrottleFactor, r.Windows})
	if err != nil {
		return fmt.Errorf("register job type %s of %s: %w", t.Name, q.Name, err)
	}
	return nil
}

// typesIn are a queue's job types in a transaction.
type typesIn struct {
	q  *Queue
	tx *schema.Tx
	// seen are those that it has read or registered: to be remembered when it has committed, for it may yet be rolled back.
	seen map[string]job.Type
}

func (q *Queue) typesIn(tx *schema.Tx) typesIn { return typesIn{q, tx, map[string]job.Type{}} }

// get gives the defaults of a type: the config's, else those in the database, where a type that nobody knew yet is
// registered by this, in the caller's transaction: another one might wait for it for ever.
func (in typesIn) get(ctx context.Context, name string) (t job.Type, err error) {
	if t, ok := in.q.configured[name]; ok {
		return t, nil
	}
	if t, ok := in.q.remembered(name); ok {
		return t, nil
	}
	t, ok := in.seen[name]
	if !ok {
		t, ok, err = in.read(ctx, name, "")
	}
	if !ok && err == nil {
		t, err = in.add(ctx, name)
	}
	if err != nil {
		return job.Type{}, err
	}
	in.seen[name] = t
	return t, nil
}

func (in typesIn) read(ctx context.Context, name, lock string) (t job.Type, found bool, err error) {
	rows, err := in.q.readTypes(ctx, in.tx, "AND job_type = ? "+lock, name)
	if err != nil || len(rows) == 0 {
		return job.Type{}, false, err
	}
	t, err = rows[0].jobType()
	return t, err == nil, err
}

// add registers a type. One that is there all the same stays as it is: an application's transaction may have begun before it
// was registered, and see the database as it was then.
func (in typesIn) add(ctx context.Context, name string) (job.Type, error) {
	t := job.DefaultType(name)
	if in.q.DefaultPriority != nil {
		t.Priority = *in.q.DefaultPriority
	}
	r := recordOf(t)
	_, err := in.tx.ExecContext(ctx, "INSERT INTO "+in.q.db.JobTypes()+" (queue, job_type, timeout, priority, throttle_factor, time_windows)"+
		" VALUES (?, ?, ?, ?, ?, ?)", in.q.Name, r.Type, r.Timeout, r.Priority, r.ThrottleFactor, r.Windows)
	if schema.IsDuplicate(err) {
		if there, ok, err := in.read(ctx, name, in.q.db.ForShare); ok || err != nil {
			return there, err
		}
	}
	if err != nil {
		return t, fmt.Errorf("register job type %s of %s: %w", name, in.q.Name, err)
	}
	return t, nil
}

func (q *Queue) remembered(name string) (job.Type, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t, ok := q.registered[name]
	return t, ok
}

// remember takes note of types that the database has for good.
func (q *Queue) remember(types map[string]job.Type) {
	q.mu.Lock()
	defer q.mu.Unlock()
	maps.Copy(q.registered, types)
}

// JobType gives a type of the config; the zero Type if it isn't one.
func (q *Queue) JobType(name string) job.Type { return q.configured[name] }

// TypeNames gives the names of all job types that the queue has had.
func (q *Queue) TypeNames(ctx context.Context) ([]string, error) {
	known, err := q.loadTypes(ctx)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(known)), nil
}
