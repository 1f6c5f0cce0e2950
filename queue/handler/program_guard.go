package handler

import (
	"os"
	"time"

	"github.com/hipq/hipq/internal/guard"
)

// Guard is a process beside the worker that kills the worker's programs if the worker was killed, crashed or stopped. It does
// so before the worker's lock ends and other workers may take the jobs. It starts with the first program and is replaced if
// it dies; no program starts without it. Use one Guard for all of a worker's programs, NewGuard's id as the worker's ID, and
// Extend as Renewed. When the worker has ended, Close kills running programs and what they left, and ends the guard; its error
// names processes that couldn't be killed.
//
// A process that is only a worker calls Adopt and KillIfLate once, before the first program starts. With Adopt, Close finds all
// processes that programs leave behind (Linux only): all later children of this process count as such. With KillIfLate, Linux
// kills this process if it is still starting a program when its lock is about to end. A process that was stopped in that moment
// would otherwise start a job of another worker.
//
// A nil Guard guards nothing. A Guard is safe for concurrent use. Its other methods are for this package.
type Guard = guard.Guard

// NewGuard returns a guard without starting it. argv is a command that calls ServeGuard with its further arguments, usually
// this program with a special argument. Programs get TERM and, after at most grace, which is as in Program, KILL.
func NewGuard(argv []string, workerID string, grace time.Duration) *Guard {
	return guard.New(argv, workerID, (&Program{Grace: grace}).grace())
}

// ServeGuard is the whole life of the guard process. in is its standard input, and args are its last arguments, from the
// worker. It ignores the usual termination signals.
func ServeGuard(in *os.File, args []string) error { return guard.Serve(in, args) }
