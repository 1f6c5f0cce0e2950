//go:build !windows

// Package guard ensures that no program of a worker, nor anything that these started, outlives the worker, however it
// ends. Guard and Serve are the two ends of a second process. KillOrphans cleans up if that was killed too.
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

// Guard is the worker's end of a guard: handler.Guard says what that is for. Serve is the other end. If the guard process was
// stopped, the next message continues it. If it dies or hangs, the next message replaces it.
type Guard struct {
	argv     []string
	workerID string
	grace    time.Duration
	hunt     *hunt // its groups are those under guard
	children *children

	mu      sync.Mutex
	lockEnd time.Time // zero until the first Extend
	// termAt and killAt are the earliest times of the guard process's TERM and KILL; zero until the first Extend.
	termAt, killAt time.Time
	late           late
	process        *exec.Cmd // nil while none runs
	pipe           int       // its stdin, non-blocking
	// started reports that there has been a guard process; sealed, that there will be no other.
	started, sealed bool
	counting        *time.Timer // until the next headcount; nil unless the worker adopts
	killed          []string
}

// headcountEvery is how often a worker that adopts looks for adopted processes.
const headcountEvery = time.Second

var errSealed = errors.New("start the guard: the worker has ended")

// New describes a guard, and starts nothing yet. argv is a command that passes its further arguments to Serve. Programs
// get a TERM and, at most grace later, a KILL.
func New(argv []string, workerID string, grace time.Duration) *Guard {
	g := &Guard{argv: argv, workerID: workerID, grace: grace, hunt: newHunt(workerID), children: newChildren()}
	g.hunt.children, g.hunt.patience = g.children, grace
	return g
}

// Alone says that this process is only a worker. It becomes the parent of processes that its programs leave behind, if the
// system can (Linux): children that appear after the first program's start count as adopted. And it may be killed: see late.
func (g *Guard) Alone() {
	if g != nil {
		g.children.adopt()
		g.late.kills = true
	}
}

// Start starts the guard process unless it runs. Call it before each program: a program started without a guard might
// outlive the worker.
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

// Extend sets when the worker's lock ends, from now. Count from before the renewal was requested.
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
	g.send("until", until.Milliseconds(), time.Now().UnixMilli())
}

// MayStop reports whether the guard process may have sent TERM to programs: what they then report is no result.
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
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hunt.addGroup(pgid)
	g.send("add", int64(pgid))
}

// Remove removes a process group from guard. Call it before the group's id can be reused.
func (g *Guard) Remove(pgid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hunt.removeGroup(pgid)
	g.send("remove", int64(pgid))
}

// Fork starts a program that leads a group, and puts it under guard; Reap ends that. The last check of the lock must be
// part of start: see late.
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

// RunWorker runs a command that is itself a worker, in its own session. The guard process doesn't know of it.
func (g *Guard) RunWorker(ctx context.Context, cmd *exec.Cmd, killAfter time.Duration) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err := g.children.start(cmd)
	if err != nil {
		return fmt.Errorf("start a worker: %w", err)
	}
	defer context.AfterFunc(ctx, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		time.AfterFunc(killAfter, func() { _ = cmd.Process.Kill() })
	})()
	process.AwaitEnd(cmd.Process.Pid)
	g.children.reap(cmd.Process.Pid, func() { err = cmd.Wait() })
	return err
}

// Reap removes an ended program from guard, and reaps it.
func (g *Guard) Reap(pid int, wait func()) {
	if g == nil {
		wait()
		return
	}
	g.Remove(pid) // first, because the id may be reused after wait
	g.children.reap(pid, wait)
}

// Close ends the guard process. It first kills programs that still run, and their processes that left their groups, and
// waits for their end.
func (g *Guard) Close() error {
	if g == nil {
		return nil
	}
	if g.children.adopts {
		defer process.AdoptOrphans(false) // nothing here would reap later children
	}
	if !g.seal() {
		return nil
	}
	// meanwhile the guard process stays, in case the worker is killed
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
		return fmt.Errorf("could not end processes of handlers: %s", strings.Join(left, "; "))
	}
	return nil
}

// seal prevents further guard processes and programs. It reports whether there has been a guard process.
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

// headcount reaps ended adopted processes, and tells the guard process of new ones: after the worker's death nothing
// else shows whose they were.
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
	// The worker's id is set so that KillOrphans finds a stopped guard. The session keeps it from signals to the
	// worker's session.
	cmd.Env = []string{WorkerVariable + "=" + g.workerID}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err = syscall.SetNonblock(w, true); err == nil {
		err = g.children.start(cmd)
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
		err = g.write("until", g.lockEnd.Sub(now()).Milliseconds(), time.Now().UnixMilli())
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

// send sends a message to the guard process. If that fails, or there is none, it starts a new one if there is anything
// to guard; else the next Start does.
func (g *Guard) send(word string, numbers ...int64) {
	if g.process != nil {
		if g.write(word, numbers...) == nil {
			_ = syscall.Kill(g.process.Process.Pid, syscall.SIGCONT) // a handler may have stopped it
			return
		}
		g.relieve()
	}
	if groups, adopted := g.hunt.known(); len(groups)+len(adopted) > 0 {
		_ = g.launch() // Start returns the error
	}
}

// write writes a line atomically, and never waits: a full pipe means that the guard hangs.
func (g *Guard) write(word string, numbers ...int64) error {
	line := append(make([]byte, 0, 48), word...)
	for _, n := range numbers {
		line = strconv.AppendInt(append(line, ' '), n, 10)
	}
	_, err := syscall.Write(g.pipe, append(line, '\n'))
	return err
}

// relieve ends the guard process before its stdin ends, so that it kills nothing.
func (g *Guard) relieve() {
	_ = g.process.Process.Kill()
	g.children.reap(g.process.Process.Pid, func() { _ = g.process.Wait() })
	_ = syscall.Close(g.pipe)
	g.process = nil
}
