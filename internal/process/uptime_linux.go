package process

import (
	"time"

	"golang.org/x/sys/unix"
)

// Uptime is a time by a clock that nobody sets and that doesn't stand still, not even while the host is suspended, as that of
// time.Now does: a lock ends meanwhile.
func Uptime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // every Linux has it
	return time.Duration(now.Nano() + Suspended.Load())
}
