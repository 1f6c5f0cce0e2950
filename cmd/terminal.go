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

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/internal/process"
)

// pager is the program that shows people on a terminal what a list prints, by the page.
type pager struct {
	*exec.Cmd
	in    io.WriteCloser
	ended chan struct{}
}

// errPagerEnded is that somebody has seen enough.
var errPagerEnded = errors.New("the pager has ended")

// shellOnly are the characters by which $PAGER is more than a program and its arguments.
const shellOnly = "|&;<>()$`\\\"'*?[#~=%"

// page has the rest of what is printed shown by $PAGER, where it is set and people read at a terminal. When they leave the
// pager, the command ends too, whatever it waits for.
func (a *app) page() {
	command, terminal := strings.TrimSpace(os.Getenv("PAGER")), a.out.terminal()
	if command == "" || terminal == nil {
		return
	}
	argv := strings.Fields(command)
	_, err := exec.LookPath(argv[0])
	if strings.ContainsAny(command, shellOnly) {
		if strings.ContainsAny(argv[0], shellOnly) { // it is no program, or the shell knows which
			err = nil
		}
		argv = []string{"sh", "-c", command}
	}
	p := &pager{Cmd: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{})}
	p.Stdout, p.Stderr = terminal, a.err.Writer
	if _, ok := os.LookupEnv("LESS"); !ok {
		p.Env = append(os.Environ(), "LESS=FRX") // what fits the screen is shown, in its colours, and stays there
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
		_ = p.Wait() // what it says with its exit code is its user's
		a.signals.cancel(errPagerEnded)
	}()
}

func (p *pager) Write(b []byte) (int, error) {
	n, err := p.in.Write(b)
	if err != nil { // whatever it says: the reader is gone
		<-p.ended
		return n, errPagerEnded
	}
	return n, nil
}

// endPager lets the pager show what it has, until its user has seen it. A signal that ends the command ends the pager, and what
// a shell has started for it.
func (a *app) endPager() {
	p := a.out.pager
	if p == nil {
		return
	}
	_ = p.in.Close()
	select {
	case <-p.ended:
	case <-a.out.ctx.Done():
		p.signal(syscall.SIGTERM) // so that it leaves the terminal in order
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
		a.signals.first.Store(int32(syscall.SIGINT)) // ^C, of which a pager without an answer of its own has died
	}
}

// signal signals the pager: first what a shell has started, because that can't be found once the shell is gone.
func (p *pager) signal(sig syscall.Signal) {
	process.SignalBelow(p.Process.Pid, sig)
	_ = p.Process.Signal(sig)
}

// watch shows something again and again until the context ends. A terminal shows the latest alone; a pipe, and a terminal that
// can't rewrite its lines, get one after the other. Each begins with this host's time, in a zone. A database that is away is said,
// and asked again.
func (a *app) watch(ctx context.Context, every time.Duration, zone *time.Location, show func() error) error {
	for {
		a.clearScreen()
		if !a.json {
			a.out.line("%s, every %s", zonedTime(time.Now(), zone), every)
		}
		switch err := show(); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
		default:
			if !a.isAway(err) {
				return err
			}
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

// clearScreen empties a terminal that can be, but for what has left its top.
func (a *app) clearScreen() {
	if f := a.out.terminal(); f != nil && !a.json && canRewrite() {
		_, _ = f.WriteString("\x1b[H\x1b[J") // past the door, which lets no such characters through
	}
}

// canRewrite says whether a terminal of this environment takes back what it shows.
func canRewrite() bool {
	kind := os.Getenv("TERM")
	return kind != "" && kind != "dumb"
}

func watchFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "watch", "", "repeat it at this interval, in place on a terminal, until ^C")
	c.Flags().Lookup("watch").NoOptDefVal = "2s"
}
