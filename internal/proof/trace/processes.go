//go:build linux && amd64

package trace

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// Role is what a process is to hipq.
type Role string

// The roles. Workers are also other commands of hipq that are traced. Forks are processes of hipq that have not yet begun
// a program. All others are handlers, and what these start.
const (
	Worker  Role = "worker"
	Guard   Role = "guard"
	Handler Role = "handler"
	Fork    Role = "fork"
)

// Process is a traced process.
type Process struct {
	PID int
	// Role changes when it begins a program.
	Role Role
}

// processOf is a process with this id; a new one has come from a fork.
func (t *Trace) processOf(pid int) *Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.processes[pid]
	if p == nil {
		p = &Process{PID: pid, Role: Fork}
		if parent := t.processes[statusOf(pid, "PPid:")]; parent != nil && parent.Role == Handler {
			p.Role = Handler
		}
		t.processes[pid] = p
	}
	return p
}

// roleOf is the role of a process by its program.
func (t *Trace) roleOf(pid int) Role {
	if exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); exe != t.o.Program {
		return Handler
	}
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	switch args := bytes.Split(line, []byte{0}); {
	case len(args) > 1 && string(args[1]) == "guard":
		return Guard
	case pid == t.cmd.Process.Pid || len(args) > 1 && (string(args[1]) == "work" || string(args[1]) == "quarantine"):
		return Worker
	}
	return Handler
}

// statusOf is a number from the status of a thread in /proc, 0 if it is gone.
func statusOf(tid int, field string) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	_, value, _ := bytes.Cut(text, []byte("\n"+field))
	value, _, _ = bytes.Cut(value, []byte("\n"))
	n, _ := strconv.Atoi(string(bytes.TrimSpace(value)))
	return n
}
