package handler

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/hipq/hipq/queue/job"
)

// errWindows is why no program runs on Windows. There are no process groups, by which everything that a program has started is
// told to end, and killed, before its job's lock does.
var errWindows = errors.New("hipq runs no programs on Windows, where it can't end all that a program has started; " +
	"let hipq work run on Linux, macOS or BSD, against the same database")

// CanExec says whether hipq can run programs on this system, and why not.
func CanExec() error { return errWindows }

func (e *Exec) run(context.Context, *job.Job, []byte) (out printed, status syscall.WaitStatus, err error) {
	return out, status, errWindows
}

// Guard guards nothing here, as there are no programs.
type Guard struct{}

// NewGuard describes a guard.
func NewGuard([]string, string, time.Duration) *Guard { return nil }

// Extend does nothing.
func (*Guard) Extend(time.Duration) {}

// Close does nothing.
func (*Guard) Close() error { return nil }

// Adopt does nothing.
func (*Guard) Adopt() {}

// KillStrays finds nothing to kill.
func KillStrays(string) []string { return nil }

// ServeGuard refuses.
func ServeGuard(*os.File, []string) error { return errWindows }
