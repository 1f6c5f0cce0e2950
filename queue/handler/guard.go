package handler

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Guard is the worker's end of a guard: a process that kills the programs the worker runs if the worker can't do it any
// more, because it was killed, crashed, or stopped. It does so before the worker's lock ends and another worker may take
// the jobs. ServeGuard is the other end.
//
// The guard process starts with the first program. If it dies, or doesn't listen, the next word to it starts another;
// while none can be started, no further program starts. A nil Guard guards nothing. A Guard is safe for concurrent use.
type Guard struct {
	argv     []string
	workerID string
	grace    time.Duration

	mu      sync.Mutex
	groups  map[int]struct{}
	lockEnd time.Time // zero until the first Extend
	termAt  time.Time // when the guard process sends its TERM, at the earliest; zero as well
	process *exec.Cmd // nil while none runs
	pipe    int       // its stdin, not blocking
	closed  bool
}

var (
	// errGuardClosed is what a program gets that starts after its worker has ended.
	errGuardClosed = errors.New("start the guard: the worker has ended")
	// errGuardStops is the error of a program that ended when the guard may have stopped it.
	errGuardStops = errors.New("stopped by the worker's guard: the lock was about to end")
)

// NewGuard describes a guard and starts nothing yet. argv is a command that calls ServeGuard with its further arguments.
// Programs get a TERM and, grace later at most, a KILL.
func NewGuard(argv []string, workerID string, grace time.Duration) *Guard {
	return &Guard{argv: argv, workerID: workerID, grace: grace, groups: map[int]struct{}{}}
}

// Start starts the guard process unless it runs. Call it before each program: one that started while there is no guard
// might outlive the worker.
func (g *Guard) Start() error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.process != nil {
		return nil
	}
	return g.launch()
}

// Extend says that the worker's lock lasts until so long from now. Count from before the renewal was asked for.
func (g *Guard) Extend(until time.Duration) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.lockEnd = now.Add(until)
	g.termAt, _ = stopTimes(now, until, g.grace)
	g.send("until", until.Milliseconds())
}

// mayStop says whether the guard process may have told programs to end: what those say of themselves then is no result.
func (g *Guard) mayStop() bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.termAt.IsZero() && !time.Now().Before(g.termAt)
}

// Add puts a process group under guard.
func (g *Guard) Add(pgid int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups[pgid] = struct{}{}
	g.send("add", int64(pgid))
}

// Remove takes a process group from under guard. Call it while the group's id can't be anybody else's yet.
func (g *Guard) Remove(pgid int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.groups, pgid)
	g.send("remove", int64(pgid))
}

// Close ends the guard process. If programs are still running, or something of them is that left their groups, they are
// killed first, and Close waits for that: nothing of a worker is left when it has ended.
func (g *Guard) Close() error {
	if g == nil {
		return nil
	}
	process := g.leave()
	if process == nil {
		return nil
	}
	late := time.AfterFunc(g.grace+lastRounds*round+5*time.Second, func() { _ = process.Process.Kill() })
	defer late.Stop()
	if err := process.Wait(); err != nil {
		return fmt.Errorf("end the guard: %w", err)
	}
	return nil
}

// leave leaves the guard process alone with the programs that still run: to it, it looks as if the worker had died. It
// gives the process; nil if there is nothing to do.
func (g *Guard) leave() *exec.Cmd {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	process := g.process
	if process == nil {
		return nil
	}
	if len(g.groups) == 0 && len(strays(g.workerID)) == 0 {
		g.bury()
		return nil
	}
	g.process = nil
	_ = syscall.Close(g.pipe)
	return process
}

// launch starts the guard process and tells it all there is to know.
func (g *Guard) launch() error {
	if g.closed {
		return errGuardClosed
	}
	r, w, err := pipe()
	if err != nil {
		return fmt.Errorf("start the guard: %w", err)
	}
	stdin := os.NewFile(uintptr(r), "guard")
	defer stdin.Close()
	process := exec.Command(g.argv[0], append(slices.Clone(g.argv[1:]), g.workerID, g.grace.String())...)
	process.Stdin = stdin
	// Without the worker's id, by which it finds what to kill; and out of reach of whatever hits the worker's session.
	process.Env = []string{}
	process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err = syscall.SetNonblock(w, true); err == nil {
		err = process.Start()
	}
	if err != nil {
		_ = syscall.Close(w)
		return fmt.Errorf("start the guard: %w", err)
	}
	g.process, g.pipe = process, w
	if err := g.tellAll(); err != nil {
		g.bury()
		return fmt.Errorf("talk to the guard: %w", err)
	}
	return nil
}

func (g *Guard) tellAll() (err error) {
	if !g.lockEnd.IsZero() {
		err = g.write("until", time.Until(g.lockEnd).Milliseconds())
	}
	for pgid := range g.groups {
		err = errors.Join(err, g.write("add", int64(pgid)))
	}
	return err
}

// send tells the guard process one thing. One that doesn't take it is replaced, as is one that could not be replaced
// before, if there is anything to guard; else the next Start does it.
func (g *Guard) send(word string, n int64) {
	if g.process != nil {
		if g.write(word, n) == nil {
			return
		}
		g.bury()
	}
	if len(g.groups) > 0 {
		_ = g.launch() // Start says why not
	}
}

// write writes a line, whole or not at all, and never waits: a full pipe means that the guard hangs.
func (g *Guard) write(word string, n int64) error {
	line := make([]byte, 0, 32)
	line = append(append(line, word...), ' ')
	line = append(strconv.AppendInt(line, n, 10), '\n')
	_, err := syscall.Write(g.pipe, line)
	return err
}

// bury ends the guard process without letting it kill anything: it must not see its stdin end.
func (g *Guard) bury() {
	_ = g.process.Process.Kill()
	_ = g.process.Wait()
	_ = syscall.Close(g.pipe)
	g.process = nil
}
