package handler

import (
	"context"
	"os"
	"os/exec"
	"time"

	"github.com/hipq/hipq/internal/guard"
)

// Guard is a process beside the worker that kills the worker's programs if the worker was killed, crashed or stopped. It does
// so before the worker's lock ends and other workers may take the jobs. It starts with the first program and is replaced if
// it dies; no program starts without it. Use one Guard for all of a worker's programs, NewGuard's id as the worker's ID, and
// Extend as Renewed. Close it when the worker has ended.
//
// A nil Guard guards nothing. A Guard is safe for concurrent use.
type Guard guard.Guard

// NewGuard returns a guard without starting it. argv is a command that calls ServeGuard with its further arguments, usually
// this program with a special argument. Programs get TERM and, after at most grace, which is as in Program, KILL.
func NewGuard(argv []string, workerID string, grace time.Duration) *Guard {
	return (*Guard)(guard.New(argv, workerID, (&Program{Grace: grace}).grace()))
}

// Adopt makes this process the parent of processes that its programs leave behind (Linux only), so that Close finds them all.
// It takes all later children for such processes, so use it only if this process starts nothing else. Call it once, before
// the first program starts.
func (g *Guard) Adopt() { g.ofWorker().Adopt() }

// KillIfLate makes Linux kill this process if it is still starting a program when its lock is about to end. A process that
// was stopped in that moment would otherwise start a job of another worker. Use it only in worker processes. Call it once,
// before the first program starts.
func (g *Guard) KillIfLate() { g.ofWorker().KillIfLate() }

// RunWorker runs a command that is its own worker, in its own session, and returns its error. When ctx ends, the command gets
// TERM and, after killAfter, KILL. The guard ignores it: if this worker dies, the command goes on under its own lock.
func (g *Guard) RunWorker(ctx context.Context, cmd *exec.Cmd, killAfter time.Duration) error {
	return g.ofWorker().RunWorker(ctx, cmd, killAfter)
}

// Extend sets the remaining life of the worker's lock, counted from before the request for its renewal.
func (g *Guard) Extend(until time.Duration) { g.ofWorker().Extend(until) }

// Close kills running programs and what they left, and ends the guard. Its error, for people, names processes that couldn't
// be killed. It may be repeated.
func (g *Guard) Close() error { return g.ofWorker().Close() }

// Killed returns killed leftovers of programs that no attempt names. Call it after Close.
func (g *Guard) Killed() []string { return g.ofWorker().Killed() }

// ServeGuard is the whole life of the guard process. in is its standard input, and args are its last arguments, from the
// worker. It ignores the usual termination signals.
func ServeGuard(in *os.File, args []string) error { return guard.Serve(in, args) }

// ofWorker returns the worker's end of the guard, or nil.
func (g *Guard) ofWorker() *guard.Guard { return (*guard.Guard)(g) }
