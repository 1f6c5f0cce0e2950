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
)

// pager is the program that shows people on a terminal what a list prints, by the page.
type pager struct {
	*exec.Cmd
	in io.WriteCloser
}

// errPagerEnded is that somebody has seen enough.
var errPagerEnded = errors.New("the pager has ended")

// shellOnly are the characters by which $PAGER is more than a program and its arguments.
const shellOnly = "|&;<>()$`\\\"'*?[#~=%"

// page has the rest of what is printed shown by $PAGER, where it is set and people read at a terminal.
func (a *app) page() {
	command, terminal := strings.TrimSpace(os.Getenv("PAGER")), a.out.terminal()
	if command == "" || terminal == nil {
		return
	}
	argv := strings.Fields(command)
	if strings.ContainsAny(command, shellOnly) {
		argv = []string{"sh", "-c", command}
	}
	p := &pager{Cmd: exec.Command(argv[0], argv[1:]...)}
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
	a.out.pager = p
	a.signals.paged.Store(true)
}

func (p *pager) Write(b []byte) (int, error) {
	n, err := p.in.Write(b)
	if err != nil {
		err = errPagerEnded // whatever it says, for nobody reads any more
	}
	return n, err
}

// endPager lets the pager show what it has, until its user has seen it. A signal that ends the command ends the pager.
func (a *app) endPager() {
	p := a.out.pager
	if p == nil {
		return
	}
	_ = p.in.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.Wait() // what it says with its exit code is its user's
	}()
	select {
	case <-ended:
	case <-a.out.ctx.Done():
		_ = p.Process.Signal(syscall.SIGTERM) // so that it leaves the terminal in order
		select {
		case <-ended:
		case <-time.After(time.Second):
			_ = p.Process.Kill()
			<-ended
		}
	}
	a.out.pager = nil
	a.signals.paged.Store(false)
	if status, ok := p.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGINT {
		a.signals.first.Store(int32(syscall.SIGINT)) // ^C, of which a pager without an answer of its own has died
	}
}
