package store

import (
	"cmp"
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

type typeRecord struct {
	Type           string
	Timeout        int64
	Priority       int
	ThrottleFactor int
	Windows        string
	Settings       string
}

// typeSettings are what the stored procedures, which know no config, need of a job type to settle its jobs.
type typeSettings struct {
	job.RetryPolicy
	Async        bool `json:"async,omitempty"`
	RetryHandler bool `json:"retry_handler,omitempty"`
}

func recordOf(t job.Type) typeRecord {
	text, _ := json.Marshal(typeSettings{t.Retry, t.Async, t.RetryHandler}) // what Check lets pass can be written
	return typeRecord{t.Name, int64(t.Timeout / time.Second), t.Priority, t.ThrottleFactor, t.Windows.Encode(), string(text)}
}

// jobType gives the type that a row says, which is an error if it can't have jobs.
func (r typeRecord) jobType() (t job.Type, err error) {
	t = job.DefaultType(r.Type)
	t.Timeout, t.Priority, t.ThrottleFactor = time.Duration(r.Timeout)*time.Second, r.Priority, r.ThrottleFactor
	var s typeSettings
	if json.Unmarshal([]byte(r.Settings), &s) == nil && s.Check() == nil {
		t.Retry, t.Async, t.RetryHandler = s.RetryPolicy, s.Async, s.RetryHandler
	}
	if t.Windows, err = job.DecodeWindows(r.Windows); err != nil {
		return t, err
	}
	return t, t.Check()
}

func (q *Queue) typesQuery(found map[string]typeRecord) engine.Query {
	query := "SELECT job_type, timeout, priority, throttle_factor, time_windows, settings FROM " + q.db.JobTypes() + " WHERE queue = ?"
	return engine.Query{SQL: query, Args: []any{q.Name}, Scan: engine.EachRow(func(row *sql.Rows) error {
		var r typeRecord
		err := row.Scan(&r.Type, &r.Timeout, &r.Priority, &r.ThrottleFactor, &r.Windows, &r.Settings)
		found[r.Type] = r
		return err
	})}
}

// registration is what the database knows of a queue's config: who enqueues may know no more of the queue than its name.
type registration struct {
	// Options are as registered, except for the defaults of jobs that the queue's own options have.
	Options
	types map[string]job.Type
	read  time.Time
}

// registeredFor is for how long a Queue may miss that another program has changed the registration.
const registeredFor = time.Minute

// registered is the queue's registration, without rows that can't be types. It warns of these, unless the config mends them.
func (q *Queue) registered(ctx context.Context, from engine.Reader) (*registration, error) {
	if r := q.known.Load(); r != nil && time.Since(r.read) < registeredFor {
		return r, nil
	}
	records := map[string]typeRecord{}
	o, err := q.registeredOptions(ctx, from, q.typesQuery(records))
	if err != nil {
		return nil, err
	}
	o.DefaultPriority, o.DefaultTimeout = cmp.Or(q.DefaultPriority, o.DefaultPriority), cmp.Or(q.DefaultTimeout, o.DefaultTimeout)
	o.DefaultRetry = cmp.Or(q.DefaultRetry, o.DefaultRetry)
	r := &registration{Options: o, types: map[string]job.Type{}, read: time.Now()}
	for name, record := range records {
		t, flaw := record.jobType()
		if flaw == nil && q.RefuseWeightless && t.ThrottleFactor == 0 {
			flaw = job.ErrWeightless
		}
		if flaw == nil {
			r.types[name] = t
		} else if _, mended := q.configured[name]; !mended {
			q.db.Warn(fmt.Errorf("a row of %s, queue %s, job type %.60q, counts for nothing: %.200v; "+
				"delete it, or run hipq init with a config that has the job type", q.db.JobTypes(), q.Name, name, flaw))
		}
	}
	q.known.Store(r)
	return r, nil
}

// TypeOf gives the defaults of a type: the config's, else those in the database, else those of the queue's other types.
func (q *Queue) TypeOf(ctx context.Context, from engine.Reader, name string) (job.Type, error) {
	if t, ok := q.configured[name]; ok {
		return t, nil
	}
	r, err := q.registered(ctx, from)
	if err != nil {
		return job.Type{}, err
	}
	if t, ok := r.types[name]; ok {
		return t, nil
	}
	return r.defaultType(name), nil
}

// defaultType is a type of which nothing is said.
func (o Options) defaultType(name string) job.Type {
	t := job.DefaultType(name)
	t.Priority = *cmp.Or(o.DefaultPriority, &t.Priority)
	t.Timeout = cmp.Or(o.DefaultTimeout, t.Timeout)
	t.Retry = *cmp.Or(o.DefaultRetry, &t.Retry)
	return t
}

// TypeNames gives the names of the job types that a config has registered, or this one has, or of which there are jobs.
func (q *Queue) TypeNames(ctx context.Context) ([]string, error) {
	var names []string
	for last := ""; ; { // each is one dive into the index, however many jobs it has
		var next sql.NullString
		if err := q.db.SQL.GetContext(ctx, &next, "SELECT MIN(job_type) FROM "+q.table+" WHERE job_type > ?", last); err != nil {
			return nil, fmt.Errorf("find the job types of %s: %w", q.Name, err)
		}
		if !next.Valid || next.String <= last {
			break
		}
		last = next.String
		names = append(names, last)
	}
	r, err := q.registered(ctx, q.db.SQL)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return job.CheckType(name) != nil })
	names = slices.AppendSeq(slices.AppendSeq(names, maps.Keys(r.types)), maps.Keys(q.configured))
	slices.Sort(names)
	return slices.Compact(names), nil
}
