package cmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/hipq/hipq/internal/texts"
)

// output is the door through which all goes that a command prints: clean, whatever others have written into it. Each Write
// has whole characters. It remembers the first error of writing, so that no command has to check each of its prints: Main
// does, once.
type output struct {
	ctx context.Context
	io.Writer
	err error
	// pager, if there is one, shows it on the terminal that Writer is.
	pager *pager
	// bar, if there is one, stands on the last line of the terminal, and makes room for what is printed.
	bar *progressbar.ProgressBar
}

// stalledFor is how long a command that shall end waits for one that has stopped to read what it prints.
const stalledFor = 300 * time.Millisecond

func (o *output) Write(p []byte) (int, error) {
	clean := []byte(texts.Visible(string(p))) // not p, which is the caller's again if the write is given up
	if o.bar != nil {
		_ = o.bar.Clear() // or the lines look odd
	}
	to, written := o.Writer, make(chan error, 1)
	if o.pager != nil {
		to = o.pager
	}
	go func() {
		_, err := to.Write(clean)
		written <- err
	}()
	var err error
	select {
	case err = <-written:
	case <-o.ctx.Done():
		select {
		case err = <-written:
		case <-time.After(stalledFor):
			err = o.ctx.Err()
		}
	}
	if err == nil {
		return len(p), nil
	}
	if o.err == nil {
		o.err = err
	}
	return 0, err
}

// line prints one line: whatever the arguments hold, and no more of it than people can read.
func (o *output) line(format string, args ...any) {
	_, _ = io.WriteString(o, oneLine(fmt.Sprintf(format, args...))+"\n")
}

// text prints any number of lines, which its caller has made so that none can pass for another.
func (o *output) text(format string, args ...any) {
	_, _ = fmt.Fprintf(o, format, args...)
}

// terminal is where people read it at once; nil if they don't.
func (o *output) terminal() *os.File {
	if f, ok := o.Writer.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// isTerminal says whether people read it at once.
func (o *output) isTerminal() bool { return o.terminal() != nil }

// columns is how many characters a line of the terminal has; 0 if nobody knows, or there is none.
func (o *output) columns() int {
	if f := o.terminal(); f != nil {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil {
			return n
		}
	}
	return 0
}

// lines prints each Write as a line: a log, whose records come whole.
type lines struct{ *output }

func (l lines) Write(p []byte) (int, error) {
	l.line("%s", strings.TrimSuffix(string(p), "\n"))
	return len(p), l.err
}

// openFile opens a file that the command line names, for a command that shall end when the context does: of a pipe to which
// nobody writes (of a shell's <(…) say) neither the opening nor a Read ends by itself.
func openFile(ctx context.Context, path string) (*inputFile, error) {
	type result struct {
		*os.File
		error
	}
	done := make(chan result, 1)
	go func() {
		f, err := os.Open(path)
		done <- result{f, err}
	}()
	select {
	case got := <-done:
		if got.error != nil {
			return nil, got.error
		}
		return &inputFile{interruptible{ctx, got.File}, got.File}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// inputFile is a file that openFile has opened.
type inputFile struct {
	interruptible
	file *os.File
}

func (f *inputFile) Close() error { return f.file.Close() }

// isRegular says whether what was read of the file can be read again.
func (f *inputFile) isRegular() bool {
	info, err := f.file.Stat()
	return err == nil && info.Mode().IsRegular()
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
