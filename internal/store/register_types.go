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

// typeSettings are what the stored procedures, which have no config, need to settle a type's jobs.
type typeSettings struct {
	job.RetryPolicy
	Async        bool `json:"async,omitempty"`
	RetryHandler bool `json:"retry_handler,omitempty"`
	// Config is the config that registered the type.
	Config string `json:"config,omitempty"`
}

func recordOf(t job.Type, config string) typeRecord {
	text, _ := json.Marshal(typeSettings{t.Retry, t.Async, t.RetryHandler, config}) // checked settings always marshal
	return typeRecord{t.Name, int64(t.Timeout / time.Second), t.Priority, t.ThrottleFactor, t.Windows.Encode(), string(text)}
}

// config is the config that registered the type; empty if none says so.
func (r typeRecord) config() string {
	var s typeSettings
	_ = json.Unmarshal([]byte(r.Settings), &s)
	return s.Config
}

// unregistered compares the config's types with the registered ones: changed are to be written, and gone have left the config.
func (q *Queue) unregistered(known map[string]typeRecord) (changed []typeRecord, gone []any) {
	for name, t := range q.configured {
		if there := known[name]; there != recordOf(t, there.config()) {
			changed = append(changed, recordOf(t, q.Config))
		}
	}
	for name, there := range known {
		if _, ok := q.configured[name]; !ok && q.Config != "" && there.config() == q.Config {
			gone = append(gone, name)
		}
	}
	return changed, gone
}

// jobType returns the type in a row, or an error if no job could have it.
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
	var r typeRecord
	into := []any{&r.Type, &r.Timeout, &r.Priority, &r.ThrottleFactor, &r.Windows, &r.Settings}
	return engine.Query{SQL: query, Args: []any{q.Name}, Scan: engine.Into(func() { found[r.Type] = r }, into...)}
}

// registration is a queue's registered config, because an enqueuer may know only the queue's name.
type registration struct {
	// Options are the registered options, but the queue's own defaults for jobs take precedence.
	Options
	types map[string]job.Type
	read  time.Time
}

// registeredFor is how long a Queue may miss changes of the registration by other programs.
const registeredFor = time.Minute

// registered returns the queue's registration without invalid types. It warns about those unless the config has them.
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
			q.db.Warn(fmt.Errorf("a row of %s (queue %s, job type %.60q) is ignored: %.200v; "+
				"delete it, or run hipq init with a config that has the job type", q.db.JobTypes(), q.Name, name, flaw))
		}
	}
	q.known.Store(r)
	return r, nil
}

// TypeOf returns a type's defaults: from the config, else from the database, else those for all types, else the queue's.
func (q *Queue) TypeOf(ctx context.Context, from engine.Reader, name string) (job.Type, error) {
	if t, ok := q.configured[name]; ok {
		return t, nil
	}
	r, err := q.registered(ctx, from)
	if err != nil {
		return job.Type{}, err
	}
	return q.typeOf(name, r), nil
}

// typeOf is TypeOf for a registration.
func (q *Queue) typeOf(name string, r *registration) job.Type {
	for _, of := range []string{name, job.AllTypes} {
		for _, types := range []map[string]job.Type{q.configured, r.types} {
			if t, ok := types[of]; ok {
				t.Name = name
				return t
			}
		}
	}
	return r.defaultType(name)
}

// MaxAttempts is the number of the job's last attempt by its policy, as far as this process knows that without a query.
func (q *Queue) MaxAttempts(j *job.Job) int {
	r := q.known.Load()
	if r == nil {
		r = &registration{Options: q.Options}
	}
	return q.typeOf(j.Type, r).Retry.Attempts + j.Uncounted
}

// defaultType is a type without settings of its own.
func (o Options) defaultType(name string) job.Type {
	t := job.DefaultType(name)
	t.Priority = *cmp.Or(o.DefaultPriority, &t.Priority)
	t.Timeout = cmp.Or(o.DefaultTimeout, t.Timeout)
	t.Retry = *cmp.Or(o.DefaultRetry, &t.Retry)
	return t
}

// TypeNames returns the names of job types that are registered, in this config, or used by jobs.
func (q *Queue) TypeNames(ctx context.Context) ([]string, error) {
	var names []string
	for last := ""; ; { // each costs one dive into the index, however many jobs it has
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
	names = slices.AppendSeq(slices.AppendSeq(names, maps.Keys(r.types)), maps.Keys(q.configured))
	names = slices.DeleteFunc(names, func(name string) bool { return name == job.AllTypes || job.CheckType(name) != nil })
	slices.Sort(names)
	return slices.Compact(names), nil
}
