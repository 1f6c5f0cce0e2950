package handler

import (
	"context"
	"os"
	"os/exec"
	"time"

	"github.com/hipq/hipq/internal/guard"
)

// Guard is for workers with programs as handlers: a process beside the worker that kills the programs which the worker runs
// if the worker can't do it any more, because it was killed, crashed, or stopped. It does so before the worker's lock ends and
// another worker may take the jobs. It starts with the first program, and is replaced if it dies; while none can be started, no
// further program starts. All Exec of a worker have the same Guard; the worker's Params have the id that NewGuard was given,
// and Extend as Renewed. When the worker has ended, Close it.
//
// A nil Guard guards nothing. A Guard is safe for concurrent use.
type Guard guard.Guard

// NewGuard describes a guard and starts nothing yet. argv is a command that calls ServeGuard with its further arguments: this
// program itself, say, with one argument by which it knows. Programs get a TERM and, grace later at most, a KILL.
func NewGuard(argv []string, workerID string, grace time.Duration) *Guard {
	return (*Guard)(guard.New(argv, workerID, grace))
}

// Adopt makes this process the parent of what its programs leave behind, where the system can do that (Linux): then Close
// finds it, whatever it did to hide. All children that the process gets after the first program has started are taken for
// such leftovers, so Adopt is for processes that start nothing else. Call it once, before the first program starts.
func (g *Guard) Adopt() { g.ofWorker().Adopt() }

// KillIfLate has the system (Linux) kill this process if it is in the middle of a program's start, and still is when its lock is
// about to end. That happens to a process which was stopped just then: going on, it would start a job that is another worker's
// by then. It is for processes that are nothing but a worker. Call it once, before the first program starts.
func (g *Guard) KillIfLate() { g.ofWorker().KillIfLate() }

// RunWorker runs a command that is a worker of its own, in a session of its own, and gives its error. When ctx ends, the command gets a
// TERM, and killAfter later a KILL. The guard leaves it alone: when this worker dies, the command goes on under its own lock.
func (g *Guard) RunWorker(ctx context.Context, cmd *exec.Cmd, killAfter time.Duration) error {
	return g.ofWorker().RunWorker(ctx, cmd, killAfter)
}

// Extend says that the worker's lock lasts until so long from now, counted from before its renewal was asked for.
func (g *Guard) Extend(until time.Duration) { g.ofWorker().Extend(until) }

// Close ends the guard. Programs that are still running, or have left something that runs, are killed first. Its error, for
// people, names what could not be killed. Closed again, it does nothing.
func (g *Guard) Close() error { return g.ofWorker().Close() }

// Killed names what programs had left behind that was killed and that no attempt names. Ask after Close.
func (g *Guard) Killed() []string { return g.ofWorker().Killed() }

// ServeGuard is the guard process: its whole life, with in as its standard input and args as the last of its arguments, which
// the worker has given it. It ignores the signals by which processes are usually told to end.
func ServeGuard(in *os.File, args []string) error { return guard.Serve(in, args) }

// ofWorker is the worker's end of the guard, for its programs; nil if there is no guard.
func (g *Guard) ofWorker() *guard.Guard { return (*guard.Guard)(g) }
