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

// columns are those of a job's row, each with the function that reads it. What is written stands with the statements that write:
// insert and replace of enqueue, and operate.
//
// A column that a row by plain SQL leaves open is NULL until a worker takes the row in, and reads as zero.
var columns = []struct {
	name string
	read func(*job.Job, *cell) error
}{
	{"id", number(func(j *job.Job) *int64 { return &j.ID })},
	{"job_type", text(func(j *job.Job) *string { return &j.Type })},
	{"job_data", text(func(j *job.Job) *string { return &j.Data })},
	{"job_key", text(func(j *job.Job) *string { return &j.Key })},
	// before those that are read by it
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
	{"stopping", readStopping},
	{"interrupts", number(func(j *job.Job) *int { return &j.Interrupts })},
	{"losses", number(func(j *job.Job) *int { return &j.Losses })},
	{"retry_of", number(func(j *job.Job) *int64 { return &j.RetryOf })},
	{"retried_as", number(func(j *job.Job) *int64 { return &j.RetriedAs })},
	{"create_time", moment(func(j *job.Job) *time.Time { return &j.CreateTime })},
	{"update_time", moment(func(j *job.Job) *time.Time { return &j.UpdateTime })},
	{"progress", number(func(j *job.Job) *int { return &j.Progress.Percent })},
	{"progress_note", text(func(j *job.Job) *string { return &j.Progress.Note })},
	{"progress_attempt", number(func(j *job.Job) *int { return &j.Progress.Attempt })},
	{"progress_time", readProgressTime},
}

// bulky are the columns that may be large.
var bulky = []string{"job_data", "error", "result", "output"}

// startColumns are the places in columns of what is read of a job that is about to start: nothing of its last attempt, and nothing that
// the start writes. In a queue with groups the claim may pass many jobs, so it reads the data of those that start.
var (
	startColumns         = placesBut(startWithout...)
	startColumnsOfGroups = placesBut(append([]string{"job_data"}, startWithout...)...)
	startWithout         = []string{
		"error", "result", "output", "wish", "start_time", "update_time", "worker_id", "lock_token", "attempt_token", "retried_as",
		"progress", "progress_note", "progress_attempt", "progress_time",
	}
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

// selected is the list of all columns for SELECT. Those in without read as None.
func (q *Queue) selected(without ...string) string {
	list := q.listed(allColumns)
	for _, name := range without {
		list = strings.Replace(list, ", "+name+",", ", '"+job.None+"',", 1)
	}
	return list
}

// scanner reads rows of jobs.
type scanner struct {
	// empty is a job of which nothing is read.
	empty job.Job
	// weighty says that a row by plain SQL needs a weight.
	weighty bool
	places  []int
	cells   []cell
	into    []any
}

// scanner is for rows with the columns of selected, and perhaps others behind them.
func (q *Queue) scanner(others ...any) *scanner { return q.scannerOf(allColumns, others...) }

var allColumns = placesBut()

// scannerOf is for rows with the columns of listed. The others read as None.
func (q *Queue) scannerOf(places []int, others ...any) *scanner {
	s := &scanner{weighty: q.RefuseWeightless, places: places, cells: make([]cell, len(places)), into: make([]any, len(places))}
	s.empty = job.Job{
		Queue: q.Name, Data: job.None, WorkerID: job.None, Token: job.None, AttemptToken: job.None, Wish: job.None,
		Error: job.None, Result: job.None, Output: job.None,
	}
	for i := range s.cells {
		s.into[i] = &s.cells[i]
	}
	s.into = append(s.into, others...)
	return s
}

// scan reads the current row. A row that can't be a job's is no error, because it must not hide the others: the job has a flaw.
func (s *scanner) scan(rows interface{ Scan(dest ...any) error }) (*job.Job, error) {
	if err := rows.Scan(s.into...); err != nil {
		return nil, err
	}
	j := s.empty
	for i, at := range s.places {
		if err := columns[at].read(&j, &s.cells[i]); err != nil && j.Flaw == nil {
			j.Flaw = fmt.Errorf("%w: %s: %w", job.ErrInvalid, columns[at].name, err)
		}
	}
	if j.Attempt == 0 {
		j.StartTime = time.Time{} // the row has one from the beginning, so that it needn't grow when it starts
	}
	j.Progress = sound(j.Progress)
	if j.Status.IsFinal() { // it may keep what made it fail
		j.Flaw = nil
	} else if j.Flaw == nil {
		j.Flaw = j.Check()
	}
	if s.weighty && j.IsNew() && !j.Left.ThrottleFactor && j.ThrottleFactor == 0 && j.Flaw == nil {
		j.Flaw = job.ErrWeightless
	}
	return &j, nil
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

// cell is what a row has in one column: a number or a text, however the driver gives it. A row often has the text of the row before,
// which is then not made anew.
type cell struct {
	null, isNumber bool
	number         int64
	text           string
}

// Scan implements sql.Scanner.
func (c *cell) Scan(src any) error {
	c.null, c.isNumber = src == nil, false
	switch v := src.(type) {
	case nil:
		c.number, c.text = 0, ""
	case int64:
		c.number, c.isNumber = v, true
	case string:
		c.text = v
	case []byte:
		if c.text != string(v) {
			c.text = string(v)
		}
	default:
		c.text = fmt.Sprint(v)
	}
	return nil
}

func (c *cell) asText() string {
	if c.isNumber {
		return strconv.FormatInt(c.number, 10)
	}
	return c.text
}

func (c *cell) asNumber() (int64, error) {
	if c.isNumber || c.null {
		return c.number, nil
	}
	n, err := strconv.ParseInt(c.text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", c.text)
	}
	return n, nil
}

func text[T ~string](field func(*job.Job) *T) func(*job.Job, *cell) error {
	return func(j *job.Job, c *cell) error {
		*field(j) = T(c.asText())
		return nil
	}
}

func number[T int | int64](field func(*job.Job) *T) func(*job.Job, *cell) error {
	return func(j *job.Job, c *cell) error {
		n, err := c.asNumber()
		*field(j) = T(n)
		return err
	}
}

func moment(field func(*job.Job) *time.Time) func(*job.Job, *cell) error {
	return func(j *job.Job, c *cell) error {
		if c.null {
			return nil
		}
		t, err := engine.ParseTime(c.asText())
		if err == nil && t.Year() < 1970 {
			err = fmt.Errorf("%q is before 1970", c.text)
		}
		if err == nil {
			*field(j) = t
		}
		return err
	}
}

// takenIn is for what a row must have from when it is taken in until it is final. What can't be read is left to the type too: in a retry
// of the job it must not be 0.
func takenIn(left func(*job.Left) *bool, read func(*job.Job, *cell) error) func(*job.Job, *cell) error {
	return func(j *job.Job, c *cell) error {
		err := read(j, c)
		*left(&j.Left) = c.null || err != nil
		if c.null && !j.IsNew() && !j.Status.IsFinal() {
			return errors.New("it is missing")
		}
		return err
	}
}

func readStopping(j *job.Job, c *cell) error {
	n, err := c.asNumber()
	if j.Stopping = n == 1; err == nil && n != 0 && n != 1 {
		err = fmt.Errorf("%d is neither 0 nor 1", n)
	}
	return err
}

// readProgressTime leaves out what is no time: see sound.
func readProgressTime(j *job.Job, c *cell) error {
	j.Progress.Time, _ = engine.ParseTime(c.asText())
	return nil
}

// sound is a progress as it can be. What can't be one is none, because that is no reason to end a job.
func sound(p job.Progress) job.Progress {
	if p.Attempt < 1 || p.Time.IsZero() {
		return job.Progress{}
	}
	whole, ok := job.NewProgress(float64(p.Percent), p.Note)
	if !ok {
		return job.Progress{}
	}
	whole.Attempt, whole.Time = p.Attempt, p.Time
	return whole
}

func readTimeout(j *job.Job, c *cell) error {
	n, err := c.asNumber()
	switch {
	case err != nil || c.null:
		return err
	case n < 0 || n > math.MaxUint32 || n == 0 && !j.Status.IsFinal():
		return fmt.Errorf("%d is not a number of seconds from 1 to %d", n, job.MaxSeconds)
	}
	j.Timeout = time.Duration(n) * time.Second
	return nil
}

func readWindows(j *job.Job, c *cell) (err error) {
	if c.null || c.asText() == job.None {
		return nil
	}
	j.Windows, err = job.DecodeWindows(c.asText())
	return err
}
