//go:build !windows

package guard

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hipq/hipq/internal/process"
)

const (
	// breath is how long the guard waits before it reads on, so that a busy worker doesn't wake it for each job.
	breath = 10 * time.Millisecond
	// maxMargin is how long before a long lock's end the KILL is sent: shorter than the margin of a worker that stops
	// its handlers itself, and can report why.
	maxMargin = 500 * time.Millisecond
)

// Serve is the other end of a Guard: the whole life of a process with in as its stdin and args as its last arguments.
// in tells it the worker's process groups and when the worker's lock ends. If in ends while there are groups, or the
// lock is about to end, it kills them: TERM, a grace, KILL, before the lock ends. On Linux it also finds processes that
// it wasn't told of, because they were just starting or had left their groups. It ignores the usual termination
// signals.
func Serve(in *os.File, args []string) error {
	s, err := newWatchdog(args)
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	defer runtime.KeepAlive(in)
	worker := &listener{fd: int(in.Fd())}
	for {
		lines, more, open := worker.listen(s.next(now()))
		if !open {
			s.workerGone(now())
			return nil
		}
		for _, line := range lines {
			s.hear(line, now())
		}
		if !more { // a guard that was stopped for a while first hears that its worker is well
			s.look(now())
			if len(lines) > 0 {
				time.Sleep(breath)
			}
		}
	}
}

type watchdog struct {
	*hunt
	grace time.Duration
	// termAt and killAt are when the time is up; zero until the lock's end is known.
	termAt, killAt time.Time
	stage          stage
}

// stage is how far the guard has gone since the lock's last extension.
type stage int

const (
	watching stage = iota
	terminated
	killed // and nothing is left
)

func newWatchdog(args []string) (*watchdog, error) {
	if len(args) != 2 || args[0] == "" {
		return nil, errors.New("start as guard: this is for workers, want a worker's id and a grace")
	}
	grace, err := time.ParseDuration(args[1])
	if err != nil {
		return nil, fmt.Errorf("start as guard: %w", err)
	}
	s := &watchdog{hunt: newHunt(args[0]), grace: grace}
	s.patience = grace
	return s, nil
}

// hear handles a line: "until MILLISECONDS SENT", "add GROUP", "remove GROUP", "adopted PROCESS BORN".
func (s *watchdog) hear(line string, now time.Time) {
	word, numbers, _ := strings.Cut(line, " ")
	first, second, _ := strings.Cut(numbers, " ")
	n, err := strconv.Atoi(first)
	if err != nil {
		return
	}
	switch word {
	case "until":
		lasts := time.Duration(n) * time.Millisecond
		if sent, err := strconv.ParseInt(second, 10, 64); err == nil { // on a busy host, a guard takes a while to start
			now = now.Add(-min(max(time.Since(time.UnixMilli(sent)), 0), lasts))
		}
		s.termAt, s.killAt = stopTimes(now, lasts, s.grace)
		s.stage = watching
		s.pardon()
	case "add":
		s.addGroup(n)
		switch s.stage { // the worker started it although its time is up
		case terminated:
			_ = syscall.Kill(-n, syscall.SIGTERM)
		case killed:
			_ = syscall.Kill(-n, syscall.SIGKILL)
		}
	case "remove":
		s.removeGroup(n)
	case "adopted":
		born, _ := strconv.Atoi(second)
		s.addAdopted(n, born)
	}
}

// stopTimes returns when the guard sends its TERM and its KILL, if the lock lasts that long from now.
func stopTimes(now time.Time, lasts, grace time.Duration) (term, kill time.Time) {
	kill = now.Add(lasts - min(lasts/20, maxMargin))
	// a worker renews after a third of the lock: a long grace must not interfere
	return kill.Add(-min(grace, lasts/2)), kill
}

// next is the time until the next look: at most a second under a lock, because timers stop on a suspended host.
func (s *watchdog) next(now time.Time) time.Duration {
	switch {
	case s.killAt.IsZero() || s.stage == killed:
		return time.Hour
	case s.stage == watching:
		return min(s.termAt.Sub(now), time.Second)
	case now.Before(s.killFrom()):
		return min(s.killFrom().Sub(now), time.Second)
	}
	return round
}

// now is a time by process.Uptime, for comparisons. It is no date.
func now() time.Time { return time.Unix(0, int64(process.Uptime())) }

// killFrom is when killing begins, to finish by killAt: on a busy host, finding all strays takes a while.
func (s *watchdog) killFrom() time.Time { return s.killAt.Add(-2 * s.took) }

// look does what is due. If the worker then renews its lock after all, its jobs have failed, no worse than if it had
// stopped them itself.
func (s *watchdog) look(now time.Time) {
	switch {
	case s.killAt.IsZero() || s.stage == killed:
	case !now.Before(s.killFrom()):
		s.stage = terminated
		if found, _ := s.signal(syscall.SIGKILL); !found || !process.SeesOthers {
			s.stage = killed
		}
	case s.stage == watching && !now.Before(s.termAt):
		s.stage = terminated
		s.signal(syscall.SIGTERM)
	}
}

func (s *watchdog) workerGone(now time.Time) {
	limit := now.Add(s.grace)
	if !s.killAt.IsZero() && s.killAt.Before(limit) {
		limit = s.killAt
	}
	if s.stage == watching && now.After(limit.Add(maxMargin)) {
		// it was stopped past the lock's end, and group ids may have been reused
		s.forgetGroups()
	}
	s.end(limit)
}

type listener struct {
	fd   int
	buf  [4096]byte
	rest []byte // the beginning of a line
}

// listen waits for lines, up to atMost, and returns them. more means that unread lines, sent while the guard was
// stopped, come before anything else. open is false if the worker is gone.
func (e *listener) listen(atMost time.Duration) (lines []string, more, open bool) {
	wait := []unix.PollFd{{Fd: int32(e.fd), Events: unix.POLLIN}}
	timeout := (max(0, atMost) + time.Millisecond - 1) / time.Millisecond
	if n, err := unix.Poll(wait, int(timeout)); n == 0 || err != nil {
		return nil, err == unix.EINTR, true
	}
	n, err := syscall.Read(e.fd, e.buf[:])
	switch {
	case err == syscall.EINTR || err == syscall.EAGAIN:
		return nil, true, true
	case err != nil || n == 0:
		return nil, false, false
	}
	said := append(e.rest, e.buf[:n]...)
	for {
		line, after, whole := bytes.Cut(said, []byte("\n"))
		if !whole {
			break
		}
		lines, said = append(lines, string(line)), after
	}
	e.rest = bytes.Clone(said)
	return lines, n == len(e.buf), true
}
