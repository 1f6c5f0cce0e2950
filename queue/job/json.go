package job

import (
	"encoding/json"
	"time"

	"github.com/hipq/hipq/internal/texts"
)

// JSON is a job as scripts see it; what a handler gets is queue/handler's message. The field names are fixed; new ones may come.
type JSON struct {
	ID               int64           `json:"id"`
	Queue            string          `json:"queue"`
	Type             string          `json:"job_type"`
	Key              string          `json:"job_key"`
	Data             json.RawMessage `json:"job_data"`
	State            State           `json:"state"`
	TimeoutMS        *int64          `json:"timeout_ms"`
	Error            *string         `json:"error"`
	Result           json.RawMessage `json:"result"`
	Attempt          int             `json:"attempt"`
	ScheduledRunTime time.Time       `json:"scheduled_run_time"`
	Priority         *int            `json:"priority"`
	ThrottleFactor   *int            `json:"throttle_factor"`
	Windows          []string        `json:"time_windows"`
	ShardKey         string          `json:"shard_key"`
	// Shard is which of so many Shards it is in, or was placed in when there were so many; null before a row of plain SQL's is taken in.
	Shard      *int      `json:"shard"`
	Shards     *int      `json:"shards"`
	CreateTime time.Time `json:"create_time"`
	UpdateTime time.Time `json:"update_time"`
	WorkerID   *string   `json:"worker_id"`
	RetryOf    *int64    `json:"retry_of"`
	RetriedAs  *int64    `json:"retried_as"`
	Dismissed  bool      `json:"dismissed"`
	// Flaw is there if the row can't be a job's, and says why.
	Flaw string `json:"flaw,omitempty"`
	// ProgressJSON is that of the current attempt, or of the last.
	ProgressJSON
}

// ProgressJSON is how far an attempt has come, as it has said; all of it is null if it has said nothing.
type ProgressJSON struct {
	Progress     *int       `json:"progress"`
	ProgressNote *string    `json:"progress_note"`
	ProgressTime *time.Time `json:"progress_time"`
}

// JSON gives the progress of an attempt.
func (p Progress) JSON() ProgressJSON {
	if p.Attempt == 0 {
		return ProgressJSON{}
	}
	at := p.Time.UTC()
	return ProgressJSON{&p.Percent, texts.NullText(p.Note), &at}
}

// JSON gives the job's fields, times in UTC. What is left to the job's type is null, as is what there is none of. Without a
// shard key of its own a job's is its key.
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

// Time is a time in JSON: in UTC, and null if it is zero.
type Time struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return t.UTC().MarshalJSON()
}
