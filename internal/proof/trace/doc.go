// Package trace runs a command and everything that it starts under ptrace, for tests (Linux on amd64). A hook sees each
// system call that touches the world outside the processes, in order, and can make it fail or send signals just then.
// The run can also be recorded for a power cut, and have a clock of its own.
package trace
