//go:build !windows

package guard

import (
	"bytes"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

type listener struct {
	fd   int
	buf  [4096]byte
	rest []byte // the beginning of a line
}

// listen waits for lines, up to atMost, and returns them. more means that unread lines, sent while the guard was
// stopped, come before anything else. open is false if the worker is gone.
func (e *listener) listen(atMost time.Duration) (lines []string, more, open bool) {
	wait := []unix.PollFd{{Fd: int32(e.fd), Events: unix.POLLIN}}
	timeout := (max(0, atMost) + time.Millisecond - 1) / time.Millisecond
	if n, err := unix.Poll(wait, int(timeout)); n == 0 || err != nil {
		return nil, err == unix.EINTR, true
	}
	n, err := syscall.Read(e.fd, e.buf[:])
	switch {
	case err == syscall.EINTR || err == syscall.EAGAIN:
		return nil, true, true
	case err != nil || n == 0:
		return nil, false, false
	}
	said := append(e.rest, e.buf[:n]...)
	for {
		line, after, whole := bytes.Cut(said, []byte("\n"))
		if !whole {
			break
		}
		lines, said = append(lines, string(line)), after
	}
	e.rest = bytes.Clone(said)
	return lines, n == len(e.buf), true
}
