package queue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jmoiron/sqlx"

	"github.com/hipq/hipq/schema"
)

// JobType holds the defaults of the jobs of one type.
type JobType struct {
	// Name is compared byte for byte, at most MaxTypeBytes long.
	Name string
	// Timeout is how long an attempt may last, in whole seconds.
	Timeout time.Duration
	// Priority: the lower number first.
	Priority int
	// ThrottleFactor is the weight counted against the queue's throttle limit.
	ThrottleFactor int
	// Windows are the times of day within which a job must start; none means always.
	Windows Windows
	// Retry decides after an error, unless a retry handler does.
	Retry RetryPolicy
	// Async: a handler's success only means that the work is under way; an answer from outside ends the job, or its timeout.
	Async bool
	// Concurrency is how many jobs of the type run at once on one host; 0 is as many as the queue's.
	Concurrency int
}

// DefaultJobType has what holds for a type where the config says nothing.
func DefaultJobType(name string) JobType {
	return JobType{Name: name, Timeout: 24 * time.Hour, Priority: 100, ThrottleFactor: 1, Retry: DefaultRetry}
}

// CheckType says whether a job type may have this name.
func CheckType(name string) error {
	switch {
	case name == "" || name == None:
		return fmt.Errorf("%w: job_type is missing", ErrInvalid)
	case len(name) > MaxTypeBytes:
		return fmt.Errorf("%w: job_type has %d bytes, allowed are %d", ErrInvalid, len(name), MaxTypeBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: job_type %q is not valid UTF-8", ErrInvalid, name)
	case strings.IndexFunc(name, unicode.IsControl) >= 0:
		return fmt.Errorf("%w: job_type %q has a control character", ErrInvalid, name)
	}
	return nil
}

// typeRecord is a registered job type as its table has it.
type typeRecord struct {
	Type           string `db:"job_type"`
	Timeout        int64
	Priority       int
	ThrottleFactor int    `db:"throttle_factor"`
	Windows        string `db:"time_windows"`
}

func (t JobType) record() typeRecord {
	return typeRecord{t.Name, int64(t.Timeout / time.Second), t.Priority, t.ThrottleFactor, t.Windows.Encode()}
}

func (r typeRecord) jobType() (JobType, error) {
	windows, err := DecodeWindows(r.Windows)
	if err != nil {
		return JobType{}, fmt.Errorf("job type %s: %w", r.Type, err)
	}
	t := DefaultJobType(r.Type)
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
	records, types := map[string]typeRecord{}, map[string]JobType{}
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

func (q *Queue) saveType(ctx context.Context, tx *schema.Tx, t JobType) error {
	r := t.record()
	err := tx.Upsert(ctx, q.db.JobTypes(), []string{"queue", "job_type"}, []any{q.Name, r.Type},
		[]string{"timeout", "priority", "throttle_factor", "time_windows"}, []any{r.Timeout, r.Priority, r.ThrottleFactor, r.Windows})
	if err != nil {
		return fmt.Errorf("register job type %s of %s: %w", t.Name, q.Name, err)
	}
	return nil
}

// jobType gives the defaults of a type: the config's, else those in the database, where a type that nobody knew yet is
// registered by this, in the caller's transaction: another one might wait for it for ever.
func (q *Queue) jobType(ctx context.Context, tx *schema.Tx, name string) (JobType, error) {
	if t, ok := q.configured[name]; ok {
		return t, nil
	}
	if t, ok := q.remembered(name); ok {
		return t, nil
	}
	if _, err := q.loadTypes(ctx, tx); err != nil {
		return JobType{}, err
	}
	if t, ok := q.remembered(name); ok {
		return t, nil
	}
	// remembered only once it is read back: the transaction may yet be rolled back
	t := DefaultJobType(name)
	if q.DefaultPriority != nil {
		t.Priority = *q.DefaultPriority
	}
	return t, q.saveType(ctx, tx, t)
}

func (q *Queue) remembered(name string) (JobType, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t, ok := q.registered[name]
	return t, ok
}

// JobType gives a type of the config; the zero JobType if it isn't one.
func (q *Queue) JobType(name string) JobType { return q.configured[name] }

// TypeNames gives the names of all job types that the queue has had.
func (q *Queue) TypeNames(ctx context.Context) ([]string, error) {
	known, err := q.loadTypes(ctx, q.db)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(known)), nil
}
