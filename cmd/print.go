package cmd

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/hipq/hipq/internal/files"
	"github.com/hipq/hipq/internal/texts"
)

// output is the door through which all goes that a command prints: clean, whatever others have written into it. Each Write
// has whole characters. It remembers the first error of writing, so that no command has to check each of its prints: Main
// does, once.
type output struct {
	ctx context.Context
	io.Writer
	err error
	// color says that states and severities are coloured.
	color bool
	// pager, if there is one, shows it on the terminal that Writer is.
	pager *pager
	// bar, if there is one, stands on the last line of the terminal, and makes room for what is printed.
	bar *progressbar.ProgressBar
}

// stalledFor is how long a command that must end waits for a reader that has stopped.
const stalledFor = 300 * time.Millisecond

func (o *output) Write(p []byte) (int, error) {
	if err := o.put(texts.Visible(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// put prints a text that is clean.
func (o *output) put(text string) error {
	clean := []byte(o.plain(text))
	if o.bar != nil {
		_ = o.bar.Clear() // or the lines look odd
	}
	to := o.Writer
	if o.pager != nil {
		to = o.pager
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(o.ctx))
	defer cancel()
	defer context.AfterFunc(o.ctx, func() { time.AfterFunc(stalledFor, cancel) })()
	_, err := await(ctx, func() (int, error) { return to.Write(clean) })
	if err != nil && o.err == nil {
		o.err = err
	}
	return err
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

func (o *output) isTerminal() bool { return o.terminal() != nil }

// columns is how many characters a line of the terminal has; 0 if that is unknown, or there is no terminal.
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

// await returns the result of do, or the context's error if the context ends first: do may wait for ever.
func await[T any](ctx context.Context, do func() (T, error)) (result T, err error) {
	type done struct {
		result T
		err    error
	}
	ended := make(chan done, 1)
	go func() {
		result, err := do()
		ended <- done{result, err}
	}()
	select {
	case got := <-ended:
		return got.result, got.err
	case <-ctx.Done():
		return result, ctx.Err()
	}
}

// openFile opens a file that the command line names, for a command that must end when the context does: of a pipe without
// a writer (of a shell's <(…) say) neither the opening nor a Read ends by itself.
func openFile(ctx context.Context, path string) (*inputFile, error) {
	f, err := await(ctx, func() (*os.File, error) { return os.Open(path) })
	if err != nil {
		return nil, err
	}
	return &inputFile{interruptible{ctx, f}, f}, nil
}

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
	buf := make([]byte, len(p)) // not p, which is the caller's again if the read is given up
	n, err := await(r.ctx, func() (int, error) { return r.Reader.Read(buf) })
	return copy(p, buf[:n]), err
}

// startBar shows a person at a terminal how far a command has come, on standard error, until endBar: a bar if it is
// known how many there are to do, else (with 0) their number. A pipe, a file, cron, a terminal that can't rewrite a line and
// --json have none of it.
func (a *app) startBar(what string, all int) {
	terminal := a.err.terminal()
	if terminal == nil || a.json || !canRewrite() {
		return
	}
	most := int64(all)
	if all == 0 {
		most = -1
	}
	bar := progressbar.NewOptions64(most,
		progressbar.OptionSetWriter(terminal),
		progressbar.OptionSetDescription("hipq "+what),
		progressbar.OptionShowCount(),
		progressbar.OptionSetWidth(20),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetElapsedTime(all == 0),
		progressbar.OptionUseANSICodes(false), // blanks do as well
		progressbar.OptionClearOnFinish())
	a.err.bar = bar
	if a.onTerminal() {
		a.out.bar = bar
	}
}

// moveBar says how many are done by now.
func (a *app) moveBar(n int) {
	if a.err.bar != nil {
		_ = a.err.bar.Set(n) // who doesn't see it sees the end
	}
}

// endBar leaves the terminal as if there had been no bar.
func (a *app) endBar() {
	if a.err.bar != nil {
		_ = a.err.bar.Clear() // it is gone, or the terminal is
	}
	a.err.bar, a.out.bar = nil, nil
}

// standardOutput stands for the file that is none.
const standardOutput = "-"

// replaceFile replaces a file as a whole or not at all: a reader finds the old one or the new one.
func (i *instance) replaceFile(path string, content []byte, mode fs.FileMode) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return usagef("%s is no regular file", path)
	} else if err == nil && i.needs(info) {
		return usagef("%s is a file of this instance, its config or its database", path)
	}
	return texts.Wrap(files.Write(path, content, mode, os.Rename), "write %s", path)
}

func (i *instance) needs(info fs.FileInfo) bool {
	own := []string{i.File}
	if path := i.Database.Path; path != "" {
		own = append(own, path, path+"-wal", path+"-shm", path+"-journal")
	}
	return slices.ContainsFunc(own, func(name string) bool {
		its, err := os.Stat(name)
		return err == nil && os.SameFile(info, its)
	})
}

// warningsMost is how many warnings a command prints: somebody may have written any number of rows that are worth one.
const warningsMost = 20

type warnings struct {
	mu   sync.Mutex
	said map[string]bool
}

// warn tells people of what a command goes on without, once.
func (a *app) warn(err error) {
	a.warned.mu.Lock()
	defer a.warned.mu.Unlock()
	text := err.Error()
	if a.warned.said == nil {
		a.warned.said = map[string]bool{}
	}
	if a.warned.said[text] || len(a.warned.said) > warningsMost {
		return
	}
	if a.warned.said[text] = true; len(a.warned.said) > warningsMost {
		text = "there are more such warnings, which are not shown"
	}
	a.printWarning(text)
}

func (a *app) printWarning(text string) {
	if a.json {
		_ = a.err.json(map[string]string{"warning": text}) // a warning changes nothing
		return
	}
	_ = a.err.put("hipq: " + a.err.paint("warning:") + " " + oneLine(text) + "\n") // a warning changes nothing
}
