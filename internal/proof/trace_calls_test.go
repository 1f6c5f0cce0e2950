//go:build linux && amd64

package proof

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// tracedCall is a system call of a traced process.
type tracedCall struct {
	Name string
	tracedProcess
	TID int
	// Path is the file (or "socket:[…]", "pipe:[…]") that the call is about; empty if it is about none.
	Path string
	// Returned reports that the call was made; then Result is what it returned, or -errno.
	Returned bool
	Result   int
	Trace    *trace

	th     *tracedThread
	regs   unix.PtraceRegs
	awaits bool
	// skipped reports that the call isn't made, at least not now.
	skipped bool
	change  *diskChange // for the record
}

// callSubject is which arguments of a call name its file.
type callSubject int

const (
	ofNothing    callSubject = iota
	ofDescriptor             // the first is a descriptor
	ofPath                   // the first is a path
	ofPathAt                 // the first two are a folder's descriptor and a path
	ofThird                  // the third is a descriptor
	ofTarget                 // the second is a path
)

type syscallKind struct {
	name    string
	number  int
	subject callSubject
}

// tracedCalls are the calls that other processes, or a later one, can see something of. Calls for memory, threads, time and
// signals' masks are missing: they are many, and differ from run to run.
var tracedCalls = slices.Concat(
	syscalls(ofDescriptor, "read pread64 readv recvfrom recvmsg", unix.SYS_READ, unix.SYS_PREAD64, unix.SYS_READV, unix.SYS_RECVFROM, unix.SYS_RECVMSG),
	syscalls(ofDescriptor, "write pwrite64 writev pwritev pwritev2", unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_WRITEV, unix.SYS_PWRITEV, unix.SYS_PWRITEV2),
	syscalls(ofDescriptor, "fallocate ftruncate fsync fdatasync", unix.SYS_FALLOCATE, unix.SYS_FTRUNCATE, unix.SYS_FSYNC, unix.SYS_FDATASYNC),
	syscalls(ofDescriptor, "close fcntl flock dup dup2 dup3", unix.SYS_CLOSE, unix.SYS_FCNTL, unix.SYS_FLOCK, unix.SYS_DUP, unix.SYS_DUP2, unix.SYS_DUP3),
	syscalls(ofDescriptor, "connect accept4 sendto sendmsg shutdown", unix.SYS_CONNECT, unix.SYS_ACCEPT4, unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_SHUTDOWN),
	syscalls(ofDescriptor, "sendfile", unix.SYS_SENDFILE),
	syscalls(ofThird, "copy_file_range splice", unix.SYS_COPY_FILE_RANGE, unix.SYS_SPLICE),
	syscalls(ofPath, "open creat truncate execve", unix.SYS_OPEN, unix.SYS_CREAT, unix.SYS_TRUNCATE, unix.SYS_EXECVE),
	syscalls(ofPath, "unlink rename mkdir rmdir", unix.SYS_UNLINK, unix.SYS_RENAME, unix.SYS_MKDIR, unix.SYS_RMDIR),
	syscalls(ofPathAt, "openat openat2 unlinkat mkdirat", unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_UNLINKAT, unix.SYS_MKDIRAT),
	syscalls(ofPathAt, "renameat renameat2", unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2),
	syscalls(ofTarget, "link symlink", unix.SYS_LINK, unix.SYS_SYMLINK),
	syscalls(ofNothing, "socket pipe2 clone clone3 fork vfork", unix.SYS_SOCKET, unix.SYS_PIPE2, unix.SYS_CLONE, unix.SYS_CLONE3, unix.SYS_FORK, unix.SYS_VFORK),
	syscalls(ofNothing, "exit_group wait4 waitid kill pidfd_send_signal setpgid setsid", unix.SYS_EXIT_GROUP, unix.SYS_WAIT4, unix.SYS_WAITID,
		unix.SYS_KILL, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_SETPGID, unix.SYS_SETSID),
)

func syscalls(s callSubject, names string, numbers ...int) (k []syscallKind) {
	for i, name := range strings.Fields(names) {
		k = append(k, syscallKind{name, numbers[i], s})
	}
	return k
}

// The groups of calls that fail if something is missing: of room on the disk (ENOSPC, EIO), of descriptors (EMFILE), of
// processes (EAGAIN).
var (
	writeCalls      = []string{"write", "pwrite64", "writev", "fallocate", "ftruncate", "fsync", "fdatasync"}
	descriptorCalls = []string{"open", "openat", "socket", "accept4", "pipe2", "dup", "dup2", "dup3"}
	startCalls      = []string{"clone", "clone3", "fork", "vfork", "execve"}
)

// Is reports whether the call is one of these names.
func (c *tracedCall) Is(names []string) bool { return slices.Contains(names, c.Name) }

// OnFile reports whether the call is about a file on a disk.
func (c *tracedCall) OnFile() bool {
	return strings.HasPrefix(c.Path, "/") && !strings.HasPrefix(c.Path, "/proc/") && !strings.HasPrefix(c.Path, "/dev/")
}

// String is the call for people: "pwrite64 hipq.db-wal by worker".
func (c *tracedCall) String() string {
	text := c.Name
	if c.Path != "" {
		name, _, _ := strings.Cut(filepath.Base(c.Path), ":[") // the number of a pipe says nothing
		text += " " + name
	}
	return fmt.Sprintf("%s by %s", text, c.Role)
}

// Data is what a write writes, or what a read has read; at most limit bytes of it.
func (c *tracedCall) Data(limit int) []byte {
	n := int(c.regs.Rdx)
	if c.Returned {
		n = c.Result
	}
	return peek(c.TID, uintptr(c.regs.Rsi), min(limit, n))
}

// AwaitReturn has the hook called again when the call returns.
func (c *tracedCall) AwaitReturn() { c.awaits = true }

// Fail makes the call fail instead of being made. The hook calls it at the entry.
func (c *tracedCall) Fail(errno syscall.Errno) {
	c.regs.Orig_rax, c.regs.Rax = ^uint64(0), uint64(-int64(errno))
	c.skipped = true
	c.Trace.fail(unix.PtraceSetRegs(c.TID, &c.regs))
}

// Stop stops the process just before the call, until it gets a SIGCONT. The hook calls it at the entry. A plain SIGSTOP
// would let the call through first, so the call is skipped, and made again when the process continues.
func (c *tracedCall) Stop() {
	c.th.repeats, c.skipped = c, true
	regs := c.regs
	regs.Rip -= 2 // the instruction
	regs.Rax, regs.Orig_rax = regs.Orig_rax, ^uint64(0)
	c.Trace.fail(unix.PtraceSetRegs(c.TID, &regs))
	_ = unix.Tgkill(c.PID, c.TID, unix.SIGSTOP) // by this thread, before it makes the call
}

// Signal sends a signal to the process that makes the call. After a SIGKILL at the entry the call isn't made.
func (c *tracedCall) Signal(signal syscall.Signal) { _ = unix.Kill(c.PID, signal) }

// enters handles the entry of a filtered call.
func (t *trace) enters(tid int, th *tracedThread, p *tracedProcess) {
	c := &tracedCall{tracedProcess: *p, TID: tid, Trace: t, th: th}
	if unix.PtraceGetRegs(tid, &c.regs) != nil {
		return
	}
	if t.o.Clock != nil && t.tellTime(c) {
		return
	}
	number := int(c.regs.Orig_rax)
	at := slices.IndexFunc(tracedCalls, func(k syscallKind) bool { return k.number == number })
	if number == unix.SYS_MMAP {
		t.fail(t.checkMap(c))
	}
	if at < 0 || startsThread(c) {
		return
	}
	kind := tracedCalls[at]
	c.Name = kind.name
	if c.Path = c.file(kind.subject); c.Path == "anon_inode:[eventfd]" {
		return // Go's threads wake each other by it
	}
	before := th.repeats
	th.repeats = nil
	switch {
	case before != nil && before.Name == c.Name:
		c.awaits = before.awaits
	case t.o.Hook != nil:
		t.o.Hook(c)
	}
	if c.skipped {
		return
	}
	if t.o.Log != nil {
		change, err := t.begins(c)
		t.fail(err)
		c.change = change
	}
	if c.awaits || c.change != nil {
		th.call = c
	}
}

// returns handles the return of a call that is awaited.
func (t *trace) returns(tid int, th *tracedThread) {
	c := th.call
	th.call = nil
	var regs unix.PtraceRegs
	if c == nil || unix.PtraceGetRegs(tid, &regs) != nil {
		return
	}
	c.Returned, c.Result = true, int(regs.Rax)
	if c.change != nil {
		t.fail(t.happened(c))
	}
	if c.awaits {
		t.o.Hook(c)
	}
}

// startsThread reports whether a call starts a thread, which is no process.
func startsThread(c *tracedCall) bool {
	switch c.regs.Orig_rax {
	case unix.SYS_CLONE:
		return c.regs.Rdi&unix.CLONE_THREAD != 0
	case unix.SYS_CLONE3:
		flags := peek(c.TID, uintptr(c.regs.Rdi), 8)
		return len(flags) == 8 && flags[2]&(unix.CLONE_THREAD>>16) != 0
	}
	return false
}

// file is the path of the file that a call is about.
func (c *tracedCall) file(s callSubject) string {
	switch s {
	case ofDescriptor:
		return c.fileAt(int32(c.regs.Rdi))
	case ofPath:
		return c.resolve(unix.AT_FDCWD, uintptr(c.regs.Rdi))
	case ofThird:
		return c.fileAt(int32(c.regs.Rdx))
	case ofTarget:
		return c.resolve(unix.AT_FDCWD, uintptr(c.regs.Rsi))
	case ofPathAt:
		return c.resolve(int32(c.regs.Rdi), uintptr(c.regs.Rsi))
	}
	return ""
}

// fileAt is the file at a descriptor.
func (c *tracedCall) fileAt(fd int32) string {
	link := fmt.Sprintf("/proc/%d/fd/%d", c.TID, fd)
	if fd == unix.AT_FDCWD {
		link = fmt.Sprintf("/proc/%d/cwd", c.TID)
	}
	name, _ := os.Readlink(link)
	return name
}

func (c *tracedCall) resolve(dir int32, address uintptr) string {
	name := peekString(c.TID, address)
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(c.fileAt(dir), name)
}
