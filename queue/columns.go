package queue

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

// columns are those of a job's row, each with what reads it: whoever reads a job reads these. What is written stands with
// the statements that write: insert and replace of enqueue, what Retry links, of operate.
//
// What a row inserted by plain SQL leaves open until a worker takes it in is NULL, and reads as zero. So does what a job
// doesn't have.
var columns = []struct {
	name string
	read func(*job.Job, any) error
}{
	{"id", number(func(j *job.Job) *int64 { return &j.ID })},
	{"job_type", text(func(j *job.Job) *string { return &j.Type })},
	{"job_data", text(func(j *job.Job) *string { return &j.Data })},
	{"job_key", text(func(j *job.Job) *string { return &j.Key })},
	// before those that are read by them
	{"status", text(func(j *job.Job) *job.Status { return &j.Status })},
	{"timeout", takenIn(func(l *job.Left) *bool { return &l.Timeout }, readTimeout)},
	{"priority", takenIn(func(l *job.Left) *bool { return &l.Priority }, number(func(j *job.Job) *int { return &j.Priority }))},
	{"throttle_factor", takenIn(func(l *job.Left) *bool { return &l.ThrottleFactor }, number(func(j *job.Job) *int { return &j.ThrottleFactor }))},
	{"time_windows", takenIn(func(l *job.Left) *bool { return &l.Windows }, readWindows)},
	{"shard_key", text(func(j *job.Job) *string { return &j.ShardKey })},
	{"shard", number(func(j *job.Job) *int { return &j.Place })},
	{"attempt", number(func(j *job.Job) *int { return &j.Attempt })},
	{"scheduled_run_time", moment(func(j *job.Job) *time.Time { return &j.ScheduledRunTime })},
	{"wake_time", moment(func(j *job.Job) *time.Time { return &j.WakeTime })},
	{"start_time", moment(func(j *job.Job) *time.Time { return &j.StartTime })},
	{"worker_id", text(func(j *job.Job) *string { return &j.WorkerID })},
	{"lock_token", text(func(j *job.Job) *string { return &j.Token })},
	{"error", text(func(j *job.Job) *string { return &j.Error })},
	{"result", text(func(j *job.Job) *string { return &j.Result })},
	{"output", text(func(j *job.Job) *string { return &j.Output })},
	{"throttle_group", text(func(j *job.Job) *string { return &j.Group })},
	{"attempt_token", text(func(j *job.Job) *string { return &j.AttemptToken })},
	{"wish", text(func(j *job.Job) *string { return &j.Wish })},
	{"stopping", truth(func(j *job.Job) *bool { return &j.Stopping })},
	{"interrupts", number(func(j *job.Job) *int { return &j.Interrupts })},
	{"losses", number(func(j *job.Job) *int { return &j.Losses })},
	{"retry_of", number(func(j *job.Job) *int64 { return &j.RetryOf })},
	{"retried_as", number(func(j *job.Job) *int64 { return &j.RetriedAs })},
	{"create_time", moment(func(j *job.Job) *time.Time { return &j.CreateTime })},
	{"update_time", moment(func(j *job.Job) *time.Time { return &j.UpdateTime })},
}

// bulky are the columns that may be large.
var bulky = []string{"job_data", "error", "result", "output"}

// startColumns are those that are read of a job that is about to start, by their places in columns: not what is left of its last
// attempt, which is over then, nor what the start writes itself. With groups, many may be looked at that don't start, so their
// data is read later.
var (
	startColumns = placesBut(startWithout...)
	startWithout = []string{
		"error", "result", "output", "wish", "start_time", "update_time", "worker_id", "lock_token", "attempt_token", "retried_as",
	}
	startColumnsOfGroups = placesBut(append([]string{"job_data"}, startWithout...)...)
)

// placesBut are the places of all columns but these.
func placesBut(without ...string) (places []int) {
	for i, c := range columns {
		if !slices.Contains(without, c.name) {
			places = append(places, i)
		}
	}
	return places
}

// listed is the list of these columns for SELECT.
func (q *Queue) listed(places []int) string {
	names := make([]string, len(places))
	for i, at := range places {
		if names[i] = columns[at].name; strings.HasSuffix(names[i], "_time") {
			names[i] = q.db.TimeColumn(names[i])
		}
	}
	return strings.Join(names, ", ")
}

// selected is the list of columns for SELECT. Those to be left out read as None, and none of the others may be named.
func (q *Queue) selected(without ...string) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
		if strings.HasSuffix(c.name, "_time") {
			names[i] = q.db.TimeColumn(c.name)
		}
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
	// empty is a job of which nothing is read.
	empty job.Job
	// weighty says that a row needs a weight to be taken in.
	weighty bool
	row     job.Job
	into    []any
}

// scanner is for rows with the columns of selected, and perhaps others behind them.
func (q *Queue) scanner(others ...any) *scanner { return q.scannerOf(allColumns, others...) }

var allColumns = placesBut()

// scannerOf is for rows with the columns of listed; the others read as None.
func (q *Queue) scannerOf(places []int, others ...any) *scanner {
	s := &scanner{weighty: q.RefuseWeightless, into: make([]any, len(places), len(places)+len(others))}
	s.empty = job.Job{
		Queue: q.Name, Data: job.None, WorkerID: job.None, Token: job.None, AttemptToken: job.None, Wish: job.None,
		Error: job.None, Result: job.None, Output: job.None,
	}
	cells := make([]cell, len(places))
	for i, at := range places {
		cells[i] = cell{scanner: s, column: at}
		s.into[i] = &cells[i]
	}
	s.into = append(s.into, others...)
	return s
}

// scan reads the current row. One that can't be a job's is no error, for it must not hide the others: it has a flaw.
func (s *scanner) scan(rows interface{ Scan(dest ...any) error }) (*job.Job, error) {
	s.row = s.empty
	if err := rows.Scan(s.into...); err != nil {
		return nil, err
	}
	j := s.row
	if j.Attempt == 0 {
		j.StartTime = time.Time{} // the row has one from the beginning, so that it needn't grow when it starts
	}
	if j.Flaw == nil {
		j.Flaw = j.Check()
	}
	if s.weighty && j.IsNew() && !j.Left.ThrottleFactor && j.ThrottleFactor == 0 && j.Flaw == nil {
		j.Flaw = job.ErrWeightless
	}
	return &j, nil
}

// cell is one column of the row that a scanner reads.
type cell struct {
	*scanner
	column int
	// last is the text that the row before had, which this one often has too.
	last any
}

// Scan implements sql.Scanner.
func (c *cell) Scan(src any) error {
	column := &columns[c.column]
	if text, ok := src.([]byte); ok {
		if last, ok := c.last.(string); !ok || last != string(text) {
			c.last = string(text)
		}
		src = c.last
	}
	err := column.read(&c.row, src)
	if err != nil && c.row.Flaw == nil {
		c.row.Flaw = fmt.Errorf("%w: %s: %w", job.ErrInvalid, column.name, err)
	}
	return nil
}

// jobs is the query for jobs with the columns of selected, which it gives to f.
func (q *Queue) jobs(query string, args []any, f func(*job.Job)) engine.Query {
	return q.jobsOf(allColumns, query, args, f)
}

// jobsOf is the query for jobs with the columns of listed.
func (q *Queue) jobsOf(places []int, query string, args []any, f func(*job.Job)) engine.Query {
	s := q.scannerOf(places)
	return engine.Query{SQL: query, Args: args, Scan: engine.EachRow(func(row *sql.Rows) error {
		j, err := s.scan(row)
		if err == nil {
			f(j)
		}
		return err
	})}
}

// asText is a value as text; ok is false for NULL.
func asText(src any) (text string, ok bool) {
	switch v := src.(type) {
	case nil:
		return "", false
	case []byte:
		return string(v), true
	case string:
		return v, true
	}
	return fmt.Sprint(src), true
}

func asNumber(src any) (int64, error) {
	if n, ok := src.(int64); ok {
		return n, nil
	}
	text, ok := asText(src)
	if !ok {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	return n, nil
}

func text[T ~string](field func(*job.Job) *T) func(*job.Job, any) error {
	return func(j *job.Job, src any) error {
		value, _ := asText(src)
		*field(j) = T(value)
		return nil
	}
}

func number[T int | int64](field func(*job.Job) *T) func(*job.Job, any) error {
	return func(j *job.Job, src any) error {
		n, err := asNumber(src)
		*field(j) = T(n)
		return err
	}
}

func truth(field func(*job.Job) *bool) func(*job.Job, any) error {
	return func(j *job.Job, src any) error {
		n, err := asNumber(src)
		if err == nil && n != 0 && n != 1 {
			err = fmt.Errorf("%d is neither 0 nor 1", n)
		}
		*field(j) = n == 1
		return err
	}
}

func moment(field func(*job.Job) *time.Time) func(*job.Job, any) error {
	return func(j *job.Job, src any) error {
		value, ok := asText(src)
		if !ok {
			return nil
		}
		t, err := engine.ParseTime(value)
		if err == nil && t.Year() < 1970 {
			err = fmt.Errorf("%q is before 1970", value)
		}
		if err == nil {
			*field(j) = t
		}
		return err
	}
}

// takenIn is for what a row must have from when it is taken in until it is final. What can't be read is left to the type too:
// should the job be retried, it must not have become 0.
func takenIn(left func(*job.Left) *bool, read func(*job.Job, any) error) func(*job.Job, any) error {
	return func(j *job.Job, src any) error {
		*left(&j.Left) = src == nil
		if src == nil && !j.IsNew() && !j.Status.IsFinal() {
			return errors.New("it is missing")
		}
		err := read(j, src)
		if err != nil {
			*left(&j.Left) = true
		}
		return err
	}
}

func readTimeout(j *job.Job, src any) error {
	n, err := asNumber(src)
	switch {
	case err != nil || src == nil:
		return err
	case n < 0 || n > math.MaxUint32 || n == 0 && !j.Status.IsFinal():
		return fmt.Errorf("%d is not a number of seconds from 1 to %d", n, job.MaxSeconds)
	}
	j.Timeout = time.Duration(n) * time.Second
	return nil
}

func readWindows(j *job.Job, src any) (err error) {
	value, ok := asText(src)
	if !ok || value == job.None {
		return nil
	}
	j.Windows, err = job.DecodeWindows(value)
	return err
}
