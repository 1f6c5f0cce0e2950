package process

import (
	"errors"
	"syscall"
)

// KeepFiles does nothing: programs inherit only the files they are given.
func KeepFiles() {}

// errWindows is why no program runs on Windows: there are no process groups to end and kill all that a program has
// started before its job's lock ends.
var errWindows = errors.New("hipq runs no programs on Windows, because it can't end all that a program has started there; " +
	"run hipq work on Linux, macOS or BSD, against the same database")

// CanRun returns why hipq can't run programs on this system.
func CanRun() error { return errWindows }

// SignalName is empty: no program of a job ends by a signal on Windows.
func SignalName(syscall.Signal) string { return "" }

// SignalBelow does nothing: Windows has no signals.
func SignalBelow(int, syscall.Signal) {}
