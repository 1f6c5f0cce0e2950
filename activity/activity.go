// Package activity is the append-only log of all transitions of workers and jobs. Write and WriteRows append to it, in the
// transaction of the transition itself; what adds jobs has an INSERT of its own there.
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

// NoRun is the RunMS of a job that was refused, or answered after its attempt had failed. It is 0 in JSON.
const NoRun = -1

// None is the word NONE: the text that an entry or a job doesn't have.
const None = texts.None

// Kind says whether an entry is about a worker, a job or a queue.
type Kind string

// The kinds.
const (
	Worker Kind = "worker"
	Job    Kind = "job"
	Queue  Kind = "queue"
)

// State is what happened. A worker is Starting, then Finished, with an error if a wait failed, or Error if it died or
// left attempts unsettled. A job is Added. Each attempt is Starting and, once decided, one of Finished (final), Error
// (the job is retried), Released (it runs again without an error), Failed (final with an error).
type State string

// The states.
const (
	Added    State = "added"
	Starting State = "starting"
	Finished State = "finished"
	Error    State = "error"
	Failed   State = "failed"
	Released State = "released"
	// Cancelled: an operator ended the job before it started, or between two attempts.
	Cancelled State = "cancelled"
	// Dismissed, Rescheduled, Retried: an operator did this to a job. Stopping: she asked the job's worker to stop it.
	Dismissed   State = "dismissed"
	Rescheduled State = "rescheduled"
	Retried     State = "retried"
	Stopping    State = "stopping"
	// Paused and Resumed: an operator did this to a queue.
	Paused  State = "paused"
	Resumed State = "resumed"
)

// Operated are the states that an operator makes. Their Output says who it was, and of how many jobs at once.
var Operated = []State{Cancelled, Dismissed, Rescheduled, Retried, Stopping, Paused, Resumed}

// States are all states.
var States = append([]State{Added, Starting, Finished, Error, Failed, Released}, Operated...)

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
	// WaitMS is how long a Starting job was due before it started, in milliseconds.
	WaitMS int64 `db:"wait_ms"`
	// RunMS is how long an outcome's attempt took, in milliseconds; NoRun if nothing ran.
	RunMS int64 `db:"run_ms"`
	Error string
	// Output is what the handler printed, or the tail of it. For Added, it names the schedule that added the job, if any; for
	// Operated, the operator.
	Output string
}

// RetryHandlerFailed begins the note, in parentheses, after an error about whose retry the policy decided instead.
const RetryHandlerFailed = "the retry handler failed, so the policy decided: "

// Cause is the error as the job has it, without the note that the retry handler failed.
func (e Entry) Cause() string {
	cause, _, _ := strings.Cut(e.Error, " ("+RetryHandlerFailed)
	return cause
}

var workerLost = texts.Pattern(`^worker lost: \S+( \(pid \d+ on \S+\))?$`)

// OfWorker says whether an attempt will be repeated because its worker stopped or died, which says nothing about the handler.
func (e Entry) OfWorker() bool {
	cause := e.Cause()
	return e.State == Error && (cause == "interrupted" || strings.HasPrefix(cause, "interrupted;") || workerLost().MatchString(cause))
}

// Log is the log of one instance.
type Log struct{ db *schema.DB }

// New returns the log in db's activity table.
func New(db *schema.DB) *Log { return &Log{db: db} }

// readColumns casts numbers, because somebody may have edited the rows.
const readColumns = "kind, state, queue, worker_id, host, CAST(pid AS SIGNED INTEGER) AS pid, CAST(job_id AS SIGNED INTEGER) AS job_id," +
	" job_type, job_key, CAST(attempt AS SIGNED INTEGER) AS attempt, CAST(wait_ms AS SIGNED INTEGER) AS wait_ms," +
	" CAST(run_ms AS SIGNED INTEGER) AS run_ms, error, output"

// Filter limits the entries that Find returns. A zero field doesn't filter.
type Filter struct {
	Kind    Kind
	Queue   string
	JobID   int64
	JobType string
	JobKey  string
	Worker  string
	State   State
	// Error selects entries whose error contains this text, literally.
	Error string
	// Since is inclusive, Until exclusive.
	Since, Until time.Time
	// After selects entries with a higher ID, to resume. Before selects those with a lower ID.
	After, Before int64
	// Limit selects that many of the newest entries.
	Limit int
}

func (l *Log) columns() string { return "id, " + l.db.SQL.TimeColumns("at") + ", " + readColumns }

// each reads entries and calls f with each, until it fails.
func (l *Log) each(ctx context.Context, query string, args []any, f func(Entry) error) error {
	type row struct {
		Entry
		At engine.Time
	}
	return engine.Each(ctx, l.db.SQL, query, args, func(r row) error {
		r.Entry.At = r.At.Time
		return f(r.Entry)
	})
}

// findPage is how many entries Find reads at once.
const findPage = 500

// Find calls f with each matching entry, oldest first, until f returns an error, which it returns. Without a limit or a job it
// reads pages up to the entry that is now the last, so that no statement waits for f.
func (l *Log) Find(ctx context.Context, by Filter, f func(Entry) error) error {
	if by.Limit > 0 || by.JobID != 0 {
		return l.find(ctx, by, nil, f)
	}
	var there span
	var w engine.Where
	w.Within("at", by.Since, by.Until)
	from := " FROM " + l.db.Activity() + " " + l.db.SQL.ByID
	if len(w.Args) > 0 {
		from = " FROM " + l.db.Activity() + " " + l.db.SQL.Index(l.db.Activity(), "at") + w.SQL()
	}
	query := "SELECT COALESCE((SELECT MIN(id)" + from + "), 1), COALESCE((SELECT MAX(id)" + from + "), 0)"
	err := l.db.SQL.QueryRowContext(ctx, query, append(w.Args, w.Args...)...).Scan(&there.first, &there.last)
	by.After = max(by.After, there.first-1)
	if by.Before == 0 || by.Before > there.last {
		by.Before = there.last + 1
	}
	for page := make([]Entry, findPage); err == nil && len(page) == findPage; {
		page, err = l.page(ctx, by.terms(), "id", findPage)
		for _, e := range page {
			by.After = e.ID
			if err := f(e); err != nil {
				return err
			}
		}
	}
	return texts.Wrap(err, "find activity")
}

// page reads the first entries in an order of ids.
func (l *Log) page(ctx context.Context, w engine.Where, order string, most int) (page []Entry, err error) {
	query := "SELECT " + l.columns() + " FROM " + l.db.Activity() + " " + l.db.SQL.ByID + w.SQL() + " ORDER BY " + order + " LIMIT ?"
	err = l.each(ctx, query, append(w.Args, most), func(e Entry) error {
		page = append(page, e)
		return nil
	})
	return page, err
}

// find is Find among the ids in these spans, if there are any.
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
	var own error // f's error
	err := l.each(ctx, query, args, func(e Entry) error {
		own = f(e)
		return own
	})
	if err != nil && own == nil {
		return fmt.Errorf("find activity: %w", err)
	}
	return err
}

func (by Filter) terms() (w engine.Where) {
	engine.Is(&w, "kind = ?", string(by.Kind))
	engine.Is(&w, "queue = ?", by.Queue)
	engine.Is(&w, "job_type = ?", by.JobType)
	engine.Is(&w, "job_key = ?", by.JobKey)
	engine.Is(&w, "worker_id = ?", by.Worker)
	engine.Is(&w, "state = ?", string(by.State))
	engine.Is(&w, "job_id = ?", by.JobID)
	w.Says(by.Error)
	w.Within("at", by.Since, by.Until)
	engine.Is(&w, "id > ?", by.After)
	engine.Is(&w, "id < ?", by.Before)
	return w
}

// JSON is an entry for scripts: what doesn't apply is null. Field names don't change; new ones may be added.
type JSON struct {
	At time.Time `json:"at"`
	// Kind is "worker", "job" or "queue".
	Kind Kind `json:"kind"`
	// State is "added", "starting", "finished", "error", "failed" or "released"; or, by an operator, "cancelled",
	// "dismissed", "rescheduled", "retried", "stopping", "paused" or "resumed".
	State State `json:"state"`
	// Queue is the queue of the job; null for a worker.
	Queue *string `json:"queue"`
	// WorkerID is the worker.
	WorkerID *string `json:"worker_id"`
	// Host is the worker's host.
	Host *string `json:"host"`
	// PID is the worker's process id.
	PID     *int64  `json:"pid"`
	JobID   *int64  `json:"job_id"`
	JobType *string `json:"job_type"`
	JobKey  *string `json:"job_key"`
	// Attempt is the attempt of the job, from 1. It is 0 before the first, and for a worker.
	Attempt int `json:"attempt"`
	// WaitMS is the time from due to start, if State is "starting".
	WaitMS int64 `json:"wait_ms"`
	// RunMS is how long the attempt ran, if State is its outcome. It is also 0 if nothing ran.
	RunMS int64   `json:"run_ms"`
	Error *string `json:"error"`
	// Output is the last 16 KiB that the handler printed, or who operated: "by anna, one of 240".
	Output *string `json:"output"`
}

// JSON returns the entry for scripts, its time in UTC.
func (e Entry) JSON() JSON {
	return JSON{
		At: e.At, Kind: e.Kind, State: e.State, Queue: texts.NullText(e.Queue), WorkerID: texts.NullText(e.WorkerID), Host: texts.NullText(e.Host),
		PID: texts.Nullable(e.PID == 0, int64(e.PID)), JobID: texts.Nullable(e.JobID == 0, e.JobID), JobType: texts.NullText(e.JobType), JobKey: texts.NullText(e.JobKey), Attempt: e.Attempt,
		WaitMS: e.WaitMS, RunMS: max(0, e.RunMS), Error: texts.NullText(e.Error), Output: texts.NullText(e.Output),
	}
}
