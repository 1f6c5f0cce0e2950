package handler

import (
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/job"
)

// FuzzReplies: whatever a handler prints, a failed exit status never becomes a success, and what is kept is UTF-8.
func FuzzReplies(f *testing.F) {
	for _, text := range []string{
		`{"outcome":"finished","result":{"a":1}}`, `{"outcome":"retry","retry_after":"5m","error":"no"}`, `{"outcome":"failed","id":7,"token":"t"}`,
		`{"outcome":"sent","retry_after":1.5}`, `{"progress":50,"message":"half","id":7}`, `{"id":7,"outcome":"finished"}`, `{"decision":"again","at":"2026-12-31T23:00:00Z","job_data":"x"}`,
		`{"decision":"final"}`, `{"decision":"again","retry_after":"1e9h","priority":1}`, "{\"outcome\":\"finished\"}\nwarning\r\n", "\uFEFF{\"outcome\":\"finished\"}", `{'outcome': 'finished'}`,
		`{"outcome":"finished","result":"\ud800"}`, "{\x00\"\x00o\x00u\x00t\x00c\x00o\x00m\x00e\x00\"\x00:\x00",
	} {
		f.Add([]byte(text), uint8(0), uint8(7))
	}
	f.Add([]byte("a\377\376b\000c \303\244\n\360\237"), uint8(3), uint8(7))
	j := &job.Job{ID: 7, AttemptToken: "t"}
	f.Fuzz(func(t *testing.T, text []byte, status, piece uint8) {
		out := new(output)
		for rest := text; len(rest) > 0; {
			room := out.Room()
			n := copy(room[:min(len(room), int(piece)+1)], rest)
			out.Took(n)
			rest = rest[n:]
		}
		got, _, _ := outcomeOf(ending{WaitStatus: syscall.WaitStatus(int(status) << 8)}, out.end(), j)
		dbtest.Ensure(t, status == 0 || got.Verdict != job.Finished && got.Verdict != job.Sent, "exit status %d is %s", status, got.Verdict)
		dbtest.Ensure(t, utf8.ValidString(got.Error) && utf8.ValidString(got.Output), "%+v", got)
		if answer, err := parseLine(text); err == nil && answer.progress == nil && answer.said == "" {
			dbtest.Ensure(t, answer.id == 0, "an answer to job %d without an outcome", answer.id)
		}
		if d, err := parseDecision(string(text)); err == nil {
			dbtest.OK(t, d.Check())
		}
	})
}
