package handler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/queue/job"
)

// Stream runs programs that take one job after another: so what a program costs to start, it costs once a worker and not
// once a job. Each job is a line of JSON on the program's stdin, as for Exec; the program answers each by a line on its
// stdout, in any order:
//
//	{"id": 7, "token": "…", "outcome": "finished|retry|failed|sent", "result": …, "error": …, "retry_after": "5m"}
//
// The id is the job's, and so is the token, where there is one. Lines that don't begin with a brace, and stderr, are the
// program's log: of each attempt is kept what came while it ran, the last 16 KiB of that.
//
// A program starts with the first job that no other has room for. It is told to end by the end of its stdin, and may end by
// itself after any answer. If it ends without an answer to a job, that is an error of the attempt; one that it had not
// begun to read goes to another. After a line that can't be understood, or when a job has to be stopped, it gets no further
// jobs: it may answer those that it has. When each of these is answered or to be stopped, it gets a TERM and, after Grace, a
// KILL; if all were answered, it has Grace to end. The same holds for one that closes its stdin or stdout and lives on. A job that
// has to be stopped ends within Grace anyway: after half of it the program gets its TERM whatever else it has, and the errors
// of the others name that job. A job of which it has not got the whole line goes to another. Programs that end again and again
// without any answer are started ever more slowly.
//
// A Stream is for the jobs of one queue, as their ids tell them apart. It is safe for concurrent use. Close it when the worker
// has ended.
type Stream struct {
	Program
	// Processes is how many programs run at once, at most; below 1 is 1.
	Processes int
	// InFlight is how many jobs each has at once, at most; below 1 is 1. Jobs that begin together may reach it in any order.
	InFlight int
	// Log, if not nil, is told of programs that are replaced because what they print can't be understood.
	Log *slog.Logger

	mu       sync.Mutex
	talks    []*talk // with those programs that take jobs
	starting int     // so many are about to be among them
	closed   bool
	futile   int           // so many programs have ended in a row without any answer
	startAt  time.Time     // not before that the next program starts
	lastEnd  string        // why the last of them ended
	note     string        // what the next job's log begins with
	changed  chan struct{} // closed when one may have room; nil while no job waits for that
	ending   sync.WaitGroup
}

var errClosed = errors.New("the worker has ended")

// Handle gives the job to a program and waits for its answer.
func (s *Stream) Handle(ctx context.Context, j *job.Job) (outcome job.Outcome) {
	begin := time.Now()
	defer func() { outcome.Ran = time.Since(begin) }()
	defer handling.Instead(ctx, func() {})() // it is ended by its talk, if that can be
	line := Message(j)
	for {
		t, err := s.take(ctx)
		if err != nil {
			return tryAgain(err.Error())
		}
		outcome, unread := t.ask(ctx, j, line)
		s.giveBack(t)
		if !unread {
			return outcome
		}
	}
}

// Close tells the programs to end, kills those that have not ended after Grace, and waits for that. No job may be running.
func (s *Stream) Close() {
	s.mu.Lock()
	s.closed = true
	talks := slices.Clone(s.talks)
	s.mu.Unlock()
	for _, t := range talks {
		t.retire(errClosed.Error())
	}
	s.ending.Wait()
}

// take finds a program that has room for a job, or starts one.
func (s *Stream) take(ctx context.Context) (*talk, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		t, mayStart, wait, err := s.choose(time.Now())
		switch {
		case err != nil:
			return nil, err
		case t != nil:
			return t, nil
		case mayStart:
			return s.launch(ctx)
		}
		select {
		case <-wait:
		case <-ctx.Done():
		}
	}
}

// choose gives the talk that has the most room, or says that another program may be started, or what to wait for. A job for which
// there is no program, nor may one start yet, is refused: waiting, it would hold a slot that others can use.
func (s *Stream) choose(now time.Time) (t *talk, mayStart bool, wait <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false, nil, errClosed
	}
	for _, one := range s.talks {
		if one.taken < max(1, s.InFlight) && (t == nil || one.taken < t.taken) {
			t = one
		}
	}
	free := len(s.talks)+s.starting < max(1, s.Processes)
	switch {
	case free && (t == nil || t.taken > 0) && !now.Before(s.startAt):
		s.starting++
		return nil, true, nil, nil
	case t != nil:
		t.taken++
		return t, false, nil, nil
	case free && len(s.talks)+s.starting == 0:
		return nil, false, nil, fmt.Errorf("not begun: the last %d programs have ended without any answer, the latest so: %s", s.futile, s.lastEnd)
	}
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return nil, false, s.changed, nil
}

// launch starts a program for a job.
func (s *Stream) launch(ctx context.Context) (t *talk, err error) {
	t, err = s.open(ctx)
	s.mu.Lock()
	s.starting--
	if err == nil {
		t.taken = 1
		s.talks = append(s.talks, t)
		s.ending.Add(1)
	}
	s.wake()
	s.mu.Unlock()
	if err == nil {
		t.begin()
	}
	return t, err
}

func (s *Stream) giveBack(t *talk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.taken--
	s.wake()
}

// wake has those look again who wait for room. The mutex is held.
func (s *Stream) wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

func (s *Stream) leave(t *talk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.talks = slices.DeleteFunc(s.talks, func(one *talk) bool { return one == t })
	s.wake()
}

// maxStartDelay is how long the next start waits, at most, for programs that end without any answer.
const maxStartDelay = 30 * time.Second

// wasFutile notes that a program has ended without any answer: the second in a row has the next one wait a second, each
// further one twice as long.
func (s *Stream) wasFutile(end string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastEnd = end
	if s.futile++; s.futile > 1 {
		s.startAt = time.Now().Add(min(time.Second<<min(s.futile-2, 10), maxStartDelay))
	}
}

// leaveNote has the next program's first job begin its log with a text.
func (s *Stream) leaveNote(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note = text
}

// takeNote gives that text, once.
func (s *Stream) takeNote() (text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, s.note = s.note, ""
	return text
}

func (s *Stream) wasUseful() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.futile, s.startAt = 0, time.Time{}
}
