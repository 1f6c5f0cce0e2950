package handler

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/hipq/hipq/queue"
)

// message is a job as a handler reads it.
type message struct {
	ID               int64  `json:"id"`
	Queue            string `json:"queue"`
	Type             string `json:"job_type"`
	Key              string `json:"job_key"`
	Data             any    `json:"job_data"`
	Attempt          int    `json:"attempt"`
	Token            string `json:"token"`
	Priority         int    `json:"priority"`
	Timeout          int64  `json:"timeout"`
	ScheduledRunTime string `json:"scheduled_run_time"`
	CreateTime       string `json:"create_time"`
}

func newMessage(job *queue.Job) message {
	return message{
		ID: job.ID, Queue: job.Queue, Type: job.Type, Key: job.Key, Data: embed(job.Data), Attempt: job.Attempt, Token: job.Token,
		Priority: job.Priority, Timeout: int64(job.Timeout / time.Second),
		ScheduledRunTime: job.ScheduledRunTime.UTC().Format(time.RFC3339Nano), CreateTime: job.CreateTime.UTC().Format(time.RFC3339Nano),
	}
}

// encodeJob is the job as one line of JSON, its newline included.
func encodeJob(job *queue.Job) []byte { return encode(newMessage(job)) }

func encode(m any) []byte {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false) // job_data shall arrive as it is
	if err := encoder.Encode(m); err != nil {
		panic(err) // strings and numbers and JSON that was found valid: can't fail
	}
	return line.Bytes()
}

// embed gives job_data as what goes into the message: a JSON object or array as itself, all else as a string.
func embed(data string) any {
	start := strings.TrimLeft(data, " \t\r\n")
	if strings.HasPrefix(start, "{") || strings.HasPrefix(start, "[") {
		if raw := []byte(strings.ToValidUTF8(data, "\uFFFD")); json.Valid(raw) {
			return json.RawMessage(raw)
		}
	}
	return data
}
