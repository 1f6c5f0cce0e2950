//go:build !windows

package handler

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/internal/program"
	"github.com/hipq/hipq/queue/job"
)

// talk is what goes on with one program of a Stream.
type talk struct {
	stream *Stream
	taken  int // so many jobs have room in it; under the stream's mutex

	program *program.Program
	pipes   program.Dialogue
	log     syscall.RawConn // of the program's stderr
	ended   chan struct{}   // closed when its process has ended
	heard   chan struct{}   // closed when nothing of its stdout is left to be read
	over    sync.Once       // the stream waits for it no more

	writing sync.Mutex
	written int64 // so many bytes went to its stdin

	mu       sync.Mutex
	flights  map[int64]*flight // by the job's id
	answered bool              // it has given an answer
	retired  bool              // it gets no more jobs, for this reason
	reason   string
	silent   bool // it can't answer any more
	stopping bool
	kill     *time.Timer
	buf      [4096]byte // for what it logs
	idle     *output    // what it has logged while it had no job; nil is nothing
}

// flight is a job that a program has.
type flight struct {
	token string
	// from is where its line begins in what went to the program's stdin.
	from int64
	// over says that it has to be stopped.
	over bool
	done chan landing
	log  *output // nil is nothing
}

// landing is how a flight ends: with an outcome; or not at all, for the program has not read the job.
type landing struct {
	outcome job.Outcome
	unread  bool
}

// lastWords is how long the output of a program that has ended is read on: what it left behind outside of its group may
// hold the pipe for as long as it likes.
const lastWords = 100 * time.Millisecond

// silence is how long a program may live on when it has closed its stdout.
const silence = time.Second

// open starts a program.
func (s *Stream) open(ctx context.Context) (*talk, error) {
	if err := s.Guard.ofWorker().Start(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil { // starting the guard takes a while
		return nil, context.Cause(ctx)
	}
	t := &talk{stream: s, ended: make(chan struct{}), heard: make(chan struct{}), flights: map[int64]*flight{}}
	var err error
	t.program, err = s.start(func(path string) (p *program.Program, err error) {
		p, t.pipes, err = program.StartDialogue(s.Guard.ofWorker(), path, s.Argv, s.Dir, s.environment(nil))
		return p, err
	})
	if err != nil {
		return nil, err
	}
	t.log, err = t.pipes.Err.SyscallConn()
	return t, err
}

// begin listens to the program.
func (t *talk) begin() {
	go t.listen()
	go t.follow()
	go t.await()
}

// ask gives the program a job and waits for the answer. unread says that it has not read the job.
func (t *talk) ask(ctx context.Context, j *job.Job, line []byte) (outcome job.Outcome, unread bool) {
	f := &flight{token: j.AttemptToken, from: math.MaxInt64, done: make(chan landing, 1)}
	if !t.add(j.ID, f) {
		return outcome, true
	}
	unwatch := context.AfterFunc(ctx, func() { t.stopFor(ctx, j.ID, f) })
	t.send(f, line)
	landed := <-f.done
	unwatch()
	t.mu.Lock()
	log, over := f.log, f.over
	t.mu.Unlock()
	if landed.unread && ctx.Err() == nil {
		return outcome, true
	}
	switch outcome = landed.outcome; {
	case over || landed.unread:
		outcome = tryAgain(context.Cause(ctx).Error())
	case t.stream.Guard.ofWorker().MayStop():
		outcome = tryAgain(errGuardStops.Error())
		if ctx.Err() != nil {
			outcome = tryAgain(context.Cause(ctx).Error())
		}
	}
	if log != nil {
		outcome.Output = log.end().text
	}
	return outcome, false
}

func (t *talk) add(id int64, f *flight) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.retired {
		return false
	}
	if len(t.flights) == 0 {
		f.log, t.idle = t.idle, nil
	}
	t.flights[id] = f
	return true
}

// send writes a job's line. If the program doesn't take it, that is found out by its end, or the job's.
func (t *talk) send(f *flight, line []byte) {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.mu.Lock()
	f.from = t.written
	t.mu.Unlock()
	n, _ := t.pipes.In.Write(line)
	t.written += int64(n)
}

// stopFor stops a job: the program gets no more of them, and is stopped when it has no others that may go on.
func (t *talk) stopFor(ctx context.Context, id int64, f *flight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.flights[id] != f {
		return
	}
	f.over = true
	t.retireFor(fmt.Sprintf("job %d had to be stopped: %v", id, context.Cause(ctx)))
}

// retire gives the program no more jobs.
func (t *talk) retire(reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retireFor(reason)
}

func (t *talk) retireFor(reason string) {
	if !t.retired {
		t.retired, t.reason = true, reason
		t.stream.leave(t)
		_ = t.pipes.In.Close()
	}
	t.stop()
}

// stop ends a program that has been retired, unless it has jobs that may go on.
func (t *talk) stop() {
	for _, f := range t.flights {
		if !f.over && !t.silent {
			return
		}
	}
	switch {
	case t.stopping || !t.retired:
	case len(t.flights) > 0:
		t.stopping = true
		t.program.Interrupt(t.stream.Grace, t.denied)
	case t.kill == nil:
		t.kill = time.AfterFunc(t.stream.Grace, func() { t.program.Interrupt(0, t.denied) })
	}
}

// denied is called with the program's own lock held, which others take behind t.mu.
func (t *talk) denied() { go t.disown() }

// disown ends the attempts of a program that may not be killed, so that they keep no slot.
func (t *talk) disown() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, f := range t.flights {
		t.land(id, f, landing{outcome: tryAgain(fmt.Sprintf("process %d still runs: the worker may not signal it", t.program.PID()))})
	}
	t.over.Do(t.stream.ending.Done)
}

// land ends a flight.
func (t *talk) land(id int64, f *flight, l landing) {
	delete(t.flights, id)
	f.done <- l
}

// listen reads the program's stdout.
func (t *talk) listen() {
	defer close(t.heard)
	from := bufio.NewReaderSize(t.pipes.Out, 32<<10)
	var line []byte
	for {
		var long bool
		var err error
		line, long, err = readLine(from, line[:0])
		if err != nil {
			break
		}
		_ = t.log.Control(func(fd uintptr) { t.takeLog(int(fd)) }) // what it logged before it said so
		t.hear(line, long)
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

// hear takes a line of the program's stdout.
func (t *talk) hear(line []byte, long bool) {
	r, err := parseLine(line)
	if long && likeReply(line) {
		err = errLong
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil && r.id == 0 {
		t.note(append(line, '\n'))
		return
	}
	f := t.flights[r.id]
	switch {
	case err != nil:
		t.retireFor(fmt.Sprintf("a line of the program can't be read: %v: %s", err, clean(head(string(line), maxReason))))
	case f == nil:
		t.retireFor(fmt.Sprintf("the program answered for job %d, which it doesn't have", r.id))
	case r.Token != nil && jsonText(r.Token) != f.token:
		t.retireFor(fmt.Sprintf("the program answered for job %d with a token that is not the attempt's", r.id))
	default:
		if !t.answered {
			t.answered = true
			t.stream.wasUseful()
		}
		t.land(r.id, f, landing{outcome: r.outcome()})
		t.stop()
	}
}

// follow reads the program's stderr.
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

// takeLog takes what there is to be read of the program's stderr now, or a part of it. more is false at its end.
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
			t.note(t.buf[:n])
		}
	}
	return got, true
}

// note keeps what a program has logged with each job that it has.
func (t *talk) note(text []byte) {
	if len(t.flights) == 0 {
		t.idle = logged(t.idle, text)
	}
	for _, f := range t.flights {
		f.log = logged(f.log, text)
	}
}

func logged(log *output, text []byte) *output {
	if log == nil {
		log = new(output)
	}
	for len(text) > 0 {
		n := copy(log.Room(), text)
		log.Took(n)
		text = text[n:]
	}
	return log
}

// await waits for the program's end, and ends what it has left.
func (t *talk) await() {
	t.program.Await()
	byGuard := t.stream.Guard.ofWorker().MayStop()
	unread := int64(0)
	_ = control(t.pipes.In, func(fd uintptr) { unread = int64(process.Unread(int(fd))) })
	close(t.ended)
	_ = t.pipes.Out.SetReadDeadline(time.Now().Add(lastWords))
	<-t.heard
	_ = t.log.Control(func(fd uintptr) { t.takeLog(int(fd)) })
	status, err := t.program.Reap()
	t.stream.leave(t)
	t.pipes.Close()
	t.writing.Lock()
	read := t.written - unread
	t.writing.Unlock()
	t.finish(status, err, byGuard, read)
	t.over.Do(t.stream.ending.Done)
}

// finish ends the flights of a program that has ended, and has read so many bytes.
func (t *talk) finish(status syscall.WaitStatus, err error, byGuard bool, read int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kill != nil {
		t.kill.Stop()
	}
	if !t.answered && !t.retired {
		t.stream.wasFutile()
	}
	for id, f := range t.flights {
		l := landing{unread: t.answered && !t.retired && read <= f.from}
		switch {
		case byGuard:
			l = landing{outcome: tryAgain(errGuardStops.Error())}
		case err != nil:
			l.outcome = tryAgain(fmt.Sprintf("wait for %s: %v", t.stream.Argv[0], err))
		default:
			var out printed
			if f.log != nil {
				out = f.log.end()
			}
			text := "the program ended without an answer: " + failure(status, out)
			if t.reason != "" {
				text = t.reason + "; " + text
			}
			l.outcome = tryAgain(text)
		}
		t.land(id, f, l)
	}
	t.retired = true
}

// control calls f with a file's descriptor, unless the file is closed.
func control(file *os.File, f func(fd uintptr)) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	return conn.Control(f)
}
