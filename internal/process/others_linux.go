package process

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// SeesOthers says that this system shows other processes.
const SeesOthers = true

// Others are the processes of this host.
func Others() map[int]Other {
	all := map[int]Other{}
	proc, err := os.Open("/proc")
	if err != nil {
		return all
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if o, ok := OtherOf(pid); ok {
				all[pid] = o
			}
		}
	}
	return all
}

// OtherOf is the process of an id, if there is one.
func OtherOf(pid int) (o Other, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return o, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // a name may have anything in it
	if len(fields) < 20 {
		return o, false
	}
	number := func(i int) int {
		n, _ := strconv.Atoi(string(fields[i]))
		return n
	}
	o = Other{Parent: number(1), Group: number(2), Session: number(3), Born: number(19), Threads: number(17)}
	switch fields[0][0] {
	case 'Z', 'X':
		o.Ended = o.Threads <= 1 // its first thread may have ended before the others
	}
	return o, true
}

const (
	// ticksPerSecond is the unit of Born, the same on all architectures.
	ticksPerSecond = 100
	// forkTicks is how old a fork may be; who forks waits until the program has begun, and a busy machine takes some seconds.
	forkTicks = 30 * ticksPerSecond
	kthreadd  = 2 // parent of the kernel's threads
)

// IsFork says whether a process may be a fork of this program, from before it becomes the program that it is to run, or while
// it does: then nothing can be seen of its environment. Whose fork it is can't be seen either.
func (o Other) IsFork(pid int) bool {
	var system unix.Sysinfo_t
	if o.Ended || o.Threads != 1 || o.Parent == kthreadd || unix.Sysinfo(&system) != nil || int(system.Uptime)*ticksPerSecond-o.Born > forkTicks {
		return false
	}
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false // another user's, or gone
	}
	if len(env) == 0 {
		return true
	}
	its, _ := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	own, err := os.Readlink("/proc/self/exe")
	const replaced = " (deleted)"
	return err == nil && strings.TrimSuffix(its, replaced) == strings.TrimSuffix(own, replaced)
}

// Signal signals the process, whose id this was; never another that has the id by now.
func (o Other) Signal(pid int, sig syscall.Signal) error {
	process, err := os.FindProcess(pid) // a handle, so that it stays the process that is looked at next
	if err != nil {
		return err
	}
	defer process.Release() //nolint:errcheck // it gives none
	if same, ok := OtherOf(pid); !ok || same.Born != o.Born {
		return syscall.ESRCH
	}
	return process.Signal(sig)
}

// HasInEnvironment says whether a process was started with a variable of this value. Of other users' processes, and of one
// that ended just now, there is nothing to read.
func HasInEnvironment(pid int, variable string) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	mark := []byte("\x00" + variable + "\x00")
	return err == nil && (bytes.Contains(env, mark) || bytes.HasPrefix(env, mark[1:]))
}

// NameOf is what the system calls a process, as valid UTF-8.
func NameOf(pid int) string {
	name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return strings.ToValidUTF8(string(bytes.TrimSpace(name)), string(utf8.RuneError))
}

// Runs says whether a process, which needn't be a child, is there and not a zombie.
func Runs(pid int) bool {
	o, ok := OtherOf(pid)
	return ok && !o.Ended
}

// AdoptOrphans makes this process the parent of what its descendants leave behind, or no more, and says whether that can be.
func AdoptOrphans(adopt bool) bool {
	value := uintptr(0)
	if adopt {
		value = 1
	}
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, value, 0, 0, 0) == nil
}

// Children gives the children of this process's first thread: all that it has adopted, and some that it has started.
func Children() (pids []int, err error) {
	text, err := os.ReadFile("/proc/self/task/" + strconv.Itoa(os.Getpid()) + "/children")
	if err != nil {
		return nil, err
	}
	for _, field := range bytes.Fields(text) {
		child, err := strconv.Atoi(string(field))
		if err != nil {
			return nil, err
		}
		pids = append(pids, child)
	}
	return pids, nil
}
