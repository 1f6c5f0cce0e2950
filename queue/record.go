package queue

import (
	"fmt"
	"time"

	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// record is a Job as its table has it.
type record struct {
	ID               int64       `db:"id"`
	Type             string      `db:"job_type"`
	Data             string      `db:"job_data"`
	Key              string      `db:"job_key"`
	State            job.State   `db:"state"`
	Line             job.Line    `db:"line"`
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
func (r record) job(queue string) (*job.Job, error) {
	j := &job.Job{
		ID: r.ID, Queue: queue, Type: r.Type, Data: r.Data, Key: r.Key, State: r.State, Error: r.Error, Result: r.Result,
		Attempt: r.Attempt, ScheduledRunTime: r.ScheduledRunTime.Time, ShardKey: r.ShardKey, StartTime: r.StartTime.Time,
		CreateTime: r.CreateTime.Time, UpdateTime: r.UpdateTime.Time, WorkerID: r.WorkerID, Token: r.Token, Line: r.Line,
		Group: r.Group, AttemptToken: r.AttemptToken, Wish: r.Wish, Stopping: r.Stopping,
	}
	if r.Timeout != nil {
		j.Timeout = time.Duration(*r.Timeout) * time.Second
	}
	if r.Priority != nil {
		j.Priority = *r.Priority
	}
	if r.ThrottleFactor != nil {
		j.ThrottleFactor = *r.ThrottleFactor
	}
	if r.Windows != nil && *r.Windows != job.None {
		windows, err := job.DecodeWindows(*r.Windows)
		if err != nil && r.Line != job.LineNew { // one that no tick has taken in yet has not been checked
			return nil, fmt.Errorf("read job %d of %s: %w", r.ID, queue, err)
		}
		j.Windows = windows
	}
	return j, nil
}
