package process

import (
	"errors"
	"syscall"
)

// errWindows is why no program runs on Windows: there are no process groups to end and kill all that a program has
// started before its job's lock ends.
var errWindows = errors.New("hipq runs no programs on Windows, because it can't end all that a program has started there; " +
	"run hipq work on Linux, macOS or BSD, against the same database")

func CanRun() error                    { return errWindows }
func KeepFiles()                       {} // programs inherit only the files they are given
func Umask(int) int                    { return 0 }
func SignalName(syscall.Signal) string { return "" }
