//go:build !windows

package handling

import (
	"context"
	"os"
	"syscall"

	"github.com/hipq/hipq/internal/guard"
	"github.com/hipq/hipq/internal/process"
)

// Dialogue has the worker's ends of the pipes to a program while it runs. The caller closes them.
type Dialogue struct {
	// In is the program's standard input, Out and Err its output.
	In, Out, Err *os.File
}

// Close closes all three. It may be repeated.
func (d Dialogue) Close() {
	_, _, _ = d.In.Close(), d.Out.Close(), d.Err.Close()
}

// StartDialogue starts a program, under guard, for a dialogue. Errors are as for Start.
func StartDialogue(ctx context.Context, g *guard.Guard, c Command) (p *Program, d Dialogue, err error) {
	var theirs [3]int
	for i, ours := range []**os.File{&d.In, &d.Out, &d.Err} {
		theirs[i], *ours, err = pipe(i > 0)
		if err != nil {
			for _, fd := range theirs[:i] {
				_ = syscall.Close(fd)
			}
			d.Close()
			return nil, d, err
		}
	}
	pid, err := fork(ctx, g, c, theirs[:]...)
	for _, fd := range theirs {
		_ = syscall.Close(fd)
	}
	if err != nil {
		d.Close()
		return nil, d, err
	}
	return &Program{pid: pid, guard: g}, d, nil
}

// pipe makes a pipe. ours is the reading end if read, else the writing end; it never blocks a thread.
func pipe(read bool) (theirs int, ours *os.File, err error) {
	theirs, mine, err := process.Pipe()
	if err != nil {
		return -1, nil, err
	}
	if read {
		theirs, mine = mine, theirs
	}
	if err := syscall.SetNonblock(mine, true); err != nil {
		_, _ = syscall.Close(theirs), syscall.Close(mine)
		return -1, nil, err
	}
	return theirs, os.NewFile(uintptr(mine), "pipe"), nil
}
