package cmd

import (
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

// pager is the program that shows people on a terminal what a list prints, by the page.
type pager struct {
	*exec.Cmd
	in io.WriteCloser
	// ended is closed when it has.
	ended chan struct{}
	// unread is what it was given, for as long as it may have read none of that.
	unread []byte
	// plain prints what it has not read, once there turns out to be no pager, and gives where to print the rest; instead is that.
	plain   func(unread []byte) io.Writer
	instead io.Writer
}

// errPagerEnded is that somebody has seen enough.
var errPagerEnded = errors.New("the pager has ended")

// shellOnly are the characters by which $PAGER is more than a program and its arguments.
const shellOnly = "|&;<>()$`\\\"'*?[#~=%"

// pipeMost is what a pipe holds at most: of more a program has read something.
const pipeMost = 1 << 20

// page has the rest of what is printed shown by $PAGER, where it is set and people read at a terminal. When they leave the
// pager, the command ends too, whatever it waits for.
func (a *app) page() {
	command, terminal := strings.TrimSpace(os.Getenv("PAGER")), a.out.terminal()
	if command == "" || terminal == nil {
		return
	}
	argv := strings.Fields(command)
	if strings.ContainsAny(command, shellOnly) {
		argv = []string{"sh", "-c", command}
	}
	p := &pager{Cmd: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{}), unread: []byte{}}
	p.Stdout, p.Stderr = terminal, a.err.Writer
	if _, ok := os.LookupEnv("LESS"); !ok {
		p.Env = append(os.Environ(), "LESS=FX") // what fits the screen is shown, and stays there
	}
	var err error
	if p.in, err = p.StdinPipe(); err == nil {
		err = p.Start()
	}
	if err != nil {
		a.warn(fmt.Errorf("PAGER: %w", err))
		return
	}
	p.plain = func(unread []byte) io.Writer {
		a.warn(fmt.Errorf("PAGER: %s: %s", command, p.ProcessState)) // the shell has said why
		_, _ = terminal.Write(unread)
		return terminal
	}
	a.out.pager = p
	a.signals.paged.Store(true)
	go func() {
		defer close(p.ended)
		if _ = p.Wait(); !p.isMissing() { // what else it says with its exit code is its user's
			a.signals.cancel(errPagerEnded)
		}
	}()
}

// isMissing says of a pager that has ended whether the shell has found no such program, or none that it could run.
func (p *pager) isMissing() bool {
	code := p.ProcessState.ExitCode()
	return code == 126 || code == 127
}

func (p *pager) Write(b []byte) (int, error) {
	if p.instead != nil {
		return p.instead.Write(b)
	}
	if p.unread != nil {
		p.unread = append(p.unread, b...)
	}
	if n, err := p.in.Write(b); err != nil { // whatever it says, for nobody reads any more
		<-p.ended
		if p.unread == nil || !p.isMissing() {
			return n, errPagerEnded
		}
		p.instead = p.plain(p.unread)
	}
	if len(p.unread) > pipeMost {
		p.unread = nil
	}
	return len(b), nil
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
	if a.out.ctx.Err() == nil && p.instead == nil && p.unread != nil { // it is missing
		p.plain(p.unread)
	}
	a.out.pager = nil
	a.signals.paged.Store(false)
	if status, ok := p.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGINT {
		a.signals.first.Store(int32(syscall.SIGINT)) // ^C, of which a pager without an answer of its own has died
	}
}

// signal signals the pager: what a shell has started first, for nobody finds it once that is gone.
func (p *pager) signal(sig syscall.Signal) {
	process.SignalBelow(p.Process.Pid, sig)
	_ = p.Process.Signal(sig)
}
