//go:build linux && amd64

package proof

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// traceOptions is how a run is traced.
type traceOptions struct {
	// Hook is called at the entry of each of tracedCalls, and at its return after AwaitReturn. It runs in one goroutine while the
	// caller is held; the other processes run on.
	Hook func(*tracedCall)
	// Log gets every change of the folder Record; nil for none. Several runs at once may have the same.
	Record string
	Log    *changeLog
	// Clock is the real-time clock of the processes; nil for that of the host.
	Clock *tracedClock
	// Start starts the command; nil for its own Start.
	Start func(*exec.Cmd) error
}

// trace runs a command and everything that it starts under ptrace. Its methods are safe for concurrent use.
type trace struct {
	o   traceOptions
	cmd *exec.Cmd
	// program is the binary whose processes are workers and guards.
	program string
	threads map[int]*tracedThread // of the tracer's goroutine only

	ended chan struct{}
	state *os.ProcessState // of the command
	err   error

	mu        sync.Mutex
	killed    bool
	processes map[int]*tracedProcess
}

// tracedThread is what the tracer knows of a thread between two stops.
type tracedThread struct {
	pid  int
	call *tracedCall // the call whose return is awaited
	// repeats is the call that was put off for a signal, and is made again afterwards.
	repeats *tracedCall
}

// ptraceOptions make the kernel attach everything that a traced process starts, and kill it all if the tracer dies.
const ptraceOptions = unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACEEXEC |
	unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_EXITKILL

// startTrace starts a command. Instead of its Wait, call that of the trace in any case.
func startTrace(cmd *exec.Cmd, o traceOptions) (*trace, error) {
	t := &trace{o: o, cmd: cmd, threads: map[int]*tracedThread{}, ended: make(chan struct{}), processes: map[int]*tracedProcess{}}
	var err error
	if t.program, err = filepath.EvalSymlinks(cmd.Path); err == nil {
		t.o.Record, err = filepath.EvalSymlinks(o.Record)
	}
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	onOwnThread(make(chan struct{}), func() {
		err := t.begin()
		started <- err
		if err == nil {
			t.follow()
			_ = cmd.Wait() // the process is reaped: this awaits the copies of its output
			cmd.ProcessState = t.state
			close(t.ended)
		}
	})
	return t, <-started
}

// onOwnThread runs f in a goroutine whose thread has no other goroutine and no children: ptrace belongs to a thread, and
// children that others have started from it would be taken for traced ones. The thread ends with f.
func onOwnThread(found chan struct{}, f func()) {
	go func() {
		runtime.LockOSThread()
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL|unix.WNOTHREAD, nil)
		if !errors.Is(err, unix.ECHILD) || unix.Gettid() == unix.Getpid() {
			onOwnThread(found, f)
			<-found // meanwhile this thread isn't found again
			runtime.UnlockOSThread()
			return
		}
		close(found)
		f()
	}()
}

// begin starts the command, lets it install the filter in itself, and attaches to it once more. Only PTRACE_SEIZE lets
// a traced process stop by SIGSTOP as if it weren't traced.
func (t *trace) begin() error {
	if t.cmd.SysProcAttr == nil {
		t.cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	t.cmd.SysProcAttr.Ptrace = true
	start := (*exec.Cmd).Start
	if t.o.Start != nil {
		start = t.o.Start
	}
	if err := start(t.cmd); err != nil {
		return err
	}
	pid := t.cmd.Process.Pid
	var status unix.WaitStatus
	_, err := unix.Wait4(pid, &status, unix.WALL, nil)
	if err == nil && !status.Stopped() {
		err = fmt.Errorf("it ended at once: %v", status)
	}
	if err == nil {
		err = t.install(pid)
	}
	if err == nil && t.o.Clock != nil {
		err = hideVDSO(pid)
	}
	if err == nil {
		err = errors.Join(unix.Kill(pid, unix.SIGSTOP), unix.PtraceDetach(pid), ptrace(unix.PTRACE_SEIZE, pid, ptraceOptions))
	}
	if err == nil {
		t.processes[pid] = &tracedProcess{PID: pid, Role: t.roleOf(pid)}
		t.threads[pid] = &tracedThread{pid: pid}
		err = unix.Kill(pid, unix.SIGCONT)
	}
	if err != nil {
		_ = t.cmd.Process.Kill()
		_ = t.cmd.Wait()
		return fmt.Errorf("trace %s: %w", t.cmd.Path, err)
	}
	return nil
}

// follow handles stops until nothing of the command is left. WNOTHREAD spares the children of other threads, so the
// program may start others meanwhile, and trace them.
func (t *trace) follow() {
	for {
		// first without reaping, because only the command's own Wait knows how to make a ProcessState
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT|unix.WALL|unix.WNOTHREAD, nil)
		pid := int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), 16)))
		const exited, dumped = 1, 3
		switch root := t.cmd.Process.Pid; {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil: // ECHILD
			return
		case pid == root && info.Code >= exited && info.Code <= dumped:
			t.state, err = t.cmd.Process.Wait()
			t.fail(err)
			t.gone(pid)
			continue
		}
		if info.Code >= exited && info.Code <= dumped {
			_, _ = unix.Wait4(pid, nil, unix.WALL|unix.WNOTHREAD, nil)
			t.gone(pid)
			continue
		}
		// Only the stop: a command that was killed since then must have its own Wait.
		info = unix.Siginfo{}
		err = unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG|unix.WALL|unix.WNOTHREAD, nil)
		if status := *(*int32)(unsafe.Add(unsafe.Pointer(&info), 24)); err == nil && status != 0 {
			t.stopped(pid, unix.WaitStatus(status<<8|0x7f))
		}
	}
}

func (t *trace) gone(tid int) {
	delete(t.threads, tid)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.processes, tid)
}

func (t *trace) stopped(tid int, status unix.WaitStatus) {
	th := t.threads[tid]
	if th == nil {
		if th = (&tracedThread{pid: statusOf(tid, "Tgid:")}); th.pid == 0 { // it has just been killed
			_ = ptrace(unix.PTRACE_CONT, tid, 0)
			return
		}
		t.threads[tid] = th
	}
	p := t.processOf(th.pid)
	t.mu.Lock()
	killed := t.killed
	t.mu.Unlock()
	if killed {
		_ = unix.Kill(th.pid, unix.SIGKILL)
	}
	signal, event := status.StopSignal(), int(status)>>16
	deliver := 0
	switch {
	case event == unix.PTRACE_EVENT_SECCOMP:
		t.enters(tid, th, p)
	case signal == unix.SIGTRAP|0x80:
		t.returns(tid, th)
	case event == unix.PTRACE_EVENT_EXEC:
		t.executes(tid)
	case event == unix.PTRACE_EVENT_STOP && signal != unix.SIGTRAP:
		_ = ptrace(unix.PTRACE_LISTEN, tid, 0) // a SIGSTOP: it stays stopped until its SIGCONT
		return
	case event == 0:
		deliver = int(signal)
	}
	how := unix.PTRACE_CONT
	if th := t.threads[tid]; th != nil && th.call != nil {
		how = unix.PTRACE_SYSCALL // the next stop is the return
	}
	_ = ptrace(how, tid, deliver)
}

// executes is called when a process has begun a new program. Its other threads are gone, and the one that made the call
// has now the process's id.
func (t *trace) executes(pid int) {
	if former, err := unix.PtraceGetEventMsg(pid); err == nil && int(former) != pid {
		if th := t.threads[int(former)]; th != nil {
			t.threads[pid] = th
			delete(t.threads, int(former))
		}
	}
	if t.o.Clock != nil {
		t.fail(hideVDSO(pid))
	}
	p := t.processOf(pid)
	role := t.roleOf(pid)
	t.mu.Lock()
	p.Role = role
	t.mu.Unlock()
}

// fail keeps the first error of the tracer for Wait, and ends the run.
func (t *trace) fail(err error) {
	if err != nil && !errors.Is(err, unix.ESRCH) {
		if t.err == nil {
			t.err = err
		}
		t.Kill()
	}
}

// Signal sends a signal to each process with this role. It returns how many there are.
func (t *trace) Signal(to processRole, signal syscall.Signal) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for pid, p := range t.processes {
		if p.Role == to && unix.Kill(pid, signal) == nil {
			n++
		}
	}
	return n
}

// Kill kills everything at once, also what is just being started.
func (t *trace) Kill() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.killed = true
	for pid := range t.processes {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// Wait waits until nothing of the command is left. Then the command has its ProcessState, as after its own Wait, and all
// of its output. After the given time, Wait kills everything and returns an error.
func (t *trace) Wait(patience time.Duration) error {
	select {
	case <-t.ended:
		return t.err
	case <-time.After(patience):
	}
	t.Kill()
	<-t.ended
	return errors.Join(t.err, fmt.Errorf("%s was not over after %s", t.cmd.Path, patience))
}

func ptrace(request, pid, data int) error {
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(pid), 0, uintptr(data), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// processRole is what a process is to hipq.
type processRole string

// The roles. Workers are also other commands of hipq that are traced. Forks are processes of hipq that have not yet begun
// a program. All others are handlers, and what these start.
const (
	roleWorker  processRole = "worker"
	roleGuard   processRole = "guard"
	roleHandler processRole = "handler"
	roleFork    processRole = "fork"
)

// tracedProcess is a traced process.
type tracedProcess struct {
	PID int
	// Role changes when it begins a program.
	Role processRole
}

// processOf is a process with this id; a new one has come from a fork.
func (t *trace) processOf(pid int) *tracedProcess {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.processes[pid]
	if p == nil {
		p = &tracedProcess{PID: pid, Role: roleFork}
		if parent := t.processes[statusOf(pid, "PPid:")]; parent != nil && parent.Role == roleHandler {
			p.Role = roleHandler
		}
		t.processes[pid] = p
	}
	return p
}

// roleOf is the role of a process by its program.
func (t *trace) roleOf(pid int) processRole {
	if exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); exe != t.program {
		return roleHandler
	}
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	switch args := bytes.Split(line, []byte{0}); {
	case len(args) > 1 && string(args[1]) == "guard":
		return roleGuard
	case pid == t.cmd.Process.Pid || len(args) > 1 && (string(args[1]) == "work" || string(args[1]) == "quarantine"):
		return roleWorker
	}
	return roleHandler
}

// statusOf is a number from the status of a thread or a process in /proc, 0 if it is gone; of memory in kB.
func statusOf(tid int, field string) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	_, value, _ := bytes.Cut(text, []byte("\n"+field))
	value, _, _ = bytes.Cut(value, []byte("\n"))
	n, _ := strconv.Atoi(string(bytes.TrimSuffix(bytes.TrimSpace(value), []byte(" kB"))))
	return n
}
