package activity

import (
	"time"

	"github.com/hipq/hipq/internal/null"
)

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
		At: e.At, Kind: e.Kind, State: e.State, Queue: null.Text(e.Queue), WorkerID: null.Text(e.WorkerID), Host: null.Text(e.Host),
		PID: null.If(e.PID == 0, int64(e.PID)), JobID: null.If(e.JobID == 0, e.JobID), JobType: null.Text(e.JobType), JobKey: null.Text(e.JobKey), Attempt: e.Attempt,
		WaitMS: e.WaitMS, RunMS: e.RunMS, Error: null.Text(e.Error), Output: null.Text(e.Output),
	}
}
