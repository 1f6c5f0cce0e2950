// Package activity is the append-only log of every transition of a worker or a job.
package activity

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/schema"
)

// NoRun is the RunMS of a job that was refused, or answered when its attempt had failed already. JSON has 0 for it.
const NoRun = -1

// None is the word NONE, for a text that an entry or a job doesn't have.
const None = texts.None

// Kind says whose transition an entry records.
type Kind string

// The kinds.
const (
	Worker Kind = "worker"
	Job    Kind = "job"
)

// State is what happened. A worker is Starting, then Finished, with an error if it has waited for something in vain, or Error:
// it died, or left unsettled what it had begun. A job is Added, then in each attempt Starting and, written with the decision,
// one of Finished (final), Error (it will be tried again), Failed (final with an error).
type State string

// The states.
const (
	Added    State = "added"
	Starting State = "starting"
	Finished State = "finished"
	Error    State = "error"
	Failed   State = "failed"
	// Cancelled: an operator ended the job before it started, or between two attempts.
	Cancelled State = "cancelled"
)

// States are all states there are.
var States = []State{Added, Starting, Finished, Error, Failed, Cancelled}

// Entry is one row of the log. Texts that don't apply are None, numbers 0.
type Entry struct {
	ID       int64
	At       time.Time
	Kind     Kind
	State    State
	Queue    string
	WorkerID string `db:"worker_id"`
	Host     string
	PID      int
	JobID    int64  `db:"job_id"`
	JobType  string `db:"job_type"`
	JobKey   string `db:"job_key"`
	Attempt  int
	// WaitMS is, of Starting, how long the job was due before it started, in milliseconds.
	WaitMS int64 `db:"wait_ms"`
	// RunMS is, of an outcome, how long the attempt took, in milliseconds; NoRun if nothing ran.
	RunMS int64 `db:"run_ms"`
	Error string
	// Output is what the handler printed, its tail if it was long; of Added, what has enqueued the job if that was a schedule.
	Output string
}

var workerLost = texts.Pattern(`^worker lost: \S+( \(pid \d+ on \S+\))?$`)

// OfWorker says whether an attempt will be repeated because its worker stopped or died, which says nothing about the handler.
func (e Entry) OfWorker() bool {
	return e.State == Error && (e.Error == "interrupted" || strings.HasPrefix(e.Error, "interrupted;") || workerLost().MatchString(e.Error))
}

// Log is the log of one instance.
type Log struct{ db *schema.DB }

// New is the log in db's activity table.
func New(db *schema.DB) *Log { return &Log{db: db} }

// readColumns are numbers where numbers belong, whatever a hand other than hipq's has put there.
const readColumns = "kind, state, queue, worker_id, host, CAST(pid AS SIGNED INTEGER) AS pid, CAST(job_id AS SIGNED INTEGER) AS job_id," +
	" job_type, job_key, CAST(attempt AS SIGNED INTEGER) AS attempt, CAST(wait_ms AS SIGNED INTEGER) AS wait_ms," +
	" CAST(run_ms AS SIGNED INTEGER) AS run_ms, error, output"

// Filter narrows what Find gives. A zero field doesn't narrow.
type Filter struct {
	Kind    Kind
	Queue   string
	JobID   int64
	JobType string
	JobKey  string
	Worker  string
	State   State
	// Error takes only entries whose error contains this text, as it is written.
	Error string
	// Since and Until take only what happened since, and before.
	Since, Until time.Time
	// After takes entries with a higher ID only: where to go on from.
	After int64
	// Limit takes the newest so many.
	Limit int
}

type row struct {
	Entry
	At engine.Time
}

func (l *Log) columns() string { return "id, " + l.db.SQL.TimeColumns("at") + ", " + readColumns }

// Find calls f with each entry that the filter lets pass, oldest first, and ends with f's first error.
func (l *Log) Find(ctx context.Context, by Filter, f func(Entry) error) error {
	return l.find(ctx, by, nil, f)
}

// find is Find, only among the ids in these spans if there are any.
func (l *Log) find(ctx context.Context, by Filter, among []span, f func(Entry) error) error {
	w, from := by.terms(), l.db.Activity()
	if len(among) > 0 {
		condition, args := within(among)
		w.And(condition, args...)
		from += " " + l.db.SQL.ByID
	}
	query, args := "SELECT "+l.columns()+" FROM "+from+w.SQL(), w.Args
	if by.Limit > 0 {
		query = "SELECT * FROM (" + query + " ORDER BY id DESC LIMIT ?) AS newest ORDER BY id"
		args = append(args, by.Limit)
	} else {
		query += " ORDER BY id"
	}
	var own error // of f
	err := engine.Each(ctx, l.db.SQL, query, args, func(r row) error {
		r.Entry.At = r.At.Time
		own = f(r.Entry)
		return own
	})
	if err != nil && own == nil {
		return fmt.Errorf("find activity: %w", err)
	}
	return err
}

func (by Filter) terms() (w engine.Where) {
	for _, c := range []struct {
		column string
		given  bool
		value  any
	}{
		{"kind", by.Kind != "", string(by.Kind)},
		{"job_id", by.JobID != 0, by.JobID},
		{"queue", by.Queue != "", by.Queue},
		{"job_type", by.JobType != "", by.JobType},
		{"job_key", by.JobKey != "", by.JobKey},
		{"worker_id", by.Worker != "", by.Worker},
		{"state", by.State != "", string(by.State)},
	} {
		if c.given {
			w.And(c.column+" = ?", c.value)
		}
	}
	w.Says(by.Error)
	w.Within("at", by.Since, by.Until)
	if by.After != 0 {
		w.And("id > ?", by.After)
	}
	return w
}

// JSON is an entry as scripts see it: what doesn't apply is null. The field names are fixed; new ones may come.
type JSON struct {
	At       time.Time `json:"at"`
	Kind     Kind      `json:"kind"`
	State    State     `json:"state"`
	Queue    *string   `json:"queue"`
	WorkerID *string   `json:"worker_id"`
	Host     *string   `json:"host"`
	PID      *int64    `json:"pid"`
	JobID    *int64    `json:"job_id"`
	JobType  *string   `json:"job_type"`
	JobKey   *string   `json:"job_key"`
	Attempt  int       `json:"attempt"`
	WaitMS   int64     `json:"wait_ms"`
	RunMS    int64     `json:"run_ms"`
	Error    *string   `json:"error"`
	Output   *string   `json:"output"`
}

// JSON gives the entry's fields, its time in UTC.
func (e Entry) JSON() JSON {
	return JSON{
		At: e.At, Kind: e.Kind, State: e.State, Queue: texts.NullText(e.Queue), WorkerID: texts.NullText(e.WorkerID), Host: texts.NullText(e.Host),
		PID: texts.Nullable(e.PID == 0, int64(e.PID)), JobID: texts.Nullable(e.JobID == 0, e.JobID), JobType: texts.NullText(e.JobType), JobKey: texts.NullText(e.JobKey), Attempt: e.Attempt,
		WaitMS: e.WaitMS, RunMS: max(0, e.RunMS), Error: texts.NullText(e.Error), Output: texts.NullText(e.Output),
	}
}
