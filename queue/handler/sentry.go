package handler

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// breath is how long the guard waits before it reads on, so that a busy worker doesn't wake it for each job.
	breath = 10 * time.Millisecond
	// round is how often it looks whether processes that it has sent a signal are gone.
	round = 50 * time.Millisecond
	// lastRounds is how often it sends KILL to processes that won't be gone, before it gives up on them.
	lastRounds = 40
	// maxMargin is how long before a long lock's end the KILL is sent; less than what a worker leaves that stops its
	// handlers itself, and can say why.
	maxMargin = 500 * time.Millisecond
)

// ServeGuard is the other end of a Guard: the whole life of a process that has in as its stdin and args as the last of
// its arguments. It learns from in which process groups the worker runs and how long the worker's lock lasts. When in
// ends while there are any, or the lock is about to end, it kills them: TERM, a grace, KILL, before the lock ends. On
// Linux it also finds, by HIPQ_WORKER_ID in their environment, processes that it wasn't told of: one that was just being
// started, one that left its group. It ignores the signals by which processes are usually told to end.
func ServeGuard(in io.Reader, args []string) error {
	s, err := newSentry(args)
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	lines := make(chan string, 64)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(unhurried{in})
		for scanner.Scan() {
			lines <- scanner.Text()
		}
	}()
	alarm := time.NewTimer(0)
	for {
		select {
		case line, open := <-lines:
			if !open {
				s.workerGone()
				return nil
			}
			s.hear(line, time.Now())
		case <-alarm.C:
			s.look(time.Now())
		}
		alarm.Reset(s.next(time.Now()))
	}
}

// unhurried rests after each read.
type unhurried struct{ in io.Reader }

func (u unhurried) Read(p []byte) (int, error) {
	n, err := u.in.Read(p)
	if err == nil {
		time.Sleep(breath)
	}
	return n, err
}

// sentry is what the guard knows.
type sentry struct {
	workerID string
	grace    time.Duration
	groups   map[int]struct{}
	termed   map[int]struct{} // processes outside of the groups that have got their TERM
	// termAt and killAt are when the time is up; zero as long as the lock's end is not known.
	termAt, killAt time.Time
	stage          stage
}

// stage is how far the guard has gone since the lock was last extended.
type stage int

const (
	watching stage = iota
	terminated
	killed // and nothing is left to be seen
)

// newSentry takes the arguments: the worker's id and the grace.
func newSentry(args []string) (*sentry, error) {
	if len(args) != 2 || args[0] == "" {
		return nil, errors.New("start as guard: this is for workers, want a worker's id and a grace")
	}
	grace, err := time.ParseDuration(args[1])
	if err != nil {
		return nil, fmt.Errorf("start as guard: %w", err)
	}
	return &sentry{workerID: args[0], grace: grace, groups: map[int]struct{}{}, termed: map[int]struct{}{}}, nil
}

// hear takes a line: "until MILLISECONDS", "add GROUP", "remove GROUP".
func (s *sentry) hear(line string, now time.Time) {
	word, number, _ := strings.Cut(line, " ")
	n, err := strconv.Atoi(number)
	if err != nil {
		return
	}
	switch word {
	case "until":
		s.termAt, s.killAt = stopTimes(now, time.Duration(n)*time.Millisecond, s.grace)
		s.stage = watching
		clear(s.termed)
	case "add":
		s.groups[n] = struct{}{}
		switch s.stage { // one that the worker started although its time is up
		case terminated:
			s.kill(n, syscall.SIGTERM)
		case killed:
			s.kill(n, syscall.SIGKILL)
		}
	case "remove":
		delete(s.groups, n)
	}
}

// stopTimes says when the guard sends its TERM and its KILL, under a lock that lasts so long from now.
func stopTimes(now time.Time, lasts, grace time.Duration) (term, kill time.Time) {
	kill = now.Add(lasts - min(lasts/20, maxMargin))
	// a worker renews after a third of the lock: a grace that is too long must not get in its way
	return kill.Add(-min(grace, lasts/2)), kill
}

// next is how long look has time.
func (s *sentry) next(now time.Time) time.Duration {
	switch {
	case s.killAt.IsZero() || s.stage == killed:
		return time.Hour
	case s.stage == watching:
		return s.termAt.Sub(now)
	case now.Before(s.killAt):
		return s.killAt.Sub(now)
	}
	return round
}

// look does what it is time for. The worker may be about to renew its lock after all; then it finds that its jobs have
// failed, no worse than if it had stopped them itself.
func (s *sentry) look(now time.Time) {
	switch {
	case s.killAt.IsZero() || s.stage == killed:
	case !now.Before(s.killAt):
		s.stage = terminated
		s.signal(syscall.SIGKILL)
		if len(strays(s.workerID)) == 0 {
			s.stage = killed
		}
	case s.stage == watching && !now.Before(s.termAt):
		s.stage = terminated
		s.signal(syscall.SIGTERM)
	}
}

// workerGone ends what the worker left. What comes to light meanwhile, being just started, gets its TERM too.
func (s *sentry) workerGone() {
	limit := time.Now().Add(s.grace)
	if !s.killAt.IsZero() && s.killAt.Before(limit) {
		limit = s.killAt
	}
	sig, quiet := syscall.SIGTERM, 0
	for ; time.Now().Before(limit); time.Sleep(round) {
		s.dropLeaderless()
		if s.signal(sig) {
			quiet = 0
		} else if quiet++; quiet == 2 {
			return // twice, since a program shows its environment a moment after its start
		}
		sig = 0
	}
	s.signal(syscall.SIGKILL)
	clear(s.groups) // nothing gets out of a group that was killed; zombies stay in it until somebody reaps them
	for range lastRounds {
		if s.signal(syscall.SIGKILL) {
			quiet = 0
		} else if quiet++; quiet == 2 {
			return
		}
		time.Sleep(round)
	}
}

// dropLeaderless kills what is left of groups whose leader has ended, as the worker would have done.
func (s *sentry) dropLeaderless() {
	for pgid := range s.groups {
		if !runs(pgid) {
			s.kill(pgid, syscall.SIGKILL)
			delete(s.groups, pgid)
		}
	}
}

// signal sends sig to all groups, and to the strays; 0 only looks, but gives strays that it hasn't seen yet a TERM. It
// says whether anything is there, and forgets groups that aren't: their ids may be given to others.
func (s *sentry) signal(sig syscall.Signal) (found bool) {
	for pgid := range s.groups {
		if s.kill(pgid, sig) {
			found = true
		} else {
			delete(s.groups, pgid)
		}
	}
	for _, pid := range strays(s.workerID) {
		found = true
		if pgid, err := syscall.Getpgid(pid); err == nil {
			if _, ok := s.groups[pgid]; ok {
				continue
			}
		}
		_, told := s.termed[pid]
		s.termed[pid] = struct{}{}
		switch {
		case sig == syscall.SIGKILL:
			_ = syscall.Kill(pid, syscall.SIGKILL)
		case !told:
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}
	return found
}

// kill signals a group and says whether it is there.
func (s *sentry) kill(pgid int, sig syscall.Signal) bool {
	return pgid > 1 && syscall.Kill(-pgid, sig) != syscall.ESRCH
}
