package process

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Deadline kills this process when its time comes, also while the process is stopped or the host is suspended: the kernel does
// it, whatever the process is about to do next. The first process of a container is spared, as from every signal of its own.
// A Deadline isn't safe for concurrent use.
type Deadline struct {
	timer int32
	made  bool
}

// sigevent says what a timer does, as the kernel wants it: with zeros, that it sends a signal to the process.
type sigevent struct {
	_     uintptr // what a handler of the signal would get
	signo int32
	_     [64]byte
}

// Set has the process killed so long from now, which is more than 0. Set again, it counts again.
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

// Lift takes it back.
func (d *Deadline) Lift() {
	if d.made {
		d.settime(0)
	}
}

func (d *Deadline) settime(left time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(left))}
	_, _, _ = unix.RawSyscall6(unix.SYS_TIMER_SETTIME, uintptr(d.timer), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
}
