package process

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// SeesOthers reports that this system shows other processes.
const SeesOthers = true

// AddOthers adds the processes of this host that all hasn't yet. see gets each as soon as it is found, the newest first: one that
// hops from fork to fork is gone soon. It gets no more than the id of one that was gone already.
func AddOthers(all map[int]Other, see func(pid int, o Other)) {
	proc, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1) // in the order of ids
	for _, name := range slices.Backward(names) {
		pid, err := strconv.Atoi(name)
		if _, known := all[pid]; err != nil || known {
			continue
		}
		o, ok := OtherOf(pid)
		if ok {
			all[pid] = o
		}
		see(pid, o)
	}
}

// OtherOf finds a process by id.
func OtherOf(pid int) (o Other, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return o, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // a name may contain anything
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
	// forkTicks is a fork's maximum age: its parent waits until the program has begun, which takes seconds on a busy machine.
	forkTicks = 30 * ticksPerSecond
	kthreadd  = 2 // parent of the kernel's threads
)

// IsFork reports whether a process may be a fork of this program, before or during its exec, when its environment can't
// be seen. Its parent can't be told either.
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

// Signal signals the process that had this id, and never a later one with the same id.
func (o Other) Signal(pid int, sig syscall.Signal) error {
	process, err := os.FindProcess(pid) // a handle, so that the check below is about the same process
	if err != nil {
		return err
	}
	defer process.Release() //nolint:errcheck // it returns none
	if same, ok := OtherOf(pid); !ok || same.Born != o.Born {
		return syscall.ESRCH
	}
	return process.Signal(sig)
}

// HasInEnvironment reports whether a process was started with this NAME=value. Environments of other users' processes,
// and of just ended ones, can't be read.
func HasInEnvironment(pid int, variable string) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	mark := []byte("\x00" + variable + "\x00")
	return err == nil && (bytes.Contains(env, mark) || bytes.HasPrefix(env, mark[1:]))
}

// Variable is a variable that a process was started with; "" if there is none, or it can't be read.
func Variable(pid int, name string) string {
	env, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if value, is := bytes.CutPrefix(entry, []byte(name+"=")); is {
			return string(value)
		}
	}
	return ""
}

// Memory returns a process's resident memory in bytes; 0 if unknown.
func Memory(pid int) int64 {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// NameOf is the system's name of a process, as valid UTF-8.
func NameOf(pid int) string {
	name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return strings.ToValidUTF8(string(bytes.TrimSpace(name)), string(utf8.RuneError))
}

// Runs reports whether a process, not only a child, exists and is no zombie.
func Runs(pid int) bool {
	o, ok := OtherOf(pid)
	return ok && !o.Ended
}

// AdoptOrphans makes this process the parent of its descendants' orphans, or stops that. It reports whether that worked.
func AdoptOrphans(adopt bool) bool {
	value := uintptr(0)
	if adopt {
		value = 1
	}
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, value, 0, 0, 0) == nil
}

// Children are the children of this process's first thread: all adopted ones, and some that it has started.
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

// here identifies a set of processes that see each other and agree on ids and start times: the host's boot, and the
// namespaces of ids and times, because containers have their own. It is empty if /proc is missing or of another namespace.
var here = sync.OnceValue(func() string {
	self, err := os.Readlink("/proc/self")
	boot, none := os.ReadFile("/proc/sys/kernel/random/boot_id")
	ids, hidden := os.Readlink("/proc/self/ns/pid")
	times, old := os.Readlink("/proc/self/ns/time")
	if old != nil {
		times = "-" // a kernel without time namespaces
	}
	if err != nil || none != nil || hidden != nil || self != strconv.Itoa(os.Getpid()) {
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + ids + " " + times
})

// Identity tells this process from all others, past and future; empty if that is impossible.
func Identity() string {
	o, ok := OtherOf(os.Getpid())
	if !ok || here() == "" {
		return ""
	}
	return fmt.Sprintf("%s %d %d", here(), os.Getpid(), o.Born)
}

// IsGone reports, by its Identity, whether a process has ended; false if it may be alive or can't be seen from here.
func IsGone(identity string) bool {
	fields := strings.Fields(identity)
	if len(fields) != 5 || strings.Join(fields[:3], " ") != here() {
		return false
	}
	pid, err := strconv.Atoi(fields[3])
	if err != nil || pid < 1 {
		return false
	}
	if o, ok := OtherOf(pid); ok {
		return o.Ended || strconv.Itoa(o.Born) != fields[4]
	}
	return syscall.Kill(pid, 0) == syscall.ESRCH // /proc may hide other users' processes
}

// Uptime is a clock that cannot be set. Unlike time.Now's, it also runs while the host is suspended, when locks end too.
func Uptime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // every Linux has it
	return time.Duration(now.Nano() + Suspended.Load())
}
