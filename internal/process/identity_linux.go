package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// here is what processes have in common that can see each other, and mean the same by an id and a start time: the host's boot, and
// the namespaces of ids and of times, for containers have their own. It is empty where /proc is none, or another namespace's.
var here = sync.OnceValue(func() string {
	self, err := os.Readlink("/proc/self")
	boot, none := os.ReadFile("/proc/sys/kernel/random/boot_id")
	ids, hidden := os.Readlink("/proc/self/ns/pid")
	times, old := os.Readlink("/proc/self/ns/time")
	if old != nil {
		times = "-" // a kernel without
	}
	if err != nil || none != nil || hidden != nil || self != strconv.Itoa(os.Getpid()) {
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + ids + " " + times
})

// Identity tells this process from all that there were and will be; it is empty where that can't be told.
func Identity() string {
	o, ok := OtherOf(os.Getpid())
	if !ok || here() == "" {
		return ""
	}
	return fmt.Sprintf("%s %d %d", here(), os.Getpid(), o.Born)
}

// IsGone says whether a process has ended, by its Identity: false if it may be alive, and if it can't be seen from here.
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
	return syscall.Kill(pid, 0) == syscall.ESRCH // /proc may hide what is another user's
}

// Uptime is a time by a clock that can't be set and that doesn't stand still, not even while the host is suspended, as that of
// time.Now does: a lock ends meanwhile.
func Uptime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // every Linux has it
	return time.Duration(now.Nano() + Suspended.Load())
}
