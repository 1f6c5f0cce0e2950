package job

import (
	"encoding/json"
	"time"

	"github.com/hipq/hipq/internal/texts"
)

// JSON is a job as scripts see it; handlers get a different message. Field names are stable; fields may be added.
type JSON struct {
	// ID is unique in its queue and never used again.
	ID    int64  `json:"id"`
	Queue string `json:"queue"`
	Type  string `json:"job_type"`
	// Key is the given key, or a UUID.
	Key string `json:"job_key"`
	// Data is an object or a list as it is, and other text as a string.
	Data json.RawMessage `json:"job_data"`
	// State is "initial", "running", "error", "retry" or "final".
	State State `json:"state"`
	// TimeoutMS is the limit of one attempt. If plain SQL left it out, it is null until a worker takes the row in.
	TimeoutMS *int64 `json:"timeout_ms"`
	// Error is the last error, with at most 500 bytes of the handler's output.
	Error *string `json:"error"`
	// Result is the result of the handler or the answer, in the same form as Data.
	Result json.RawMessage `json:"result"`
	// Attempt is the number of attempts so far.
	Attempt int `json:"attempt"`
	// ScheduledRunTime is the next run. Of a final job, it is the last scheduled time.
	ScheduledRunTime time.Time `json:"scheduled_run_time"`
	// Priority is null under the same condition as TimeoutMS.
	Priority *int `json:"priority"`
	// ThrottleFactor is null under the same condition as TimeoutMS.
	ThrottleFactor *int `json:"throttle_factor"`
	// Windows are the times at which the job may start; empty means at any time. The list is null like TimeoutMS.
	Windows []string `json:"time_windows"`
	// ShardKey is the given shard key, or Key.
	ShardKey string `json:"shard_key"`
	// Shard is the job's shard, from 0, when it was placed; null until a worker takes the row in.
	Shard *int `json:"shard"`
	// Shards is the number of shards at that time; null until a worker takes the row in.
	Shards     *int      `json:"shards"`
	CreateTime time.Time `json:"create_time"`
	// UpdateTime is when the job last changed its state.
	UpdateTime time.Time `json:"update_time"`
	// WorkerID is the worker of the current or last attempt.
	WorkerID *string `json:"worker_id"`
	// RetryOf is the job that this one repeats.
	RetryOf *int64 `json:"retry_of"`
	// RetriedAs is the job that repeats this one.
	RetriedAs *int64 `json:"retried_as"`
	// Dismissed is true if the job's failure was dismissed.
	Dismissed bool `json:"dismissed"`
	// Flaw is why the row isn't a valid job; missing if it is one.
	Flaw string `json:"flaw,omitempty"`
	// ProgressJSON is that of the latest attempt.
	ProgressJSON
}

// ProgressJSON is the progress that an attempt reported; all fields are null without a report.
type ProgressJSON struct {
	// Progress is the percentage that the current or last attempt reported.
	Progress *int `json:"progress"`
	// ProgressNote is the text of that report.
	ProgressNote *string `json:"progress_note"`
	// ProgressTime is when that report was written.
	ProgressTime *time.Time `json:"progress_time"`
}

// JSON returns the progress as JSON fields.
func (p Progress) JSON() ProgressJSON {
	if p.Attempt == 0 {
		return ProgressJSON{}
	}
	at := p.Time.UTC()
	return ProgressJSON{&p.Percent, texts.NullText(p.Note), &at}
}

// JSON returns the job's fields, with times in UTC. Missing values and values left to the job type are null. The shard key
// defaults to the job's key.
func (j *Job) JSON() JSON {
	shard, flaw := j.ShardKey, ""
	if j.Invalid != nil {
		flaw = j.Invalid.Error()
	}
	if shard == None {
		shard = j.Key
	}
	o := JSON{
		ID: j.ID, Queue: j.Queue, Type: j.Type, Key: j.Key, Data: texts.NullJSON(j.Data), State: j.State(),
		TimeoutMS: texts.Nullable(j.Left.Timeout, j.Timeout.Milliseconds()), Error: texts.NullText(j.Error), Result: texts.NullJSON(j.Result), Attempt: j.Attempt,
		ScheduledRunTime: j.ScheduledRunTime.UTC(), Priority: texts.Nullable(j.Left.Priority, j.Priority),
		ThrottleFactor: texts.Nullable(j.Left.ThrottleFactor, j.ThrottleFactor), ShardKey: shard, CreateTime: j.CreateTime.UTC(),
		UpdateTime: j.UpdateTime.UTC(), WorkerID: texts.NullText(j.WorkerID), RetryOf: texts.Nullable(j.RetryOf == 0, j.RetryOf),
		RetriedAs: texts.Nullable(j.RetriedAs == 0, j.RetriedAs), Dismissed: j.IsDismissed(), Flaw: flaw,
		Shard: texts.Nullable(j.IsNew(), j.Shard()), Shards: texts.Nullable(j.IsNew(), j.Shards()),
	}
	if p, ok := j.Reached(); ok {
		o.ProgressJSON = p.JSON()
	}
	if !j.Left.Windows {
		o.Windows = j.Windows.Strings()
	}
	return o
}

// Time is a time in JSON: in UTC, or null if zero.
type Time struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return t.UTC().MarshalJSON()
}
