package process

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Deadline kills this process at its time, even if the process is stopped or the host is suspended: the kernel does it.
// A container's first process is spared, as from each of its own signals. A Deadline isn't safe for concurrent use.
type Deadline struct {
	timer int32
	made  bool
}

// sigevent tells the kernel what a timer does: zeros mean a signal to the process.
type sigevent struct {
	_     uintptr // the value for a signal handler
	signo int32
	_     [64]byte
}

// Set kills the process after left, which must be positive. A further Set replaces it.
func (d *Deadline) Set(left time.Duration) {
	if !d.made {
		event := sigevent{signo: int32(unix.SIGKILL)}
		_, _, errno := unix.RawSyscall(unix.SYS_TIMER_CREATE, unix.CLOCK_BOOTTIME,
			uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&d.timer)))
		if d.made = errno == 0; !d.made {
			return // a sandbox may forbid it
		}
	}
	d.settime(left)
}

// Lift cancels the deadline.
func (d *Deadline) Lift() {
	if d.made {
		d.settime(0)
	}
}

func (d *Deadline) settime(left time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(left))}
	_, _, _ = unix.RawSyscall6(unix.SYS_TIMER_SETTIME, uintptr(d.timer), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
}
