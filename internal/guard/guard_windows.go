package guard

import (
	"context"
	"os"
	"os/exec"
	"time"

	"github.com/hipq/hipq/internal/process"
)

// Guard guards nothing, because hipq runs no programs on Windows.
type Guard struct{}

func New([]string, string, time.Duration) *Guard                         { return nil }
func (*Guard) Alone()                                                    {}
func (*Guard) Extend(time.Duration)                                      {}
func (*Guard) RunWorker(context.Context, *exec.Cmd, time.Duration) error { return process.CanRun() }
func (*Guard) Close() error                                              { return nil }
func (*Guard) Killed() []string                                          { return nil }

func Serve(*os.File, []string) error { return process.CanRun() }
func Programs(string) map[int]string { return nil }
func KillOrphans(string) []string    { return nil }
