//go:build !windows

// Package guard ensures that no program of a worker, and no process that they have started, is left when the worker has ended,
// however it has: Guard and Serve are the two ends of a second process, and KillOrphans clears up where that was killed too.
package guard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hipq/hipq/internal/process"
)

// Guard is the worker's end of a guard: a process that kills the programs the worker runs if the worker can't do it any
// more, because it was killed, crashed, or stopped. It does so before the worker's lock ends and another worker may take
// the jobs. Serve is the other end.
//
// The guard process starts with the first program. If it was stopped, the next word to it continues it; if it dies, or
// doesn't listen, that starts another; while none can be started, no further program starts. A nil Guard guards nothing. A
// Guard is safe for concurrent use.
type Guard struct {
	argv     []string
	workerID string
	grace    time.Duration
	hunt     *hunt // its groups are those under guard
	children *children

	mu      sync.Mutex
	lockEnd time.Time // zero until the first Extend
	// termAt and killAt are when the guard process sends its TERM and its KILL, at the earliest; zero as well.
	termAt, killAt time.Time
	late           late
	process        *exec.Cmd // nil while none runs
	pipe           int       // its stdin, not blocking
	// started says that there has been a guard process, sealed that there will be none any more.
	started, sealed bool
	counting        *time.Timer // until the next headcount; nil if the worker doesn't adopt
	killed          []string
}

// headcountEvery is how often a worker that adopts looks for adopted processes.
const headcountEvery = time.Second

// errSealed is what a program gets that starts after its worker has ended.
var errSealed = errors.New("start the guard: the worker has ended")

// New describes a guard and starts nothing yet. argv is a command that calls Serve with its further arguments.
// Programs get a TERM and, grace later at most, a KILL.
func New(argv []string, workerID string, grace time.Duration) *Guard {
	g := &Guard{argv: argv, workerID: workerID, grace: grace, hunt: newHunt(workerID), children: newChildren()}
	g.hunt.children = g.children
	return g
}

// Adopt makes this process the parent of what its programs leave behind, where the system can do that (Linux): then Close
// finds it, whatever it did to hide. All children that the process gets after the first program has started are taken for
// such adopted processes, so Adopt is for processes that start nothing else. Call it once, before the first program starts.
func (g *Guard) Adopt() {
	if g != nil {
		g.children.adopt()
	}
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
	began := now()
	g.lockEnd = began.Add(until)
	g.termAt, g.killAt = stopTimes(began, until, g.grace)
	g.setDeadline()
	g.send("until", until.Milliseconds())
}

// MayStop says whether the guard process may have told programs to end: what those say of themselves then is no result.
func (g *Guard) MayStop() bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.termAt.IsZero() && !now().Before(g.termAt)
}

// Add puts a process group under guard.
func (g *Guard) Add(pgid int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hunt.addGroup(pgid)
	g.send("add", int64(pgid))
}

// Remove takes a process group from under guard. Call it while the group's id can't be anybody else's yet.
func (g *Guard) Remove(pgid int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hunt.removeGroup(pgid)
	g.send("remove", int64(pgid))
}

// Fork starts a program, the leader of a group, and puts it under guard; Reap is for its end. The last look at the lock is part
// of start: see KillIfLate.
func (g *Guard) Fork(start func() (pid int, err error)) (pid int, err error) {
	if g == nil {
		return start()
	}
	g.startBegins()
	defer g.startIsOver()
	if pid, err = g.children.fork(start); err == nil {
		g.Add(pid)
	}
	return pid, err
}

// RunWorker runs a command that is a worker of its own, in a session of its own, and gives its error. When ctx ends, the command gets a
// TERM, and killAfter later a KILL. The guard process knows nothing of it.
func (g *Guard) RunWorker(ctx context.Context, cmd *exec.Cmd, killAfter time.Duration) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pid, err := g.children.fork(func() (int, error) {
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		return cmd.Process.Pid, nil
	})
	if err != nil {
		return fmt.Errorf("start a worker: %w", err)
	}
	defer context.AfterFunc(ctx, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		time.AfterFunc(killAfter, func() { _ = cmd.Process.Kill() })
	})()
	process.AwaitEnd(pid)
	g.children.reap(pid, func() { err = cmd.Wait() })
	return err
}

// Reap takes a program that has ended from under guard, and reaps it.
func (g *Guard) Reap(pid int, wait func()) {
	if g == nil {
		wait()
		return
	}
	g.Remove(pid) // first, since the id may be somebody else's after that
	g.children.reap(pid, wait)
}

// Close ends the guard process. If programs are still running, or something of them is that left their groups, they are
// killed first, and Close waits for that: nothing of a worker is left when it has ended. Its error, for people, names what
// could not be killed.
func (g *Guard) Close() error {
	if g == nil {
		return nil
	}
	defer g.children.release()
	if !g.seal() {
		return nil
	}
	// the guard process stays beside it, in case the worker is killed meanwhile
	var left []string
	if g.hunt.any() {
		_, adopted := g.hunt.known()
		names := g.children.unnamed(adopted)
		g.hunt.end(now().Add(g.grace))
		left = g.hunt.left()
		for _, pid := range slices.Sorted(maps.Keys(names)) {
			if !process.Runs(pid) {
				g.NoteKilled([]string{names[pid]})
			}
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.process != nil {
		g.relieve()
	}
	if len(left) > 0 {
		return fmt.Errorf("end what handlers have left: %s", strings.Join(left, "; "))
	}
	return nil
}

// seal makes sure that there will be no other guard process, nor program, and says whether there has been one.
func (g *Guard) seal() (started bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := !g.sealed
	g.sealed = true
	if g.counting != nil {
		g.counting.Stop()
	}
	if g.process != nil {
		g.hunt.spared = g.process.Process.Pid
	}
	return g.started && first
}

// headcount reaps the adopted processes that have ended, and tells the guard process of new ones: once the worker is dead it is
// unknown whose they were.
func (g *Guard) headcount() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sealed {
		return
	}
	for pid, born := range g.hunt.headcount() {
		g.send("adopted", int64(pid), int64(born))
	}
	g.counting.Reset(headcountEvery)
}

// launch starts the guard process and tells it all there is to know.
func (g *Guard) launch() error {
	if g.sealed {
		return errSealed
	}
	r, w, err := process.Pipe()
	if err != nil {
		return fmt.Errorf("start the guard: %w", err)
	}
	stdin := os.NewFile(uintptr(r), "guard")
	defer stdin.Close()
	cmd := exec.Command(g.argv[0], append(slices.Clone(g.argv[1:]), g.workerID, g.grace.String())...)
	cmd.Stdin = stdin
	// With the worker's id, so that KillOrphans finds one that has been stopped; and out of reach of whatever hits the worker's
	// session.
	cmd.Env = []string{WorkerVariable + "=" + g.workerID}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err = syscall.SetNonblock(w, true); err == nil {
		_, err = g.children.fork(func() (int, error) {
			if err := cmd.Start(); err != nil {
				return 0, err
			}
			return cmd.Process.Pid, nil
		})
	}
	if err != nil {
		_ = syscall.Close(w)
		return fmt.Errorf("start the guard: %w", err)
	}
	g.process, g.pipe, g.started = cmd, w, true
	if g.children.adopts && g.counting == nil {
		g.counting = time.AfterFunc(headcountEvery, g.headcount)
	}
	if err := g.tellAll(); err != nil {
		g.relieve()
		return fmt.Errorf("talk to the guard: %w", err)
	}
	return nil
}

func (g *Guard) tellAll() (err error) {
	if !g.lockEnd.IsZero() {
		err = g.write("until", g.lockEnd.Sub(now()).Milliseconds())
	}
	groups, adopted := g.hunt.known()
	for pgid := range groups {
		err = errors.Join(err, g.write("add", int64(pgid)))
	}
	for pid, born := range adopted {
		err = errors.Join(err, g.write("adopted", int64(pid), int64(born)))
	}
	return err
}

// send tells the guard process one thing. One that doesn't take it is replaced, as is one that could not be replaced
// before, if there is anything to guard; else the next Start does it.
func (g *Guard) send(word string, numbers ...int64) {
	if g.process != nil {
		if g.write(word, numbers...) == nil {
			_ = syscall.Kill(g.process.Process.Pid, syscall.SIGCONT) // a handler may have stopped it
			return
		}
		g.relieve()
	}
	if groups, adopted := g.hunt.known(); len(groups)+len(adopted) > 0 {
		_ = g.launch() // Start says why not
	}
}

// write writes a line, whole or not at all, and never waits: a full pipe means that the guard hangs.
func (g *Guard) write(word string, numbers ...int64) error {
	line := append(make([]byte, 0, 48), word...)
	for _, n := range numbers {
		line = strconv.AppendInt(append(line, ' '), n, 10)
	}
	_, err := syscall.Write(g.pipe, append(line, '\n'))
	return err
}

// relieve ends the guard process without letting it kill anything: it must not see its stdin end.
func (g *Guard) relieve() {
	_ = g.process.Process.Kill()
	g.children.reap(g.process.Process.Pid, func() { _ = g.process.Wait() })
	_ = syscall.Close(g.pipe)
	g.process = nil
}
