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

// loadTypes reads the registered types, and remembers them for jobType.
func (q *Queue) loadTypes(ctx context.Context, from sqlx.QueryerContext) (map[string]typeRecord, error) {
	var rows []typeRecord
	query := "SELECT job_type, timeout, priority, throttle_factor, time_windows FROM " + q.db.JobTypes() + " WHERE queue = ?"
	if err := sqlx.SelectContext(ctx, from, &rows, query, q.Name); err != nil {
		return nil, fmt.Errorf("read the job types of %s: %w", q.Name, err)
	}
	records, types := map[string]typeRecord{}, map[string]job.Type{}
	for _, r := range rows {
		t, err := r.jobType()
		if err != nil {
			return nil, err
		}
		records[r.Type], types[r.Type] = r, t
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	maps.Copy(q.registered, types)
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

// jobType gives the defaults of a type: the config's, else those in the database, where a type that nobody knew yet is
// registered by this, in the caller's transaction: another one might wait for it for ever.
func (q *Queue) jobType(ctx context.Context, tx *schema.Tx, name string) (job.Type, error) {
	if t, ok := q.configured[name]; ok {
		return t, nil
	}
	if t, ok := q.remembered(name); ok {
		return t, nil
	}
	if _, err := q.loadTypes(ctx, tx); err != nil {
		return job.Type{}, err
	}
	if t, ok := q.remembered(name); ok {
		return t, nil
	}
	// remembered only once it is read back: the transaction may yet be rolled back
	t := job.DefaultType(name)
	if q.DefaultPriority != nil {
		t.Priority = *q.DefaultPriority
	}
	return t, q.saveType(ctx, tx, t)
}

func (q *Queue) remembered(name string) (job.Type, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t, ok := q.registered[name]
	return t, ok
}

// JobType gives a type of the config; the zero Type if it isn't one.
func (q *Queue) JobType(name string) job.Type { return q.configured[name] }

// TypeNames gives the names of all job types that the queue has had.
func (q *Queue) TypeNames(ctx context.Context) ([]string, error) {
	known, err := q.loadTypes(ctx, q.db)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(known)), nil
}
