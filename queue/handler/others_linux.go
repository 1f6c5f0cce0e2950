package handler

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// seesOthers says that this system shows other processes.
const seesOthers = true

// others are the processes of this host.
func others() map[int]other {
	all := map[int]other{}
	proc, err := os.Open("/proc")
	if err != nil {
		return all
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if o, ok := otherOf(pid); ok {
				all[pid] = o
			}
		}
	}
	return all
}

// otherOf is the process of an id, if there is one.
func otherOf(pid int) (o other, ok bool) {
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
	o = other{parent: number(1), group: number(2), session: number(3), born: number(19)}
	switch fields[0][0] {
	case 'Z', 'X':
		o.ended = number(17) <= 1 // its first thread may have ended before the others
	}
	return o, true
}

// signal signals the process, whose id this was; never another that has the id by now.
func (o other) signal(pid int, sig syscall.Signal) error {
	process, err := os.FindProcess(pid) // a handle, so that it stays the process that is looked at next
	if err != nil {
		return err
	}
	defer process.Release() //nolint:errcheck // it gives none
	if same, ok := otherOf(pid); !ok || same.born != o.born {
		return syscall.ESRCH
	}
	return process.Signal(sig)
}

// hasInEnvironment says whether a process was started with a variable of this value. Of other users' processes, and of one
// that ended just now, there is nothing to read.
func hasInEnvironment(pid int, variable string) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	mark := []byte("\x00" + variable + "\x00")
	return err == nil && (bytes.Contains(env, mark) || bytes.HasPrefix(env, mark[1:]))
}

// nameOf is what the system calls a process.
func nameOf(pid int) string {
	name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return clean(string(bytes.TrimSpace(name)))
}

// runs says whether a process, which needn't be a child, is there and not a zombie.
func runs(pid int) bool {
	o, ok := otherOf(pid)
	return ok && !o.ended
}

// adoptOrphans makes this process the parent of what its descendants leave behind, or no more, and says whether that can be.
func adoptOrphans(adopt bool) bool {
	value := uintptr(0)
	if adopt {
		value = 1
	}
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, value, 0, 0, 0) == nil
}

// listChildren gives the children of this process's first thread: all that it has adopted, and some that it has started.
func listChildren() (pids []int, err error) {
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
