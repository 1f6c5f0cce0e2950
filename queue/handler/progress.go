package handler

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/queue/job"
)

// Progress says how far a handler in Go has come: percent, from 0 to 100, and a note of what it is at, or "". ctx is the
// context that the handler was called with, or one made from it. It returns at once and may be called as often as one likes,
// from any goroutine: once a second at most, the worker writes the latest to the job's row, where hipq show, why and status
// find it. Of a note the first 255 characters are kept. Percent that can't be are ignored, as is what comes after the attempt
// has ended. It has no influence on the job.
func Progress(ctx context.Context, percent int, note string) {
	if said := handling.Say(ctx); said != nil {
		if p, ok := job.NewProgress(float64(percent), note); ok {
			said(p)
		}
	}
}

// maxProgress is how long a line of progress may be, in bytes. A longer one is a line like any other.
const maxProgress = 16 << 10

// progressLine is what a handler says of its progress while it works, as a line:
//
//	{"progress": 40, "note": "page 4 of 10"}
type progressLine struct {
	Progress json.RawMessage `json:"progress"`
	Note     json.RawMessage `json:"note"`
	addressee
	said       job.Progress
	understood bool
	// only says that the line has nothing else in it: then the log can do without it.
	only bool
}

// parseProgress reads a line. It is one of progress if it is a JSON object with that key and no outcome: with one it is a
// reply.
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

// progressIn gives what takes the lines of progress out of what a job's handler prints: it gets each line, and says of those
// that the log can do without that it has taken them. It is nil where progress isn't wanted.
func progressIn(ctx context.Context, j *job.Job) (take func(line []byte) bool) {
	said := handling.Say(ctx)
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
