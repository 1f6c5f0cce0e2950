package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

// columns are a job's columns with the fields that they fill. Rows by plain SQL may have NULLs, which read as zero.
var columns = []struct {
	name  string
	field func(*job.Job) any
}{
	{"id", func(j *job.Job) any { return &j.ID }},
	{"job_type", func(j *job.Job) any { return &j.Type }},
	{"job_data", func(j *job.Job) any { return &j.Data }},
	{"job_key", func(j *job.Job) any { return &j.Key }},
	{"status", func(j *job.Job) any { return (*string)(&j.Status) }},
	{"timeout", func(j *job.Job) any { return &j.Timeout }},
	{"priority", func(j *job.Job) any { return &j.Priority }},
	{"throttle_factor", func(j *job.Job) any { return &j.ThrottleFactor }},
	{"time_windows", func(j *job.Job) any { return &j.Windows }},
	{"shard_key", func(j *job.Job) any { return &j.ShardKey }},
	{"shard", func(j *job.Job) any { return &j.Place }},
	{"attempt", func(j *job.Job) any { return &j.Attempt }},
	{"scheduled_run_time", func(j *job.Job) any { return &j.ScheduledRunTime }},
	{"wake_time", func(j *job.Job) any { return &j.WakeTime }},
	{"asked_time", func(j *job.Job) any { return &j.AskedTime }},
	{"start_time", func(j *job.Job) any { return &j.StartTime }},
	{"worker_id", func(j *job.Job) any { return &j.WorkerID }},
	{"lock_token", func(j *job.Job) any { return &j.Token }},
	{"error", func(j *job.Job) any { return &j.Error }},
	{"result", func(j *job.Job) any { return &j.Result }},
	{"output", func(j *job.Job) any { return &j.Output }},
	{"throttle_group", func(j *job.Job) any { return &j.Group }},
	{"attempt_token", func(j *job.Job) any { return &j.AttemptToken }},
	{"retry_override", func(j *job.Job) any { return &j.RetryOverride }},
	{"stopping", func(j *job.Job) any { return &j.Stopping }},
	{"uncounted", func(j *job.Job) any { return &j.Uncounted }},
	{"interrupted", func(j *job.Job) any { return &j.Interrupts }},
	{"losses", func(j *job.Job) any { return &j.Losses }},
	{"retry_of", func(j *job.Job) any { return &j.RetryOf }},
	{"retried_as", func(j *job.Job) any { return &j.RetriedAs }},
	{"create_time", func(j *job.Job) any { return &j.CreateTime }},
	{"update_time", func(j *job.Job) any { return &j.UpdateTime }},
	{"progress", func(j *job.Job) any { return &j.Progress.Percent }},
	{"progress_note", func(j *job.Job) any { return &j.Progress.Note }},
	{"progress_attempt", func(j *job.Job) any { return &j.Progress.Attempt }},
	{"progress_time", func(j *job.Job) any { return &j.Progress.Time }},
}

// Selection is the columns that a query reads, by index. The others read as None or zero.
type Selection []int

var (
	// AllColumns selects all columns of a job.
	AllColumns = allBut()
	// startColumns lacks the last attempt and what the start writes.
	startColumns = allBut(startWithout...)
	// startColumnsOfGroups also lacks the data, because a claim may pass many jobs.
	startColumnsOfGroups = allBut(append([]string{"job_data"}, startWithout...)...)
	startWithout         = []string{
		"error", "result", "output", "retry_override", "start_time", "update_time", "worker_id", "lock_token", "attempt_token", "retried_as",
		"progress", "progress_note", "progress_attempt", "progress_time",
	}
)

func allBut(names ...string) (s Selection) {
	for i, c := range columns {
		if !slices.Contains(names, c.name) {
			s = append(s, i)
		}
	}
	return s
}

// Only selects these columns.
func Only(names ...string) Selection {
	return slices.DeleteFunc(allBut(), func(at int) bool { return !slices.Contains(names, columns[at].name) })
}

func (q *Queue) listed(of Selection) string {
	names := make([]string, len(of))
	for i, at := range of {
		if names[i] = columns[at].name; strings.HasSuffix(names[i], "_time") {
			names[i] = q.db.SQL.TimeColumn(names[i])
		}
	}
	return strings.Join(names, ", ")
}

// reader returns a function that reads a query's current row: a job from the selected columns, then the others. An invalid
// row sets the job's Invalid instead of failing, because it must not hide other rows. Invalid progress is dropped: see sound.
func (q *Queue) reader(of Selection, others ...any) func(*sql.Rows) (*job.Job, error) {
	empty := job.Job{
		Queue: q.Name, Data: job.None, WorkerID: job.None, Token: job.None, AttemptToken: job.None, RetryOverride: job.None,
		Error: job.None, Result: job.None, Output: job.None,
	}
	cells, into := make([]cell, len(of)), make([]any, len(of), len(of)+len(others))
	for i := range cells {
		into[i] = &cells[i]
	}
	into = append(into, others...)
	return func(row *sql.Rows) (*job.Job, error) {
		if err := row.Scan(into...); err != nil {
			return nil, err
		}
		j := empty
		for i, at := range of {
			name, c := columns[at].name, &cells[i]
			err := c.read(columns[at].field(&j))
			if err != nil && j.Invalid == nil && name != "progress_time" {
				j.Invalid = fmt.Errorf("%w: %s: %w", job.ErrInvalid, name, err)
			}
			if c.null || err != nil { // also unreadable, because a retry must not get 0
				switch name {
				case "timeout":
					j.Left.Timeout = true
				case "priority":
					j.Left.Priority = true
				case "throttle_factor":
					j.Left.ThrottleFactor = true
				case "time_windows":
					j.Left.Windows = true
				}
			}
		}
		if j.Attempt == 0 {
			j.StartTime = time.Time{} // rows have one from the start, so that starting a job doesn't grow its row
		}
		j.Progress = sound(j.Progress)
		if j.Status.IsFinal() { // it may keep the flaw that made it fail
			j.Invalid = nil
		} else if j.Invalid == nil {
			j.Invalid = j.Check()
		}
		if q.RefuseWeightless && j.IsNew() && !j.Left.ThrottleFactor && j.ThrottleFactor == 0 && j.Invalid == nil {
			j.Invalid = job.ErrWeightless
		}
		return &j, nil
	}
}

// Jobs is the query that passes jobs with these columns to f. rest follows the table's name in the query.
func (q *Queue) Jobs(of Selection, rest string, args []any, f func(*job.Job)) engine.Query {
	read, query := q.reader(of), "SELECT "+q.listed(of)+" FROM "+q.table+" "+rest
	return engine.Query{SQL: query, Args: args, Scan: engine.EachRow(func(row *sql.Rows) error {
		j, err := read(row)
		if err == nil {
			f(j)
		}
		return err
	})}
}

// cell is a row's value in one column. It reuses the text of the previous row if both are equal, to save allocations.
type cell struct {
	null   bool
	number int64
	text   string
}

// Scan implements sql.Scanner.
func (c *cell) Scan(src any) error {
	c.null = src == nil
	switch v := src.(type) {
	case int64:
		c.number, c.text = v, ""
	case string:
		c.text = v
	case []byte:
		if c.text != string(v) {
			c.text = string(v)
		}
	}
	return nil
}

// whole is the cell's number. Parsing can't fail, because the column types allow only numbers.
func (c *cell) whole() int64 {
	if c.text == "" {
		return c.number
	}
	n, _ := strconv.ParseInt(c.text, 10, 64)
	return n
}

// read stores the cell in a field of a job. NULL leaves the field as it is.
func (c *cell) read(field any) (err error) {
	if c.null {
		return nil
	}
	switch f := field.(type) {
	case *string:
		*f = c.text
	case *int:
		*f = int(c.whole())
	case *int64:
		*f = c.whole()
	case *bool:
		*f = c.whole() == 1
	case *time.Duration:
		*f = time.Duration(c.whole()) * time.Second
	case *time.Time:
		if *f, err = engine.ParseTime(c.text); err == nil && f.Year() < 1970 { // the year 1 would mean no time
			err = fmt.Errorf("%q is before 1970", c.text)
		}
	case *job.Windows:
		if c.text != job.None {
			*f, err = job.DecodeWindows(c.text)
		}
	}
	return err
}

// sound returns the progress, or none if it is invalid: that is no reason to fail a job.
func sound(p job.Progress) job.Progress {
	whole, ok := job.NewProgress(float64(p.Percent), p.Note)
	if !ok || p.Attempt < 1 || p.Time.IsZero() {
		return job.Progress{}
	}
	whole.Attempt, whole.Time = p.Attempt, p.Time
	return whole
}

// Get reads one job. It fails with ErrNotFound if there is none.
func (q *Queue) Get(ctx context.Context, from engine.Reader, id int64, lock string) (*job.Job, error) {
	var found *job.Job
	err := engine.ReadOn(ctx, from, q.Jobs(AllColumns, "WHERE id = ? "+lock, []any{id}, func(j *job.Job) { found = j }))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read job %d of %s: %w", id, q.Name, err)
	case found == nil:
		return nil, fmt.Errorf("job %d of %s: %w", id, q.Name, ErrNotFound)
	}
	return found, nil
}
