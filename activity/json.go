package activity

import (
	"time"

	"github.com/hipq/hipq/internal/texts"
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
		At: e.At, Kind: e.Kind, State: e.State, Queue: texts.NullText(e.Queue), WorkerID: texts.NullText(e.WorkerID), Host: texts.NullText(e.Host),
		PID: texts.Nullable(e.PID == 0, int64(e.PID)), JobID: texts.Nullable(e.JobID == 0, e.JobID), JobType: texts.NullText(e.JobType), JobKey: texts.NullText(e.JobKey), Attempt: e.Attempt,
		WaitMS: e.WaitMS, RunMS: e.RunMS, Error: texts.NullText(e.Error), Output: texts.NullText(e.Output),
	}
}
