//go:build linux && amd64

package proof

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// install lets a process that has just begun its program install the filter for itself and what it starts. With it,
// only the calls of interest stop, at the expense of no others.
func (t *trace) install(pid int) error {
	var saved unix.PtraceRegs
	if err := unix.PtraceGetRegs(pid, &saved); err != nil {
		return err
	}
	var program bytes.Buffer
	filter := t.filter()
	_ = binary.Write(&program, binary.LittleEndian, filter)
	address := uintptr(saved.Rsp) - 16 - uintptr(program.Len())
	address &^= 15
	header := binary.LittleEndian.AppendUint64(nil, uint64(len(filter)))
	header = binary.LittleEndian.AppendUint64(header, uint64(address+16))
	if err := poke(pid, address, append(header, program.Bytes()...)); err != nil {
		return err
	}
	text := make([]byte, 8)
	if _, err := unix.PtracePeekText(pid, uintptr(saved.Rip), text); err != nil {
		return err
	}
	if _, err := unix.PtracePokeText(pid, uintptr(saved.Rip), append([]byte{0x0f, 0x05}, text[2:]...)); err != nil {
		return err
	}
	call := func(number, a, b, c uint64) error {
		regs := saved
		regs.Rax, regs.Orig_rax, regs.Rdi, regs.Rsi, regs.Rdx, regs.R10, regs.R8 = number, ^uint64(0), a, b, c, 0, 0
		var status unix.WaitStatus
		if err := unix.PtraceSetRegs(pid, &regs); err != nil {
			return err
		}
		if err := unix.PtraceSingleStep(pid); err != nil {
			return err
		}
		if _, err := unix.Wait4(pid, &status, unix.WALL, nil); err != nil {
			return err
		}
		if err := unix.PtraceGetRegs(pid, &regs); err != nil {
			return err
		}
		if regs.Rax != 0 {
			return fmt.Errorf("install the filter: call %d: %w", number, unix.Errno(-int64(regs.Rax)))
		}
		return nil
	}
	if os.Geteuid() != 0 {
		if err := call(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
			return err
		}
	}
	if err := call(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uint64(address)); err != nil {
		return err
	}
	if _, err := unix.PtracePokeText(pid, uintptr(saved.Rip), text); err != nil {
		return err
	}
	return unix.PtraceSetRegs(pid, &saved)
}

// filter is a program for seccomp that lets the calls of interest stop.
func (t *trace) filter() []unix.SockFilter {
	const (
		number   = 0 // offsets in struct seccomp_data
		arch     = 4
		argument = 16
	)
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	equal := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	anyBit := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	stop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_TRACE}
	f := []unix.SockFilter{load(arch), equal(unix.AUDIT_ARCH_X86_64, 1, 0), allow, load(number)}
	for _, k := range tracedCalls {
		switch {
		case k.number == unix.SYS_CLONE:
			f = append(f, equal(uint32(k.number), 0, 4), load(argument), anyBit(unix.CLONE_THREAD, 0, 1), allow, stop)
		case k.number == unix.SYS_CLONE3, t.o.Log != nil, t.o.Hook != nil:
			f = append(f, equal(uint32(k.number), 0, 1), stop)
		}
	}
	if t.o.Log != nil { // writes through shared memory would be missed
		f = append(f, equal(unix.SYS_MMAP, 0, 4), load(argument+3*8), anyBit(unix.MAP_SHARED, 1, 0), allow, stop)
	}
	if t.o.Clock != nil {
		f = append(f, equal(unix.SYS_GETTIMEOFDAY, 0, 1), stop, equal(unix.SYS_TIME, 0, 1), stop, equal(unix.SYS_CLOCK_GETTIME, 1, 0), allow, load(argument))
		for _, id := range realClocks {
			f = append(f, equal(id, 0, 1), stop)
		}
	}
	return slices.Concat(f, []unix.SockFilter{allow})
}

// peek reads the memory of a process; what can't be read is missing.
func peek(pid int, address uintptr, n int) []byte {
	if n <= 0 {
		return nil
	}
	data := make([]byte, n)
	read, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &data[0], Len: uint64(n)}}, []unix.RemoteIovec{{Base: address, Len: n}}, 0)
	if err != nil {
		return nil
	}
	return data[:read]
}

// peekString reads a string that ends with 0. It never reads across a page, because the next may be missing.
func peekString(pid int, address uintptr) string {
	var text []byte
	for len(text) < unix.PathMax {
		page := os.Getpagesize()
		part := peek(pid, address, page-int(address)%page)
		if end := bytes.IndexByte(part, 0); end >= 0 || len(part) == 0 {
			return string(append(text, part[:max(end, 0)]...))
		}
		text, address = append(text, part...), address+uintptr(len(part))
	}
	return string(text)
}

func poke(pid int, address uintptr, data []byte) error {
	_, err := unix.ProcessVMWritev(pid, []unix.Iovec{{Base: unsafe.SliceData(data), Len: uint64(len(data))}},
		[]unix.RemoteIovec{{Base: address, Len: len(data)}}, 0)
	return err
}

// tracedClock is the real-time clock of traced processes, also of several runs. Durations and timers don't follow it, nor do
// the times that the kernel gives files.
type tracedClock struct{ offset atomic.Int64 }

// Set shifts the clock by this much from that of the host, from now on.
func (c *tracedClock) Set(offset time.Duration) { c.offset.Store(int64(offset)) }

var realClocks = []uint32{unix.CLOCK_REALTIME, unix.CLOCK_REALTIME_COARSE, unix.CLOCK_TAI}

// tellTime answers a call that asks for the time. It reports whether the call is one.
func (t *trace) tellTime(c *tracedCall) bool {
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
