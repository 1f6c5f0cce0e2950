package handler

import (
	"context"
	"time"

	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/queue/job"
)

// SetPing sets how long an HTTP/2 connection may be silent.
func (h *HTTP) SetPing(after time.Duration) { h.ping = after }

// Waiting is how many jobs wait for a program.
func (s *Stream) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.line)
}

// ParseDecision parses the last line of a retry handler's output.
var ParseDecision = parseDecision

// LastLine returns the last nonempty line.
var LastLine = lastLine

// Printed returns what output keeps of a text that comes in pieces of these sizes.
func Printed(text string, size func() int) (kept, last string, long bool) {
	return printedBy(new(output), text, size)
}

func printedBy(out *output, text string, size func() int) (kept, last string, long bool) {
	for len(text) > 0 {
		room := out.Room()
		n := copy(room[:min(len(room), size())], text)
		out.Took(n)
		text = text[n:]
	}
	p := out.end()
	return p.text, p.last, p.long
}

// PrintedWithProgress is Printed with progress.
func PrintedWithProgress(text string, size func() int, said func()) (kept, last string, long bool) {
	ctx := handling.With(context.Background(), handling.Hooks{Say: func(job.Progress) { said() }})
	return printedBy(&output{take: progressIn(ctx, &job.Job{})}, text, size)
}

// Over names the exceeded limit.
var Over = Limits.over
