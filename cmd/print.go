package cmd

import (
	"bytes"
	"cmp"
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

// output is where all output of a command goes, cleaned of control characters. Each Write must have whole characters.
// It remembers the first write error, which Main checks once for the whole command.
type output struct {
	ctx context.Context
	io.Writer
	err error
	// color is set if states and severities are coloured.
	color bool
	// bar is on the last line of the terminal, and moves for printed lines; nil without one.
	bar *progressbar.ProgressBar
}

// stalledFor is how long a command that must end waits for a reader that doesn't read.
const stalledFor = 300 * time.Millisecond

func (o *output) Write(p []byte) (int, error) {
	if err := o.put(texts.Visible(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// put prints a clean text.
func (o *output) put(text string) error {
	clean := []byte(o.plain(text))
	if o.bar != nil {
		_ = o.bar.Clear() // else its rest stays in the row
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(o.ctx))
	defer cancel()
	defer context.AfterFunc(o.ctx, func() { time.AfterFunc(stalledFor, cancel) })()
	_, err := await(ctx, func() (int, error) { return o.Writer.Write(clean) })
	if err != nil && o.err == nil {
		o.err = err
	}
	return err
}

// line prints one line, cleaned and cut to what people can read.
func (o *output) line(format string, args ...any) {
	_, _ = io.WriteString(o, oneLine(fmt.Sprintf(format, args...))+"\n")
}

// text prints lines. The caller ensures that no line can pass for another.
func (o *output) text(format string, args ...any) {
	_, _ = fmt.Fprintf(o, format, args...)
}

// terminal is the terminal that shows the output; nil if there is none.
func (o *output) terminal() *os.File { return terminalOf(o.Writer) }

// terminalOf is a reader or writer that is a terminal; else nil.
func terminalOf(file any) *os.File {
	if f, ok := file.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

func (o *output) isTerminal() bool { return o.terminal() != nil }

// columns is the width of the terminal in characters; 0 if unknown or without a terminal.
func (o *output) columns() int {
	if f := o.terminal(); f != nil {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil {
			return n
		}
	}
	return 0
}

// lines prints each Write as a line: a log writes whole records.
type lines struct{ *output }

func (l lines) Write(p []byte) (int, error) {
	l.line("%s", strings.TrimSuffix(string(p), "\n"))
	return len(p), l.err
}

// await returns the result of do, or the context's error if the context ends first. do may block forever.
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

// openFile opens a file from the command line. It ends with the context, because open and read of a pipe without a
// writer (such as a shell's <(…)) block.
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

// lines counts the file's lines, and begins again.
func (f *inputFile) lines() (n int) {
	buf := make([]byte, 1<<20)
	for {
		got, err := f.Read(buf)
		if n += bytes.Count(buf[:got], []byte("\n")); err != nil {
			break
		}
	}
	_, _ = f.file.Seek(0, io.SeekStart) // it may be done for a regular file
	return n
}

// interruptible is a reader, such as a terminal or a pipe. It gives up a read when the context ends, because more bytes
// may never come.
type interruptible struct {
	ctx context.Context
	io.Reader
}

func (r interruptible) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	buf := make([]byte, len(p)) // not p, which the caller may reuse after the read was given up
	n, err := await(r.ctx, func() (int, error) { return r.Reader.Read(buf) })
	return copy(p, buf[:n]), err
}

// showsBar says whether startBar shows a bar: not with --json, in a pipe, file or cron, or on a terminal that can't rewrite a
// line.
func (a *app) showsBar() bool { return a.err.isTerminal() && !a.json && canRewrite() }

// startBar shows progress on a terminal's standard error until endBar: a bar, or a count if all is 0.
func (a *app) startBar(what string, all int) {
	if !a.showsBar() {
		return
	}
	most := int64(all)
	if all == 0 {
		most = -1
	}
	bar := progressbar.NewOptions64(most,
		progressbar.OptionSetWriter(a.err.terminal()),
		progressbar.OptionSetDescription("hipq "+what),
		progressbar.OptionShowCount(),
		progressbar.OptionSetWidth(20),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetElapsedTime(all == 0),
		progressbar.OptionUseANSICodes(false), // blanks work as well
		progressbar.OptionClearOnFinish())
	a.err.bar = bar
	if a.out.isTerminal() {
		a.out.bar = bar
	}
}

// telling returns a function that shows how far a search is, of all, from half a second on. endBar ends it.
func (a *app) telling(what string) func(done, all int64) {
	began := time.Now()
	return func(done, all int64) {
		if a.err.bar == nil && time.Since(began) > time.Second/2 {
			a.startBar(what, int(all))
		}
		a.moveBar(int(done))
	}
}

func (a *app) moveBar(n int) {
	if a.err.bar != nil {
		_ = a.err.bar.Set(n) // progress is not essential
	}
}

func (a *app) endBar() {
	if a.err.bar != nil {
		_ = a.err.bar.Clear() // an error changes nothing
	}
	a.err.bar, a.out.bar = nil, nil
}

// standardOutput is the file name that means standard output.
const standardOutput = "-"

// replaceFile replaces a file atomically: a reader sees the old or the new content.
func (i *instance) replaceFile(path string, content []byte, mode fs.FileMode) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return usagef("%s is not a regular file", path)
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

// warningsMost bounds the warnings of a command, because any number of rows may cause one.
const warningsMost = 20

type warnings struct {
	mu   sync.Mutex
	said map[string]bool
}

// warn prints a warning, once for each text.
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
		_ = a.err.json(map[string]string{"warning": text}) // a lost warning changes nothing
		return
	}
	_ = a.err.put("hipq: " + a.err.paint("warning:") + " " + oneLine(text) + "\n") // a lost warning changes nothing
}

func (a *app) setColor() {
	always, auto := a.color == "always", a.color == "auto" && os.Getenv("NO_COLOR") == "" && canRewrite()
	a.out.color, a.err.color = always || auto && a.out.isTerminal(), always || auto && a.err.isTerminal()
}

// paint colours a state or a severity. Print the result with put, because Write removes the colours.
func (o *output) paint(word string) string {
	if !o.color {
		return word
	}
	first, _, _ := strings.Cut(word, " ")
	switch strings.TrimRight(first, ":") {
	case "error", "failed", "wrong":
		return "\x1b[31m" + word + "\x1b[0m"
	case "retry", "cancelled", "released", "warning", "unknown":
		return "\x1b[33m" + word + "\x1b[0m"
	case "finished", "ok":
		return "\x1b[32m" + word + "\x1b[0m"
	}
	return word
}

// plain replaces hipq's typographic signs with ASCII on a terminal whose locale isn't UTF-8.
func (o *output) plain(s string) string {
	locale := strings.ToLower(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	if strings.HasSuffix(locale, "utf-8") || strings.HasSuffix(locale, "utf8") || !o.isTerminal() {
		return s
	}
	return strings.NewReplacer("…", "...", "–", "-", "·", "|", "→", "->", "‘", "'", "’", "'", "“", `"`, "”", `"`, "«", `"`, "»", `"`).Replace(s)
}
