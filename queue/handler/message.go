package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/hipq/hipq/internal/handling"
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

// Progress reports how far a Go handler has come: percent from 0 to 100, and a note or "". ctx is the handler's context or
// derived from it. It returns at once, is safe for concurrent use and may be called at any rate: the worker stores the latest
// report once a second. Notes are cut to 255 characters. Invalid percentages and reports after the attempt's end are ignored.
// It doesn't affect the job.
func Progress(ctx context.Context, percent int, note string) {
	if said := handling.Of(ctx).Say; said != nil {
		if p, ok := job.NewProgress(float64(percent), note); ok {
			said(p)
		}
	}
}

// maxProgress is the longest progress line, in bytes. A longer line is an ordinary line.
const maxProgress = 16 << 10

// progressLine is a handler's report of progress on a line:
//
//	{"progress": 40, "note": "page 4 of 10"}
type progressLine struct {
	Progress json.RawMessage `json:"progress"`
	Note     json.RawMessage `json:"note"`
	addressee
	said       job.Progress
	understood bool
	// only says that the line has no other keys, so the log can omit it.
	only bool
}

// parseProgress parses a line. It is progress if it is a JSON object with that key; with an outcome it is a reply instead.
func parseProgress(line []byte) (p progressLine, is bool) {
	if !likeReply(line) || !bytes.Contains(line, []byte(`"progress"`)) {
		return p, false
	}
	if p.only = decodeOnly(line, &p); !p.only {
		var more struct {
			progressLine
			Outcome json.RawMessage `json:"outcome"`
		}
		if json.Unmarshal(line, &more) != nil || more.Outcome != nil {
			return p, false
		}
		p = more.progressLine
	}
	var percent *float64
	if json.Unmarshal(p.Progress, &percent) == nil && percent != nil && len(line) <= maxProgress {
		p.said, p.understood = job.NewProgress(*percent, jsonText(p.Note))
	}
	return p, p.Progress != nil
}

// progressIn returns the function that takes progress lines out of a handler's output. It returns true for lines that the log
// can omit. It is nil without a listener.
func progressIn(ctx context.Context, j *job.Job) (take func(line []byte) bool) {
	said := handling.Of(ctx).Say
	if said == nil {
		return nil
	}
	return func(line []byte) bool {
		p, _ := parseProgress(line)
		if !p.understood || !p.isOf(j) {
			return false
		}
		said(p.said)
		return p.only
	}
}
