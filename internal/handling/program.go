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

// sureRoom is what fits into an empty pipe in any case, also where the system is short of memory for pipes.
const sureRoom = 4096

// Program is a program that was started: the leader of a process group of its own.
type Program struct {
	pid    int
	guard  *guard.Guard
	input  *input
	output *capture
	detach sync.Once

	mu          sync.Mutex
	reaped      bool // from now on the group's id may be somebody else's
	interrupted bool // it was told to end before it ended by itself
	// deaf says that it had not ended when its grace was over, and so was killed.
	deaf  bool
	grace time.Duration
	kill  *time.Timer
}

// Command is what to start.
type Command struct {
	// Path is the program's file, Argv what it finds as its arguments, its own name first.
	Path string
	Argv []string
	// Dir is the folder in which it runs; "" is the worker's.
	Dir string
	Env []string
	// Credential is the user as whom it runs; nil is the worker's own. NewPrivs lets such a program gain rights by what it executes.
	Credential *syscall.Credential
	NewPrivs   bool
}

// Sink takes what a program prints: into Room, which is never empty, and then it is told how much was taken there.
type Sink interface {
	Room() []byte
	Took(n int)
}

// Start starts a program, under guard, that reads message on its stdin and prints to out, with stdout and stderr
// alike. An error is the bare errno, or why the context has ended.
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
	if err = syscall.SetNonblock(stdout, true); err == nil { // ours alone: the other end has a flag of its own
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

// fork starts a program with these files, as the leader of a group, if at this moment the context goes on. That of another user is
// the leader of a session too, so that it has no hold on a terminal of the worker's; and it may open its files again, as /dev/stderr.
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
		return 0, err // and not in there, where a worker dies whose time is up at this moment
	}
	return g.Fork(func() (int, error) {
		start := func() (int, error) {
			if err := Err(ctx); err != nil {
				return 0, err
			}
			return syscall.ForkExec(c.Path, c.Argv, attr)
		}
		if c.Credential != nil && !c.NewPrivs {
			return process.WithoutNewPrivs(start)
		}
		return start()
	})
}

// PID is the leader's process id, and the group's.
func (p *Program) PID() int { return p.pid }

// Interrupt tells the group to end, and makes it end after grace. It does nothing if the leader has ended by itself. It calls
// denied if the leader may not be killed; until that returns, the leader isn't reaped.
func (p *Program) Interrupt(grace time.Duration, denied func()) {
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
			denied()
		}
	})
}

// IfKilledInVain calls f if the leader was told to end and has not ended: ask when its grace is over. Until f returns, the leader
// isn't reaped.
func (p *Program) IfKilledInVain(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.interrupted && !p.reaped && !process.HasEnded(p.pid) {
		f()
	}
}

// Await waits until the leader has ended, kills what is left of the group, and takes the rest of the output. The leader
// stays a zombie, and so the group's id its own, until Reap. Of a program that has ended by itself it gives what that has left, as
// Guard.Left does.
func (p *Program) Await(variable string) (within, outside []string) {
	process.AwaitEnd(p.pid)
	if !p.Interrupted() {
		within, outside = p.guard.Left(p.pid, variable)
	}
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	p.Detach()
	return within, outside
}

// Detach closes what the worker has of its input and output, which is complete then. It may be repeated.
func (p *Program) Detach() {
	p.detach.Do(func() {
		p.input.close()
		p.output.finish()
	})
}

// Reap says how the leader ended, and how much processor time it has used, and those of its children for which it has waited.
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

// Ignored says, behind why it was told to end, that it had to be killed; "" if it hadn't. Ask after Reap.
func (p *Program) Ignored() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.deaf {
		return ""
	}
	return fmt.Sprintf("; ignored SIGTERM for %s, killed", p.grace.Round(100*time.Millisecond))
}

// Interrupted says whether Interrupt has told it to end before it ended by itself.
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

// feed makes a program's stdin that gives message. A short message is in the pipe before the program starts.
func feed(message []byte) (stdin int, in *input, err error) {
	r, w, err := process.Pipe()
	if err != nil {
		return -1, nil, err
	}
	if len(message) <= sureRoom {
		_, err = syscall.Write(w, message)
		_ = syscall.Close(w)
	} else {
		// not blocking, so that close ends a write without a reader
		err = syscall.SetNonblock(w, true)
		in = &input{file: os.NewFile(uintptr(w), "input"), rest: message}
	}
	if err != nil {
		in.close()
		_ = syscall.Close(r)
		return -1, nil, err
	}
	return r, in, nil
}

// begin writes beside whatever else happens. A program that doesn't read, or not all, is within its rights.
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
