//go:build !windows

package handler

import (
	"cmp"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/queue/job"
)

func (t *talk) end() {
	t.stopping = true
	grace := t.stream.grace()
	for _, f := range t.flights {
		if f.over != nil {
			grace = min(grace, max(0, time.Until(f.endBy)))
		}
	}
	t.program.Interrupt(grace, t.giveUp)
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
		_ = control(t.pipes.In, func(fd uintptr) { t.left = process.ReadingEnd(int(fd)) })
		_ = t.pipes.In.Close()
	}
	t.stop()
}

// stop ends a retired program, unless it has jobs that may go on: they have until hurry.
func (t *talk) stop() {
	for _, f := range t.flights {
		if f.over == nil && !t.silent {
			return
		}
	}
	switch {
	case t.stopping || !t.retired:
	case len(t.flights) > 0:
		t.end()
	case t.kill == nil:
		t.kill = time.AfterFunc(t.stream.grace(), func() { t.program.Interrupt(0, t.giveUp) })
	}
}

// giveUp is called with the program's lock held, which others take after t.mu.
func (t *talk) giveUp(still string) { go t.abandon(still) }

func (t *talk) abandon(still string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, f := range t.flights {
		why := cmp.Or(t.endedFor, t.reason)
		if f.over != nil {
			why = f.over.Error()
		}
		t.land(id, f, landing{outcome: tryAgain(stillRuns(why, t.program, still)), abandoned: true})
	}
	t.over.Do(t.stream.ending.Done)
}

func (t *talk) land(id int64, f *flight, l landing) {
	delete(t.flights, id)
	if f.hurry != nil {
		f.hurry.Stop()
	}
	f.done <- l
}

func (t *talk) await() {
	within, _ := t.program.Await("")
	byGuard := t.stream.Guard.MayStop()
	unread := t.unread()
	close(t.ended)
	_ = t.pipes.Out.SetReadDeadline(time.Unix(1, 0)) // in the past, because leftover processes may hold the pipe forever
	<-t.heard
	_ = t.log.Control(func(fd uintptr) { t.takeLog(int(fd)) })
	end, err := t.stream.reap(t.program)
	t.pipes.Close()
	t.writing.Lock()
	read := t.written - unread
	t.writing.Unlock()
	if !t.finish(end, err, byGuard, read, leftBehind(within, nil)) {
		t.stream.Guard.NoteKilled(within)
	}
	t.over.Do(t.stream.ending.Done)
}

// unread returns how many bytes of stdin the program hasn't read.
func (t *talk) unread() (n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	end := t.pipes.In
	if t.retired {
		end = t.left
	}
	_ = control(end, func(fd uintptr) { n = int64(process.Unread(int(fd))) })
	return n
}

// finish ends the flights of a program that ended after reading so many bytes. noted says that an attempt got the note about
// leftover processes.
func (t *talk) finish(end ending, err error, byGuard bool, read int64, left string) (noted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kill != nil {
		t.kill.Stop()
	}
	_ = t.left.Close()
	for id, f := range t.flights {
		unread := f.from < 0 || read <= f.from
		// a job that no program ever reads must not move on forever
		l := landing{unread: (t.answered || t.endedFor != "") && unread}
		switch {
		case byGuard:
			l = landing{outcome: tryAgain(errGuardStops.Error())}
		case err != nil:
			l.outcome = tryAgain(fmt.Sprintf("wait for %s: %v", t.stream.Argv[0], err))
		default:
			if l.outcome = tryAgain(t.unanswered(f, end)); unread {
				l.outcome.Verdict = job.NotBegun
			}
		}
		t.last = l.outcome.Error
		l.left, noted = left, noted || !l.unread
		t.land(id, f, l)
	}
	t.retired = true
	if t.boot != nil {
		t.boot.Stop()
	}
	if !t.answered && (!t.stopping || t.late) {
		t.stream.wasFutile(t.last)
	}
	t.stream.leave(t) // only now, because it wakes jobs that may start the next program
	return noted
}

// unanswered returns the error of a job whose program ended without an answer. An end that hipq asked for is no reason.
func (t *talk) unanswered(f *flight, end ending) string {
	succeeded := !end.Signaled() && end.ExitStatus() == 0
	var out printed
	if f.log != nil && !succeeded { // after success, the log is no reason
		out = f.log.end()
	}
	ended := "the program ended without an answer: " + failure(end, out)
	switch {
	case t.endedFor != "":
		return t.endedFor
	case t.reason == "":
		return ended
	case succeeded || t.program.Interrupted():
		return t.reason
	}
	return t.reason + "; " + ended
}
