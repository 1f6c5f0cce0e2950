package process

import (
	"errors"
	"syscall"
)

// KeepFiles does nothing: no program gets files of this process that it isn't given.
func KeepFiles() {}

// errWindows is why no program runs on Windows. There are no process groups, by which everything that a program has started is
// told to end, and killed, before its job's lock does.
var errWindows = errors.New("hipq runs no programs on Windows, where it can't end all that a program has started; " +
	"let hipq work run on Linux, macOS or BSD, against the same database")

// CanRun says whether hipq can run programs on this system, and why not.
func CanRun() error { return errWindows }

// SignalName is empty: no program of a job ends by a signal on Windows.
func SignalName(syscall.Signal) string { return "" }

// SignalBelow signals nothing: Windows has no signals.
func SignalBelow(int, syscall.Signal) {}
