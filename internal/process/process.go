//go:build !windows

// Package process is what a system tells of processes, and lets be done with them. Each system's answers are in files of their
// own: child_linux.go and child_other.go about the children of this process, others_linux.go and others_other.go about all,
// identity_linux.go and identity_other.go about one that another process has known,
// program_linux.go and program_other.go about what a program may be given.
package process

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// CanRun says whether hipq can run programs on this system, and why not.
func CanRun() error { return nil }

// SignalName is how manuals and kill -l call a signal: SIGKILL.
func SignalName(s syscall.Signal) string { return unix.SignalName(s) }

// usualFiles is below which number all files are looked for, where the system may not list those that are open.
const usualFiles = 256

// keepListed has all files above the standard streams closed in the programs that this process starts.
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
	// Born, in ticks since the host's start, tells it from others that have its id after it.
	Born  int
	Ended bool
	// Threads is how many it has.
	Threads int
}

// SignalBelow signals all that a process has started, and what these have, as far as the system shows them.
func SignalBelow(pid int, sig syscall.Signal) {
	all := Others()
	for id, o := range all {
		for up, ok := o, true; ok && up.Born >= all[pid].Born; up, ok = all[up.Parent] {
			if up.Parent == pid {
				_ = o.Signal(id, sig) // one that has ended meanwhile needs none
				break
			}
		}
	}
}
