//go:build !windows

// Package process inspects and controls processes. process_other.go is for Unix systems other than Linux, which has its own files.
package process

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// CanRun returns why hipq can't run programs on this system, or nil.
func CanRun() error { return nil }

// Umask sets which rights new files of this process lack, and returns which they lacked.
func Umask(mask int) int { return syscall.Umask(mask) }

// SignalName is how manuals and kill -l call a signal: SIGKILL.
func SignalName(s syscall.Signal) string { return unix.SignalName(s) }

// usualFiles limits the search for open files if the system may not list them.
const usualFiles = 256

func keepListed() {
	for fd := 3; fd < usualFiles; fd++ {
		syscall.CloseOnExec(fd)
	}
	open, _ := os.ReadDir("/dev/fd")
	for _, o := range open {
		if fd, err := strconv.Atoi(o.Name()); err == nil && fd >= usualFiles {
			syscall.CloseOnExec(fd)
		}
	}
}

// Other is a process of this host.
type Other struct {
	Parent, Group, Session int
	// Born, in ticks since the host's start, tells it from later processes with the same id.
	Born  int
	Ended bool
	// Threads is the number of its threads.
	Threads int
}

// Others are the processes of this host, if the system shows them.
func Others() map[int]Other {
	all := map[int]Other{}
	AddOthers(all, func(int, Other) {})
	return all
}
