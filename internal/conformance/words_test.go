package conformance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/hipq/hipq/queue/job"
)

// words are what a job makes its handler report and do, in this order, for any kind of handler.
type words struct {
	// Log is written to the log first.
	Log      []byte `json:"log,omitempty"`
	Progress int    `json:"progress,omitempty"` // percent; 0 reports none
	Note     []byte `json:"note,omitempty"`     // goes with Progress
	Flood    int    `json:"flood,omitempty"`    // bytes to log without a newline
	// Crash is the text of a panic.
	Crash string `json:"crash,omitempty"`
	// Hangs makes the first attempt wait until it is told to stop.
	Hangs bool   `json:"hangs,omitempty"`
	Deaf  bool   `json:"deaf,omitempty"`  // hangs even then
	Begun string `json:"begun,omitempty"` // a file that is created before
	Late  bool   `json:"late,omitempty"`  // reports when it is told to stop
	// Verdict is the final verdict; empty means finished.
	Verdict job.Verdict `json:"verdict,omitempty"`
	Result  []byte      `json:"result,omitempty"` // any bytes, as a careless program prints them
	Error   []byte      `json:"error,omitempty"`  // likewise
	After   int         `json:"after,omitempty"`  // a delay in seconds
	Count   bool        `json:"count,omitempty"`  // the release counts as an attempt
	// Object makes the result JSON.
	Object bool   `json:"object,omitempty"`
	Fill   int    `json:"fill,omitempty"`   // the result has so many bytes
	Digest bool   `json:"digest,omitempty"` // the result is the digest of Text
	Text   string `json:"text,omitempty"`
	// Plain reports without a reply: by exit status or HTTP status.
	Plain bool `json:"plain,omitempty"`
}

// data is the words as a job's data.
func (w words) data() string {
	text, err := json.Marshal(w)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// message is a job as its handler reads it.
type message struct {
	ID      int64  `json:"id"`
	Token   string `json:"token"`
	Attempt int    `json:"attempt"`
	Words   words  `json:"job_data"`
}

// work does everything before the verdict. told ends when the handler must stop; then there is no verdict. progress
// reports the progress.
func (m message) work(told context.Context, log io.Writer, progress func(percent int, note string)) (ended bool) {
	w := m.Words
	if len(w.Log) > 0 {
		_, _ = log.Write(w.Log)
	}
	if w.Progress > 0 {
		progress(w.Progress, string(w.Note))
	}
	if w.Flood > 0 {
		block := bytes.Repeat([]byte("x"), 1<<16)
		for n := 0; n < w.Flood; n += len(block) {
			if _, err := log.Write(block); err != nil {
				return false
			}
		}
		_, _ = io.WriteString(log, "\n")
	}
	if w.Crash != "" {
		panic(w.Crash)
	}
	if !w.Hangs || m.Attempt > 1 {
		return true
	}
	if err := os.WriteFile(w.Begun, nil, 0o600); err != nil {
		panic(err)
	}
	select {
	case <-told.Done():
		return w.Late
	case <-time.After(patience): // nothing should outlive the tests for long
	}
	return false
}

// result is the handler's result.
func (w words) result() string {
	switch {
	case w.Fill > 0:
		return strings.Repeat("x", w.Fill)
	case w.Digest:
		return digest(w.Text)
	}
	return string(w.Result)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// verdict is the handler's verdict.
func (w words) verdict() job.Verdict {
	if w.Verdict == "" {
		return job.Finished
	}
	return w.Verdict
}

// reply is the verdict as a line of JSON. In a stream it has the job's id and token.
func (m message) reply(stream bool) string {
	w, line := m.Words, ""
	if stream {
		line = fmt.Sprintf(`"id":%d,"token":"%s",`, m.ID, m.Token)
	}
	line += fmt.Sprintf(`"outcome":"%s"`, w.verdict())
	switch result := w.result(); {
	case w.Object:
		line += `,"result":` + result
	case result != "":
		line += `,"result":` + quote(result)
	}
	if len(w.Error) > 0 {
		line += `,"error":` + quote(string(w.Error))
	}
	if w.Count {
		line += `,"count":true`
	}
	if w.After > 0 {
		line += fmt.Sprintf(`,"retry_after":%d`, w.After)
	}
	return "{" + line + "}\n"
}

// progress reports progress as a line of a program's output.
func (m message) progress(to io.Writer, stream bool) func(percent int, note string) {
	return func(percent int, note string) {
		id := ""
		if stream {
			id = fmt.Sprintf(`"id":%d,`, m.ID)
		}
		_, _ = fmt.Fprintf(to, "{%s"+`"progress":%d,"note":%s}`+"\n", id, percent, quote(note))
	}
}

// quote makes a JSON string of any bytes, as languages that don't check them do.
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\x00", `\u0000`).Replace(text) + `"`
}
