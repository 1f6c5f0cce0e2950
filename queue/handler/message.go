package handler

import (
	"encoding/json"
	"time"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

type message struct {
	ID               int64           `json:"id"`
	Queue            string          `json:"queue"`
	Type             string          `json:"job_type"`
	Key              string          `json:"job_key"`
	Data             json.RawMessage `json:"job_data"`
	Attempt          int             `json:"attempt"`
	Interrupts       int             `json:"interrupts"`
	Token            string          `json:"token"`
	Priority         int             `json:"priority"`
	TimeoutMS        int64           `json:"timeout_ms"`
	ScheduledRunTime string          `json:"scheduled_run_time"`
	CreateTime       string          `json:"create_time"`
}

func newMessage(j *job.Job) message {
	return message{
		ID: j.ID, Queue: j.Queue, Type: j.Type, Key: j.Key, Data: texts.NullJSON(j.Data), Attempt: j.Attempt, Interrupts: j.Interrupts, Token: j.AttemptToken,
		Priority: j.Priority, TimeoutMS: j.Timeout.Milliseconds(),
		ScheduledRunTime: j.ScheduledRunTime.UTC().Format(time.RFC3339Nano), CreateTime: j.CreateTime.UTC().Format(time.RFC3339Nano),
	}
}

// Message returns a job as handlers read it: one line of JSON with its newline.
func Message(j *job.Job) []byte { return encode(newMessage(j)) }

func encode(m any) []byte {
	line, err := texts.JSON(m)
	if err != nil {
		panic(err) // can't fail: strings, numbers and valid JSON
	}
	return line
}
