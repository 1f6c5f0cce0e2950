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
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/queue/job"
)

type talk struct {
	stream *Stream
	taken  int // reserved jobs; guarded by the stream's mutex
	given  int // jobs that it has had; likewise
	// stamps identify the files of RestartOn when it started.
	stamps []string

	program *handling.Program
	pipes   handling.Dialogue
	log     syscall.RawConn // the program's stderr
	ended   chan struct{}   // closed when the process has ended
	heard   chan struct{}   // closed when stdout has been read to the end
	over    sync.Once       // the stream no longer waits for it

	writing sync.Mutex
	written int64 // bytes written to stdin

	mu       sync.Mutex
	flights  map[int64]*flight // by job ID
	answered bool              // it has answered at least once
	retired  bool              // it gets no more jobs
	reason   string
	left     *os.File // once retired, another end of stdin's pipe, to measure unread bytes; or nil
	silent   bool     // it can't answer any more
	stopping bool
	kill     *time.Timer
	// boots says that timeouts begin when the program is ready, until bootBy at the latest; boot ends it then.
	boots    bool
	bootBy   time.Time
	boot     *time.Timer
	ready    bool       // it has answered, or said that it is ready
	late     bool       // it wasn't ready in time
	endedFor string     // why it was ended despite other jobs
	before   int64      // the job answered last
	hint     string     // a hint why answers are missing
	remark   string     // unreadable output, for the log of jobs answered later
	last     string     // the error of a job unfinished at its end
	buf      [4096]byte // for its log
	idle     *output    // logged without a job; nil means nothing
}

type flight struct {
	token string
	// from is where its line begins in the program's stdin; -1 means not yet.
	from int64
	// over is why it must be stopped; nil means that it may go on.
	over    error
	late    bool // its time is over
	timeout time.Duration
	hint    string // a hint about a line that may have been its answer
	// endBy is when it must have ended.
	endBy time.Time
	// hurry ends the program before endBy, whatever other jobs it has.
	hurry *time.Timer
	done  chan landing
	log   *output // nil means empty
	hooks handling.Hooks
}

// landing is a flight's end: an outcome, or unread by the program. abandoned says that the program runs on. left notes the
// processes that it left behind.
type landing struct {
	outcome           job.Outcome
	unread, abandoned bool
	// open says that the answer had no newline.
	open bool
	left string
}

// silence is how long a program may go on after it closed stdin or stdout, because it may just be ending.
const silence = time.Second

func (s *Stream) open(ctx context.Context) (*talk, error) {
	t := &talk{stream: s, stamps: s.stamps(), ended: make(chan struct{}), heard: make(chan struct{}), flights: map[int64]*flight{}}
	var err error
	t.program, err = s.start(ctx, s.Argv, nil, func(c handling.Command) (p *handling.Program, err error) {
		p, t.pipes, err = handling.StartDialogue(ctx, s.Guard, c)
		return p, err
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	t.boots, t.bootBy = s.StartTimeout > 0 || s.announces, time.Now().Add(s.startTimeout())
	if s.note != "" {
		t.idle, s.note = logged(nil, []byte(s.note)), ""
	}
	s.mu.Unlock()
	t.log, err = t.pipes.Err.SyscallConn()
	return t, err
}

func (t *talk) begin() {
	if t.mu.Lock(); t.boots && !t.ready {
		t.boot = time.AfterFunc(time.Until(t.bootBy), t.notReady)
	}
	t.mu.Unlock()
	go t.listen()
	go t.follow()
	go t.await()
}

// ask gives the program a job and waits for the answer. unread says that the program hasn't read it.
func (t *talk) ask(ctx context.Context, j *job.Job, line []byte) (outcome job.Outcome, unread bool) {
	f := &flight{token: j.AttemptToken, from: -1, timeout: j.Timeout, done: make(chan landing, 1), hooks: handling.Of(ctx)}
	if added, err := t.add(j.ID, f); err != nil {
		return tryAgain(err.Error()), false
	} else if !added {
		return outcome, true
	}
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
	case landed.unread, over != nil && (landed.open || !countsLate(ctx, outcome.Verdict)):
		outcome = tryAgain(context.Cause(ctx).Error() + t.program.Ignored() + hint)
	case t.stream.Guard.MayStop():
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

// add adds a flight, unless the program gets no more jobs.
func (t *talk) add(id int64, f *flight) (added bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.retired {
		return false, nil
	}
	if t.flights[id] != nil {
		return false, fmt.Errorf("the stream already runs a job %d: use one stream per queue, with each job once at a time", id)
	}
	if len(t.flights) == 0 {
		f.log, t.idle = t.idle, nil
	}
	t.flights[id] = f
	if t.boots && !t.ready && f.hooks.Expire != nil {
		f.hooks.Expire(time.Until(t.bootBy) + f.timeout)
	}
	return true, nil
}

// send writes a job's line. A program that didn't get all of it can't have begun the job, so the flight ends here. If the
// program is retired, the job goes to another.
func (t *talk) send(ctx context.Context, id int64, f *flight, line []byte) {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.mu.Lock()
	f.from = t.written
	t.mu.Unlock()
	if handling.Err(ctx) != nil { // waiting for other lines may have taken a while
		t.unsent(id, f, true)
		return
	}
	n, err := t.pipes.In.Write(line)
	t.written += int64(n)
	switch {
	case err == nil:
	case !errors.Is(err, syscall.EPIPE):
		t.unsent(id, f, true)
	default: // the program doesn't read
		select {
		case <-t.ended: // its end says more
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

// unsent ends the flight of a job that the program didn't get. It is an error if the job can't go to another program, because
// no program may ever take it.
func (t *talk) unsent(id int64, f *flight, toAnother bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.flights[id] == f {
		t.land(id, f, landing{unread: toAnother, outcome: tryAgain(closedInput)})
		t.stop()
	}
}

// stopFor stops a job: the program gets no more jobs, and ends when none of its others may go on.
func (t *talk) stopFor(ctx context.Context, id int64, f *flight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	cause := context.Cause(ctx)
	reason := fmt.Sprintf("job %d had to be stopped: %v", id, cause)
	if t.flights[id] == f {
		f.over, f.late = cause, timedOut(ctx)
		f.endBy = time.Now().Add(t.stream.grace())
		f.hurry = time.AfterFunc(t.stream.grace()/2, func() { t.endFor(id, f, reason) })
	} // already answered; its sender may still wait for an unread line
	t.retireFor(reason)
}

// isReady records that the program has begun its work, so that its jobs' timeouts begin. said says that it announced that.
func (t *talk) isReady(said bool) {
	if t.ready {
		return
	}
	if t.ready = true; t.boot != nil {
		t.boot.Stop()
	}
	if said {
		t.stream.mu.Lock()
		t.stream.announces = true
		t.stream.mu.Unlock()
	}
	for _, f := range t.flights {
		if (said || t.boots) && f.hooks.Expire != nil {
			f.hooks.Expire(f.timeout)
		}
	}
}

func (t *talk) notReady() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ready || t.retired {
		return
	}
	t.late = true
	t.retireFor("the program was not ready within " + policy.Brief(t.stream.startTimeout()))
	if !t.stopping && len(t.flights) > 0 {
		t.end()
	}
}

// endFor ends a program with a job to stop, despite its other jobs.
func (t *talk) endFor(id int64, f *flight, reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.stopping && t.flights[id] == f {
		t.endedFor = "its program was ended because " + reason
		t.end()
	}
}

// worn says why a program that has done a job gets no more; "" if it does.
func (s *Stream) worn(t *talk) string {
	s.mu.Lock()
	given := t.given
	s.mu.Unlock()
	switch {
	case s.MaxJobs > 0 && given >= s.MaxJobs:
		return "the program has had max_jobs"
	case s.MaxMemory > 0 && process.Memory(t.program.PID()) > s.MaxMemory:
		return "the program uses more than max_memory"
	}
	return ""
}
