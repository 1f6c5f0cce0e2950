//go:build !windows

package handler

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

// maxLastWords is how much output is read after a program's end: as much as a Linux pipe can hold.
const maxLastWords = 1 << 20

func (t *talk) listen() {
	defer close(t.heard)
	from := bufio.NewReaderSize(&lastWords{file: t.pipes.Out, left: maxLastWords}, 32<<10)
	var line streamLine
	for {
		var err error
		if line, err = readLine(from, line.text); err != nil {
			break
		}
		_ = t.log.Control(func(fd uintptr) { t.takeLog(int(fd)) }) // first, what it logged before this line
		t.hear(line)
	}
	select {
	case <-t.ended:
	case <-time.After(silence):
		t.mu.Lock()
		defer t.mu.Unlock()
		t.silent = true
		t.retireFor("the program has closed its standard output")
	}
}

func (t *talk) hear(line streamLine) {
	r, err := parseLine(line.text)
	if line.rest != nil && likeReply(line.text) {
		err = errLong
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.remark == "" && (!t.answered || line.open) {
		t.hint = cmp.Or(hintOf(line, t.answered), t.hint)
	}
	if hint := missed(line); hint != "" {
		for _, f := range t.flights {
			f.hint = hint
		}
	}
	switch {
	case err != nil || r.id != 0:
		t.isReady(false)
	case isReady(line.text):
		t.isReady(true)
		return
	default:
		t.note(line.addTo)
		return
	}
	f := t.flights[r.id]
	switch {
	case err != nil:
		t.misunderstand(fmt.Sprintf("a line of the program can't be read: %v: %s", err, texts.Clean(quoted(string(line.text)))))
	case f == nil && r.progress != nil:
		t.misunderstand(fmt.Sprintf("the program reported progress of job %d, which it doesn't have", r.id))
	case f == nil && r.id == t.before:
		t.misunderstand(fmt.Sprintf("the program answered twice for job %d", r.id))
	case f == nil:
		t.misunderstand(fmt.Sprintf("the program answered for job %d, which it doesn't have", r.id))
	case r.progress != nil:
		t.hearProgress(f, r, line)
	case r.Token != nil && jsonText(r.Token) != f.token:
		t.misunderstand(fmt.Sprintf("the program answered for job %d with a token that is not the attempt's", r.id))
	default:
		if t.before = r.id; t.remark != "" {
			f.log = logged(f.log, []byte(t.remark))
		} else if !line.open {
			t.hint = ""
		}
		if !t.answered {
			t.answered = true
			t.stream.wasUseful()
		}
		if f.hooks.Note != nil {
			answer := texts.Clean(string(line.text))
			f.hooks.Note(func(h *handling.Heard) { h.Answer, h.ReadFrom = answer, "the answer" })
		}
		outcome := job.Outcome{Verdict: job.Finished}
		r.amend(&outcome)
		t.land(r.id, f, landing{outcome: outcome, open: line.open})
		t.stop()
	}
}

// misunderstand gives the program no more jobs because of its output. Its jobs may still end well, so the reason is also
// noted with its next answered jobs, or else with the stream's next job.
func (t *talk) misunderstand(reason string) {
	if t.retired {
		return // already known
	}
	if log := t.stream.Log; log != nil {
		log.Warn("a stream's program gets no more jobs", "program", t.stream.Argv, "reason", reason)
	}
	t.hint, t.remark = reason, "["+reason+": it gets no more jobs]\n"
	if len(t.flights) == 0 {
		t.stream.mu.Lock()
		t.stream.note = t.remark
		t.stream.mu.Unlock()
	}
	t.retireFor(reason)
}

// hearProgress handles a progress line. Unreadable progress, or another attempt's, goes to the log.
func (t *talk) hearProgress(f *flight, r streamReply, line streamLine) {
	ofIt := r.progress.understood && (r.Token == nil || jsonText(r.Token) == f.token)
	if ofIt && f.hooks.Say != nil {
		f.hooks.Say(r.progress.said)
	}
	if !ofIt || !r.progress.only {
		t.note(line.addTo)
	}
}

func (t *talk) follow() {
	for more := true; more; {
		err := t.log.Read(func(fd uintptr) bool {
			var got bool
			got, more = t.takeLog(int(fd))
			return got || !more
		})
		if err != nil {
			return
		}
	}
}

// takeLog reads what is available of the program's stderr, or part of it. more is false at its end.
func (t *talk) takeLog(fd int) (got, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for range 16 {
		n, err := syscall.Read(fd, t.buf[:])
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return got, true
		case n <= 0:
			return got, false
		default:
			got = true
			t.note(func(log *output) *output { return logged(log, t.buf[:n]) })
		}
	}
	return got, true
}

// note adds a log text to the log of each of the program's jobs.
func (t *talk) note(add func(log *output) *output) {
	if len(t.flights) == 0 {
		t.idle = add(t.idle)
	}
	for _, f := range t.flights {
		f.log = add(f.log)
	}
}

// lastWords reads a program's output and, after the file's deadline, what remains in the pipe.
type lastWords struct {
	file *os.File
	left int // limit for that, because other processes may go on writing
}

func (w *lastWords) Read(b []byte) (n int, err error) {
	n, err = w.file.Read(b)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	b = b[:min(len(b), w.left)]
	_ = control(w.file, func(fd uintptr) {
		for n, err = syscall.Read(int(fd), b); err == syscall.EINTR; { //nolint:errorlint // an errno
			n, err = syscall.Read(int(fd), b)
		}
	})
	if err != nil || n <= 0 {
		return 0, io.EOF
	}
	w.left -= n
	return n, nil
}

// control calls f with a file's descriptor, unless the file is closed.
func control(file *os.File, f func(fd uintptr)) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	return conn.Control(f)
}
