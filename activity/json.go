package activity

import "github.com/hipq/hipq/internal/engine"

// JSON is an entry as scripts see it: what doesn't apply is null. The field names are fixed; new ones may come.
type JSON struct {
	At       engine.Time `json:"at"`
	Kind     Kind        `json:"kind"`
	State    State       `json:"state"`
	Queue    *string     `json:"queue"`
	WorkerID *string     `json:"worker_id"`
	Host     *string     `json:"host"`
	PID      *int64      `json:"pid"`
	JobID    *int64      `json:"job_id"`
	JobType  *string     `json:"job_type"`
	JobKey   *string     `json:"job_key"`
	Attempt  int         `json:"attempt"`
	WaitMS   int64       `json:"wait_ms"`
	RunMS    int64       `json:"run_ms"`
	Error    *string     `json:"error"`
	Output   *string     `json:"output"`
}

// JSON gives the entry's fields, its time in UTC.
func (e Entry) JSON() JSON {
	return JSON{
		At: e.At, Kind: e.Kind, State: e.State, Queue: text(e.Queue), WorkerID: text(e.WorkerID), Host: text(e.Host),
		PID: number(int64(e.PID)), JobID: number(e.JobID), JobType: text(e.JobType), JobKey: text(e.JobKey), Attempt: e.Attempt,
		WaitMS: e.WaitMS, RunMS: e.RunMS, Error: text(e.Error), Output: text(e.Output),
	}
}

func text(s string) *string {
	if s == None {
		return nil
	}
	return &s
}

func number(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}
