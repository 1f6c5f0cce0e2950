package queue

import (
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// columns are those of a job's row, each with the field that it is read into: whoever reads a job reads these. What is
// written stands with the statements that write: insert and replace of enqueue, what Retry links, of operate.
var columns = []struct {
	name  string
	field func(*job.Job) any
}{
	{"id", func(j *job.Job) any { return &j.ID }},
	{"job_type", func(j *job.Job) any { return &j.Type }},
	{"job_data", func(j *job.Job) any { return &j.Data }},
	{"job_key", func(j *job.Job) any { return &j.Key }},
	{"state", func(j *job.Job) any { return &j.State }},
	{"line", func(j *job.Job) any { return &j.Line }},
	{"timeout", func(j *job.Job) any { return seconds{&j.Timeout, &j.Left.Timeout} }},
	{"priority", func(j *job.Job) any { return number{&j.Priority, &j.Left.Priority} }},
	{"throttle_factor", func(j *job.Job) any { return number{&j.ThrottleFactor, &j.Left.ThrottleFactor} }},
	{"time_windows", func(j *job.Job) any { return windows{&j.Windows, &j.Left.Windows} }},
	{"shard_key", func(j *job.Job) any { return &j.ShardKey }},
	{"attempt", func(j *job.Job) any { return &j.Attempt }},
	{"scheduled_run_time", func(j *job.Job) any { return moment{&j.ScheduledRunTime} }},
	{"start_time", func(j *job.Job) any { return moment{&j.StartTime} }},
	{"worker_id", func(j *job.Job) any { return &j.WorkerID }},
	{"lock_token", func(j *job.Job) any { return &j.Token }},
	{"error", func(j *job.Job) any { return &j.Error }},
	{"result", func(j *job.Job) any { return &j.Result }},
	{"output", func(j *job.Job) any { return &j.Output }},
	{"throttle_group", func(j *job.Job) any { return &j.Group }},
	{"attempt_token", func(j *job.Job) any { return &j.AttemptToken }},
	{"wish", func(j *job.Job) any { return &j.Wish }},
	{"stopping", func(j *job.Job) any { return &j.Stopping }},
	{"suspect", func(j *job.Job) any { return &j.Suspect }},
	{"retry_of", func(j *job.Job) any { return reference{&j.RetryOf} }},
	{"retried_as", func(j *job.Job) any { return reference{&j.RetriedAs} }},
	{"create_time", func(j *job.Job) any { return moment{&j.CreateTime} }},
	{"update_time", func(j *job.Job) any { return moment{&j.UpdateTime} }},
}

// bulky are the columns that may be large.
var bulky = []string{"job_data", "error", "result", "output"}

// selected is the list of columns for SELECT. Those to be left out read as None, and none of the others may be named.
func selected(without ...string) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
		for _, w := range without {
			if c.name == w {
				names[i] = "'" + job.None + "'"
			}
		}
	}
	return strings.Join(names, ", ")
}

// scanner reads rows of jobs, without the cost of finding out each time what goes where.
type scanner struct {
	queue string
	row   job.Job
	into  []any
}

func (q *Queue) scanner() *scanner {
	s := &scanner{queue: q.Name, into: make([]any, len(columns))}
	for i, c := range columns {
		s.into[i] = c.field(&s.row)
	}
	return s
}

// scan reads the current row.
func (s *scanner) scan(rows interface{ Scan(dest ...any) error }) (*job.Job, error) {
	s.row = job.Job{Queue: s.queue}
	if err := rows.Scan(s.into...); err != nil {
		if s.row.ID == 0 {
			return nil, err // whoever asked knows which job it was
		}
		return nil, fmt.Errorf("read job %d of %s: %w", s.row.ID, s.queue, err)
	}
	j := s.row
	if j.Attempt == 0 {
		j.StartTime = time.Time{} // the row has one from the beginning, so that it needn't grow when it starts
	}
	return &j, nil
}

// jobs is the query for jobs with the columns of selected, which it gives to f.
func (q *Queue) jobs(query string, args []any, f func(*job.Job)) schema.Query {
	return schema.Query{SQL: query, Args: args, Scan: func(rows *sql.Rows) error {
		s := q.scanner()
		for rows.Next() {
			j, err := s.scan(rows)
			if err != nil {
				return err
			}
			f(j)
		}
		return nil
	}}
}

// What a row inserted by plain SQL leaves open until a worker takes it in is NULL, and reads as zero. So does what a job
// doesn't have.
type (
	seconds struct {
		d    *time.Duration
		left *bool
	}
	number struct {
		n    *int
		left *bool
	}
	windows struct {
		w    *job.Windows
		left *bool
	}
	moment    struct{ t *time.Time }
	reference struct{ id *int64 }
)

// Scan implements sql.Scanner.
func (s seconds) Scan(src any) error {
	var n sql.NullInt64
	err := n.Scan(src)
	*s.d, *s.left = time.Duration(n.Int64)*time.Second, !n.Valid
	return err
}

// Scan implements sql.Scanner.
func (i number) Scan(src any) error {
	var n sql.NullInt64
	err := n.Scan(src)
	*i.n, *i.left = int(n.Int64), !n.Valid
	return err
}

// Scan implements sql.Scanner. Windows that can't be read are none: those of a row that was not taken in yet have not been
// checked, and all others are hipq's own.
func (w windows) Scan(src any) error {
	var text sql.NullString
	if err := text.Scan(src); err != nil {
		return err
	}
	*w.w, *w.left = nil, !text.Valid
	if text.Valid && text.String != job.None {
		*w.w, _ = job.DecodeWindows(text.String)
	}
	return nil
}

// Scan implements sql.Scanner.
func (m moment) Scan(src any) error {
	var t schema.Time
	err := t.Scan(src)
	*m.t = t.Time
	return err
}

// Scan implements sql.Scanner.
func (r reference) Scan(src any) error {
	var n sql.NullInt64
	err := n.Scan(src)
	*r.id = n.Int64
	return err
}
