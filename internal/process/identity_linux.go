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
