//go:build !windows

package handling

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/hipq/hipq/internal/guard"
	"github.com/hipq/hipq/internal/process"
)

// sureRoom always fits into an empty pipe, even if the system is short of memory for pipes.
const sureRoom = 4096

// Program is a started program: the leader of its own process group.
type Program struct {
	pid    int
	guard  *guard.Guard
	input  *input
	output *capture
	detach sync.Once

	mu          sync.Mutex
	reaped      bool // from now on the group's id may be reused
	interrupted bool // told to end before it ended by itself
	// deaf reports that it survived its grace, and so was killed.
	deaf  bool
	grace time.Duration
	kill  *time.Timer
}

// Command is what to start.
type Command struct {
	Path string
	Argv []string // starts with the program's name
	// Dir is the working directory; "" means the worker's.
	Dir string
	Env []string
	// Credential is the user to run as; nil means the worker's.
	Credential *syscall.Credential
	NewPrivs   bool // lets a program with a Credential gain rights by what it executes
}

// Sink receives output: written into Room, which is never empty, and then Took tells how much.
type Sink interface {
	Room() []byte
	Took(n int)
}

// Start starts a program, under guard, with message on its stdin and stdout and stderr in out. An error is the bare
// errno, or the cause of the context's end.
func Start(ctx context.Context, g *guard.Guard, c Command, message []byte, out Sink) (*Program, error) {
	stdin, in, err := feed(message)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(stdin)
	stdout, theirs, err := process.Pipe()
	if err != nil {
		in.close()
		return nil, err
	}
	defer syscall.Close(theirs)
	pid := 0
	if err = syscall.SetNonblock(stdout, true); err == nil { // the flag is only of our end
		pid, err = fork(ctx, g, c, stdin, theirs, theirs)
	}
	if err != nil {
		in.close()
		_ = syscall.Close(stdout)
		return nil, err
	}
	in.begin()
	return &Program{pid: pid, guard: g, input: in, output: newCapture(stdout, out)}, nil
}

// fork starts a program with these files as a group leader, unless the context has ended. Another user's program also leads
// a session, so that it can't access the worker's terminal; and it owns its files, so that it can reopen /dev/stderr.
func fork(ctx context.Context, g *guard.Guard, c Command, files ...int) (pid int, err error) {
	attr := &syscall.ProcAttr{Dir: c.Dir, Env: c.Env, Sys: &syscall.SysProcAttr{Setpgid: true, Credential: c.Credential}}
	if c.Credential != nil {
		attr.Sys.Setpgid, attr.Sys.Setsid = false, true
	}
	for _, fd := range files {
		if c.Credential != nil {
			_ = syscall.Fchown(fd, int(c.Credential.Uid), int(c.Credential.Gid))
		}
		attr.Files = append(attr.Files, uintptr(fd))
	}
	if err := Err(ctx); err != nil {
		return 0, err // not inside Fork, which kills a worker whose time is up
	}
	return g.Fork(func() (int, error) {
		start := func() (int, error) {
			if err := Err(ctx); err != nil {
				return 0, err
			}
			return syscall.ForkExec(c.Path, c.Argv, attr)
		}
		if c.Credential != nil {
			return process.Apart(c.NewPrivs, start)
		}
		return start()
	})
}

// PID is the process id of the leader and of the group.
func (p *Program) PID() int { return p.pid }

// dying is how long a killed leader may take to end. A program that waits for a disk or file server may never end.
const dying = 5 * time.Second

// Interrupt sends TERM to the group, and KILL after grace. It does nothing if the leader has already ended. If the leader
// can't be killed, giveUp gets the reason; the leader isn't reaped before that returns.
func (p *Program) Interrupt(grace time.Duration, giveUp func(still string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped || process.HasEnded(p.pid) {
		return
	}
	p.interrupted, p.grace = true, grace
	_ = syscall.Kill(-p.pid, syscall.SIGTERM)
	p.kill = time.AfterFunc(grace, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.reaped {
			return
		}
		p.deaf = grace > 0 && !process.HasEnded(p.pid)
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
		if syscall.Kill(p.pid, syscall.SIGKILL) == syscall.EPERM && !process.HasEnded(p.pid) {
			giveUp("the worker may not signal it") // because it changed its user
			return
		}
		p.kill = time.AfterFunc(dying, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if !p.reaped && !process.HasEnded(p.pid) {
				giveUp("it was killed but has not ended")
			}
		})
	})
}

// Await waits until the leader has ended, kills the rest of its group, and reads the rest of the output. Until Reap,
// the leader stays a zombie, so the group's id isn't reused. If the program was not interrupted, Await returns what it
// left, as Guard.Left does.
func (p *Program) Await(variable string) (within, outside []string) {
	process.AwaitEnd(p.pid)
	if !p.Interrupted() {
		within, outside = p.guard.Left(p.pid, variable)
	}
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	p.Detach()
	return within, outside
}

// Detach closes the worker's ends of input and output; the output is then complete. It may be repeated.
func (p *Program) Detach() {
	p.detach.Do(func() {
		p.input.close()
		p.output.finish()
	})
}

// Reap returns how the leader ended, and its processor time, including children that it waited for.
func (p *Program) Reap() (status syscall.WaitStatus, used time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	if p.kill != nil {
		p.kill.Stop()
	}
	var usage syscall.Rusage
	p.guard.Reap(p.pid, func() {
		for {
			if _, err = syscall.Wait4(p.pid, &status, 0, &usage); err != syscall.EINTR {
				return
			}
		}
	})
	p.deaf = p.deaf && status.Signaled() && status.Signal() == syscall.SIGKILL
	return status, time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), err
}

// Ignored says, as an appendix to the reason of an interrupt, that the program had to be killed; else "". Call it after Reap.
func (p *Program) Ignored() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.deaf {
		return ""
	}
	return fmt.Sprintf("; ignored SIGTERM for %s, killed", p.grace.Round(100*time.Millisecond))
}

// Interrupted reports whether Interrupt came before the program's end.
func (p *Program) Interrupted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.interrupted
}

type input struct {
	file *os.File
	rest []byte
	done chan struct{}
}

// feed makes a stdin with message. A short message is in the pipe before the program starts.
func feed(message []byte) (stdin int, in *input, err error) {
	if len(message) > sureRoom {
		stdin, file, err := pipe(false) // close ends a write without a reader
		return stdin, &input{file: file, rest: message}, err
	}
	stdin, w, err := process.Pipe()
	if err != nil {
		return -1, nil, err
	}
	_, err = syscall.Write(w, message)
	_ = syscall.Close(w)
	if err != nil {
		_ = syscall.Close(stdin)
	}
	return stdin, nil, err
}

// begin writes in the background. A program need not read its input.
func (in *input) begin() {
	if in == nil {
		return
	}
	in.done = make(chan struct{})
	go func() {
		defer close(in.done)
		_, _ = in.file.Write(in.rest)
		_ = in.file.Close()
	}()
}

func (in *input) close() {
	if in == nil {
		return
	}
	_ = in.file.Close()
	if in.done != nil {
		<-in.done
	}
}

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
