package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/hipq/hipq/internal/process"
)

// pager is the program that shows a list page by page on a terminal.
type pager struct {
	*exec.Cmd
	in    io.WriteCloser
	ended chan struct{}
}

var errPagerEnded = errors.New("the pager has ended")

// shellOnly has the characters that make $PAGER need a shell.
const shellOnly = "|&;<>()$`\\\"'*?[#~=%"

// page sends further output to $PAGER, if it is set and there is a terminal. When the user leaves the pager, the
// command ends, even if it waits.
func (a *app) page() {
	command, terminal := strings.TrimSpace(os.Getenv("PAGER")), a.out.terminal()
	if command == "" || terminal == nil {
		return
	}
	argv := strings.Fields(command)
	_, err := exec.LookPath(argv[0])
	if strings.ContainsAny(command, shellOnly) {
		if strings.ContainsAny(argv[0], shellOnly) { // not a program; the shell may know it
			err = nil
		}
		argv = []string{"sh", "-c", command}
	}
	p := &pager{Cmd: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{})}
	p.Stdout, p.Stderr = terminal, a.err.Writer
	if _, ok := os.LookupEnv("LESS"); !ok {
		p.Env = append(os.Environ(), "LESS=FRX") // text that fits the screen stays there, in colour
	}
	if err == nil {
		p.in, err = p.StdinPipe()
	}
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		a.warn(fmt.Errorf("PAGER: %w", err))
		return
	}
	a.out.pager = p
	a.signals.paged.Store(true)
	go func() {
		defer close(p.ended)
		_ = p.Wait() // its exit code concerns only its user
		a.signals.cancel(errPagerEnded)
	}()
}

func (p *pager) Write(b []byte) (int, error) {
	n, err := p.in.Write(b)
	if err != nil { // any error means that the reader is gone
		<-p.ended
		return n, errPagerEnded
	}
	return n, nil
}

// endPager waits until the user leaves the pager. A signal to the command ends the pager and what its shell started.
func (a *app) endPager() {
	p := a.out.pager
	if p == nil {
		return
	}
	_ = p.in.Close()
	select {
	case <-p.ended:
	case <-a.out.ctx.Done():
		p.signal(syscall.SIGTERM) // TERM, so that it restores the terminal
		select {
		case <-p.ended:
		case <-time.After(time.Second):
			p.signal(syscall.SIGKILL)
			<-p.ended
		}
	}
	a.out.pager = nil
	a.signals.paged.Store(false)
	if status, ok := p.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGINT {
		a.signals.first.Store(int32(syscall.SIGINT)) // ^C killed a pager that doesn't handle it
	}
}

// signal signals the pager. What its shell started comes first, because it can't be found once the shell is gone.
func (p *pager) signal(sig syscall.Signal) {
	process.SignalBelow(p.Process.Pid, sig)
	_ = p.Process.Signal(sig)
}

// watch repeats show until the context ends. A terminal shows only the latest output; a pipe, or a terminal that can't
// rewrite lines, gets all. Each starts with this host's time in zone. If the database is away, watch says so and
// continues.
func (a *app) watch(ctx context.Context, every time.Duration, zone *time.Location, show func() error) error {
	for {
		if f := a.out.terminal(); f != nil && !a.json && canRewrite() { // the scrollback stays
			_, _ = f.WriteString("\x1b[H\x1b[J") // not through output, which removes such characters
		}
		if !a.json {
			a.out.line("%s, every %s", zonedTime(time.Now(), zone), every)
		}
		switch err := show(); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !a.isAway(err):
			return err
		case err != nil:
			code, hint := a.diagnose(err)
			a.report(code, err, hint)
		}
		if a.out.err != nil {
			return a.out.err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}

// canRewrite reports whether $TERM names a terminal that can rewrite lines.
func canRewrite() bool {
	kind := os.Getenv("TERM")
	return kind != "" && kind != "dumb"
}
