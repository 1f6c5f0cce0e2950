//go:build !windows

package handling

import (
	"os"
	"syscall"
	"time"
)

// readAfter is when reading a running program's output begins. Most programs end before that, and the pipe's buffer
// holds their output: a reader's wake-ups would cost a short job a tenth of its time.
const readAfter = 5 * time.Millisecond

// maxPipe is the maximum size of a pipe (on Linux, if the program asks for it).
const maxPipe = 1 << 20

type capture struct {
	fd    int // non-blocking
	out   Sink
	later *time.Timer
	file  chan *os.File // of fd, once the reader has begun
	read  chan struct{} // closed when the reader has ended
}

func newCapture(fd int, out Sink) *capture {
	c := &capture{fd: fd, out: out, file: make(chan *os.File, 1), read: make(chan struct{})}
	c.later = time.AfterFunc(readAfter, c.follow)
	return c
}

// follow reads until the pipe's other end is closed everywhere, or finish stops it.
func (c *capture) follow() {
	defer close(c.read)
	file := os.NewFile(uintptr(c.fd), "output")
	c.file <- file
	for {
		n, err := file.Read(c.out.Room())
		c.out.Took(n)
		if err != nil {
			return
		}
	}
}

// finish reads what is in the pipe now, and closes it. The program has ended, so its output is complete; a process that
// it left behind may keep the other end open.
func (c *capture) finish() {
	if c == nil {
		return
	}
	if c.later.Stop() {
		c.drain()
		_ = syscall.Close(c.fd)
		return
	}
	file := <-c.file
	_ = file.SetReadDeadline(time.Unix(1, 0)) // long past, to stop the reader
	<-c.read
	c.drain()
	_ = file.Close()
}

func (c *capture) drain() {
	for taken := 0; taken < maxPipe; {
		n, err := syscall.Read(c.fd, c.out.Room())
		if err == syscall.EINTR {
			continue
		}
		if n <= 0 {
			return
		}
		c.out.Took(n)
		taken += n
	}
}
