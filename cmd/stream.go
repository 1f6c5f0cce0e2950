package cmd

import (
	"context"
	"io"
)

// output remembers the first error of writing, so that no command has to check each of its prints: Main does, once.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// interruptible is a reader, such as a terminal or a pipe, that is left alone when the context ends: its next bytes may
// never come.
type interruptible struct {
	ctx context.Context
	io.Reader
}

func (r interruptible) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	type result struct {
		n   int
		err error
	}
	// not p, which is the caller's again if the read is given up
	buf, done := make([]byte, len(p)), make(chan result, 1)
	go func() {
		n, err := r.Reader.Read(buf)
		done <- result{n, err}
	}()
	select {
	case got := <-done:
		return copy(p, buf[:got.n]), got.err
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
}
