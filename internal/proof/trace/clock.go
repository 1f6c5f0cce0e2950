//go:build linux && amd64

package trace

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Clock is the real-time clock of traced processes, also of several runs. Durations and timers don't follow it, nor do
// the times that the kernel gives files.
type Clock struct{ offset atomic.Int64 }

// Set shifts the clock by this much from that of the host, from now on.
func (c *Clock) Set(offset time.Duration) { c.offset.Store(int64(offset)) }

var realClocks = []uint32{unix.CLOCK_REALTIME, unix.CLOCK_REALTIME_COARSE, unix.CLOCK_TAI}

// tellTime answers a call that asks for the time. It reports whether the call is one.
func (t *Trace) tellTime(c *Call) bool {
	now := time.Now().Add(time.Duration(t.o.Clock.offset.Load()))
	result, address := uint64(0), uintptr(c.regs.Rdi)
	scale := int64(1)
	switch c.regs.Orig_rax {
	case unix.SYS_TIME:
		result = uint64(now.Unix())
	case unix.SYS_GETTIMEOFDAY:
		scale = 1000
	case unix.SYS_CLOCK_GETTIME:
		address = uintptr(c.regs.Rsi)
	default:
		return false
	}
	if address != 0 {
		answer := binary.LittleEndian.AppendUint64(nil, uint64(now.Unix()))
		if c.regs.Orig_rax != unix.SYS_TIME {
			answer = binary.LittleEndian.AppendUint64(answer, uint64(int64(now.Nanosecond())/scale))
		}
		if err := poke(c.TID, address, answer); err != nil {
			return true // the real call fails too, and says why
		}
	}
	c.regs.Orig_rax, c.regs.Rax = ^uint64(0), result
	t.fail(unix.PtraceSetRegs(c.TID, &c.regs))
	return true
}

// hideVDSO hides from a new program the functions by which it would get the time without a call.
func hideVDSO(pid int) error {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(pid, &regs); err != nil {
		return err
	}
	// On the stack are the number of arguments, these, a 0, the environment, a 0, and pairs of a key and a value.
	address := uintptr(regs.Rsp)
	word := func() uint64 {
		address += 8
		data := peek(pid, address-8, 8)
		if len(data) < 8 {
			return 0
		}
		return binary.LittleEndian.Uint64(data)
	}
	address += 8 * (uintptr(word()) + 1)
	for word() != 0 {
	}
	const sysinfo, ignore = 33, 1
	for {
		switch key := word(); key {
		case 0:
			return nil
		case sysinfo:
			return poke(pid, address-8, binary.LittleEndian.AppendUint64(nil, ignore))
		}
		word()
	}
}
