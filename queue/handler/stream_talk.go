//go:build !windows

package handler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/queue/job"
)

type talk struct {
	stream *Stream
	taken  int // so many jobs have room in it; under the stream's mutex

	program *handling.Program
	pipes   handling.Dialogue
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
	left     *os.File // another end of its stdin's pipe, when it is retired: it tells what of that is unread; nil if there is none
	silent   bool     // it can't answer any more
	stopping bool
	kill     *time.Timer
	endedFor string     // why it was ended although it had jobs that might go on
	before   int64      // the job that it answered last
	hint     string     // what may be wrong with how it answers
	remark   string     // what could not be understood, for the log of jobs that are answered after that
	last     string     // the error of a job that it had at its end
	buf      [4096]byte // for what it logs
	idle     *output    // what it has logged while it had no job; nil is nothing
}

type flight struct {
	token string
	// from is where its line begins in what went to the program's stdin; -1 is not yet.
	from int64
	// over is why it has to be stopped; nil is that it may go on.
	over error
	late bool   // its time is over
	hint string // what was wrong with a line that may have been its answer
	// endBy is when it has to be over in any case, and hurry ends the program before that, whatever else it has.
	endBy time.Time
	hurry *time.Timer
	done  chan landing
	log   *output                     // nil is nothing
	note  func(func(*handling.Heard)) // nil: not wanted
	// progress gets how far the job is; nil if that isn't wanted.
	progress func(job.Progress)
}

// landing is how a flight ends: with an outcome; or not at all, because the program has not read the job. abandoned says that the
// program runs on. left is what is noted of the processes that it has left.
type landing struct {
	outcome           job.Outcome
	unread, abandoned bool
	left              string
}

// silence is how long a program may live on when it has closed its stdin or its stdout, before that is held against it: often
// its end has only begun.
const silence = time.Second

func (s *Stream) open(ctx context.Context) (*talk, error) {
	if err := s.Guard.ofWorker().Start(); err != nil {
		return nil, err
	}
	t := &talk{stream: s, ended: make(chan struct{}), heard: make(chan struct{}), flights: map[int64]*flight{}}
	var err error
	t.program, err = s.start(ctx, s.Argv, nil, func(c handling.Command) (p *handling.Program, err error) {
		p, t.pipes, err = handling.StartDialogue(ctx, s.Guard.ofWorker(), c)
		return p, err
	})
	if err != nil {
		return nil, err
	}
	if note := s.takeNote(); note != "" {
		t.idle = logged(nil, []byte(note))
	}
	t.log, err = t.pipes.Err.SyscallConn()
	return t, err
}

func (t *talk) begin() {
	go t.listen()
	go t.follow()
	go t.await()
}

// ask gives the program a job and waits for the answer. unread says that it has not read the job.
func (t *talk) ask(ctx context.Context, j *job.Job, line []byte) (outcome job.Outcome, unread bool) {
	f := &flight{token: j.AttemptToken, from: -1, done: make(chan landing, 1), note: handling.Note(ctx), progress: handling.Say(ctx)}
	if added, err := t.add(j.ID, f); err != nil {
		return tryAgain(err.Error()), false
	} else if !added {
		return outcome, true
	}
	defer handling.Instead(ctx, killedInVain(t.program, t.giveUp))()
	unwatch := context.AfterFunc(ctx, func() { t.stopFor(ctx, j.ID, f) })
	t.send(ctx, j.ID, f, line)
	landed := <-f.done
	unwatch()
	t.mu.Lock()
	log, over, hint := f.log, f.over, ""
	if known := cmp.Or(f.hint, t.hint); f.late && known != "" {
		hint = "; " + known
	}
	t.mu.Unlock()
	if landed.unread && ctx.Err() == nil {
		return outcome, true
	}
	switch outcome = landed.outcome; {
	case landed.abandoned:
	case over != nil || landed.unread:
		outcome = tryAgain(context.Cause(ctx).Error() + t.program.Ignored() + hint)
	case t.stream.Guard.ofWorker().MayStop():
		outcome = tryAgain(errGuardStops.Error())
		if ctx.Err() != nil {
			outcome = tryAgain(context.Cause(ctx).Error())
		}
	}
	var out printed
	if log != nil {
		out = log.end()
	}
	outcome.Output = out.with(landed.left)
	return outcome, false
}

// add makes a flight one of the program's, unless that gets no more jobs.
func (t *talk) add(id int64, f *flight) (added bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.retired {
		return false, nil
	}
	if t.flights[id] != nil {
		return false, fmt.Errorf("the stream runs a job %d already: it is for the jobs of one queue, each once at a time", id)
	}
	if len(t.flights) == 0 {
		f.log, t.idle = t.idle, nil
	}
	t.flights[id] = f
	return true, nil
}

// send writes a job's line. A program that doesn't get all of it can't have begun the job, which then ends here: if this
// program is retired it goes to another.
func (t *talk) send(ctx context.Context, id int64, f *flight, line []byte) {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.mu.Lock()
	f.from = t.written
	t.mu.Unlock()
	if handling.Err(ctx) != nil { // others' lines may have taken a while
		t.unsent(id, f, true)
		return
	}
	n, err := t.pipes.In.Write(line)
	t.written += int64(n)
	switch {
	case err == nil:
	case !errors.Is(err, syscall.EPIPE):
		t.unsent(id, f, true)
	default: // no reader
		select {
		case <-t.ended: // that says more
		case <-time.After(silence):
			t.retire(closedInput)
			t.mu.Lock()
			answered := t.answered
			t.mu.Unlock()
			t.unsent(id, f, answered)
		}
	}
}

const closedInput = "the program has closed its standard input"

// unsent ends the flight of a job that the program has not got. If it can't go to another, because none might ever take it, that is
// an error.
func (t *talk) unsent(id int64, f *flight, toAnother bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.flights[id] == f {
		t.land(id, f, landing{unread: toAnother, outcome: tryAgain(closedInput)})
		t.stop()
	}
}

// stopFor stops a job: the program gets no more of them, and is stopped when it has no others that may go on.
func (t *talk) stopFor(ctx context.Context, id int64, f *flight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	cause := context.Cause(ctx)
	reason := fmt.Sprintf("job %d had to be stopped: %v", id, cause)
	if t.flights[id] == f {
		f.over, f.late = cause, errors.Is(ctx.Err(), context.DeadlineExceeded)
		f.endBy = time.Now().Add(t.stream.Grace)
		f.hurry = time.AfterFunc(t.stream.Grace/2, func() { t.endFor(id, f, reason) })
	} // else it was answered, and perhaps its line not read to the end, on which its sender waits
	t.retireFor(reason)
}

// endFor ends a program that still has a job which had to be stopped, and others beside it.
func (t *talk) endFor(id int64, f *flight, reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.stopping && t.flights[id] == f {
		t.endedFor = "its program was ended because " + reason
		t.end()
	}
}
