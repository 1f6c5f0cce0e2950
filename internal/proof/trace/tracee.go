//go:build linux && amd64

package trace

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// install lets a process that has just begun its program install the filter for itself and what it starts. With it,
// only the calls of interest stop, at the expense of no others.
func (t *Trace) install(pid int) error {
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
func (t *Trace) filter() []unix.SockFilter {
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
	for _, k := range counted {
		switch {
		case k.number == unix.SYS_CLONE:
			f = append(f, equal(uint32(k.number), 0, 4), load(argument), anyBit(unix.CLONE_THREAD, 0, 1), allow, stop)
		case k.number == unix.SYS_CLONE3, t.o.Record != "", t.wants(k.name):
			f = append(f, equal(uint32(k.number), 0, 1), stop)
		}
	}
	if t.o.Record != "" { // writes through shared memory would be missed
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
