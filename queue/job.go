package queue

import (
	"fmt"
	"time"

	"github.com/hipq/hipq/schema"
)

// None stands for a text that a job doesn't have.
const None = "NONE"

// Limits of a job's fields, in bytes.
const (
	MaxTypeBytes = 64
	MaxKeyBytes  = 255
	MaxDataBytes = 1 << 20
)

// Job is one unit of work: a row of its queue's table.
type Job struct {
	// ID is numeric, unique within the queue, never reused.
	ID int64
	// Queue is the queue's name.
	Queue string
	// Type decides which handler runs.
	Type string
	// Data is any JSON or text that the handler needs.
	Data string
	// Key is unique per type among the jobs that are not final.
	Key   string
	State State
	// Timeout is how long an attempt may last, in whole seconds.
	Timeout time.Duration
	// Error is None, or what went wrong: with Final, for good.
	Error string
	// Result is None, or what the handler gave back.
	Result string
	// Attempt counts the starts: 0 is never yet, 3 is on (or after) the third.
	Attempt int
	// ScheduledRunTime is when the job should run next; in Final, when it was last meant to.
	ScheduledRunTime time.Time
	// Priority: the lower number first.
	Priority int
	// ThrottleFactor is the weight counted against the queue's throttle limit.
	ThrottleFactor int
	// Windows are the times of day within which it must start; none means always.
	Windows  Windows
	ShardKey string
	// StartTime is when the current attempt, or the last, began. Zero before the first.
	StartTime  time.Time
	CreateTime time.Time
	UpdateTime time.Time
	// WorkerID is the worker that has it locked, or settled its last attempt; None if there is none.
	WorkerID string
	// Token is the lock of the current attempt, or of the last; None if there is none.
	Token string
	// Line is where the row stands for the queries that poll; docs/schema.md explains it.
	Line string
	// Group is its throttle group, once a lock has found it out; None before.
	Group string

	// attemptToken is the lock of the latest attempt, also while the job is locked for the next.
	attemptToken string
	// wish is what its handler said of the retry; stopping that an operator wants it stopped.
	wish     string
	stopping bool
}

// IsNew says whether the job was inserted by plain SQL, and no worker has taken it in yet.
func (j *Job) IsNew() bool { return j.Line == lineNew }

// IsSent says whether the job is running elsewhere, and waits for an answer from there.
func (j *Job) IsSent() bool { return j.Line == lineWaiting }

// record is a Job as its table has it.
type record struct {
	ID               int64       `db:"id"`
	Type             string      `db:"job_type"`
	Data             string      `db:"job_data"`
	Key              string      `db:"job_key"`
	State            State       `db:"state"`
	Line             string      `db:"line"`
	Timeout          *int64      `db:"timeout"`
	Priority         *int        `db:"priority"`
	ThrottleFactor   *int        `db:"throttle_factor"`
	Windows          *string     `db:"time_windows"`
	ShardKey         string      `db:"shard_key"`
	Attempt          int         `db:"attempt"`
	ScheduledRunTime schema.Time `db:"scheduled_run_time"`
	StartTime        schema.Time `db:"start_time"`
	WorkerID         string      `db:"worker_id"`
	Token            string      `db:"lock_token"`
	Error            string      `db:"error"`
	Result           string      `db:"result"`
	Group            string      `db:"throttle_group"`
	AttemptToken     string      `db:"attempt_token"`
	Wish             string      `db:"wish"`
	Stopping         bool        `db:"stopping"`
	CreateTime       schema.Time `db:"create_time"`
	UpdateTime       schema.Time `db:"update_time"`
}

const recordColumns = "id, job_type, job_data, job_key, state, line, timeout, priority, throttle_factor, time_windows, shard_key, " +
	"attempt, scheduled_run_time, start_time, worker_id, lock_token, error, result, throttle_group, attempt_token, wish, stopping, " +
	"create_time, update_time"

// job reads a record. A row inserted by plain SQL that was not taken in yet has its numbers still open: they read as 0.
func (r record) job(queue string) (*Job, error) {
	job := &Job{
		ID: r.ID, Queue: queue, Type: r.Type, Data: r.Data, Key: r.Key, State: r.State, Error: r.Error, Result: r.Result,
		Attempt: r.Attempt, ScheduledRunTime: r.ScheduledRunTime.Time, ShardKey: r.ShardKey, StartTime: r.StartTime.Time,
		CreateTime: r.CreateTime.Time, UpdateTime: r.UpdateTime.Time, WorkerID: r.WorkerID, Token: r.Token, Line: r.Line,
		Group: r.Group, attemptToken: r.AttemptToken, wish: r.Wish, stopping: r.Stopping,
	}
	if r.Timeout != nil {
		job.Timeout = time.Duration(*r.Timeout) * time.Second
	}
	if r.Priority != nil {
		job.Priority = *r.Priority
	}
	if r.ThrottleFactor != nil {
		job.ThrottleFactor = *r.ThrottleFactor
	}
	if r.Windows != nil && *r.Windows != None {
		windows, err := DecodeWindows(*r.Windows)
		if err != nil && r.Line != lineNew { // one that no tick has taken in yet has not been checked
			return nil, fmt.Errorf("read job %d of %s: %w", r.ID, queue, err)
		}
		job.Windows = windows
	}
	return job, nil
}
