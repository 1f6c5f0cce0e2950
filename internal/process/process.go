//go:build !windows

// Package process is what a system tells of processes, and lets be done with them. Each system's answers are in files of their
// own: child_linux.go and child_other.go about the children of this process, others_linux.go and others_other.go about all,
// identity_linux.go and identity_other.go about one that another process has known.
package process

import "syscall"

// CanRun says whether hipq can run programs on this system, and why not.
func CanRun() error { return nil }

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
