package guard

import (
	"context"
	"os"
	"os/exec"
	"time"

	"github.com/hipq/hipq/internal/process"
)

// Guard guards nothing, because Windows has no programs to run.
type Guard struct{}

// New returns nil.
func New([]string, string, time.Duration) *Guard { return nil }

// Adopt does nothing.
func (*Guard) Adopt() {}

// KillIfLate does nothing.
func (*Guard) KillIfLate() {}

// Extend does nothing.
func (*Guard) Extend(time.Duration) {}

// RunWorker refuses.
func (*Guard) RunWorker(context.Context, *exec.Cmd, time.Duration) error { return process.CanRun() }

// Close does nothing.
func (*Guard) Close() error { return nil }

// Killed is nothing.
func (*Guard) Killed() []string { return nil }

// Serve refuses.
func Serve(*os.File, []string) error { return process.CanRun() }

// Programs finds none.
func Programs(string) map[int]string { return map[int]string{} }

// KillOrphans finds nothing to kill.
func KillOrphans(string) []string { return nil }
