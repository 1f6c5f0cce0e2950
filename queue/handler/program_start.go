//go:build !windows

package handler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

const shell = "/bin/sh"

// start finds the program and starts it by run, under guard, for one job or many. Its error is for people.
func (p *Program) start(ctx context.Context, argv []string, j *job.Job, run func(handling.Command) (*handling.Program, error)) (*handling.Program, error) {
	if len(argv) == 0 {
		return nil, errors.New("start the handler: it has no program")
	}
	if err := p.Guard.Start(); err != nil {
		return nil, err
	}
	c, err := p.command(argv, j)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	started, err := run(c)
	if err == nil {
		return started, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p.path.Store(nil) // search again next time, because it may have moved
	if c.Credential != nil {
		if err := p.Check(); err != nil { // Check sees what the user may do
			return nil, fmt.Errorf("start %s: %w", argv[0], err)
		}
	}
	if path, executable := p.executable(c.Path); executable == nil {
		if script := p.checkScript(path); script != nil { // the kernel reports any missing part of a script as "no such file"
			return nil, fmt.Errorf("start %s: %w", argv[0], script)
		}
	}
	if p.Dir != "" {
		// the kernel doesn't say whether the program or directory is missing
		if _, dirErr := os.Stat(p.Dir); dirErr != nil {
			return nil, fmt.Errorf("start %s: directory %s: %w", argv[0], p.Dir, errors.Unwrap(dirErr))
		}
	}
	return nil, fmt.Errorf("start %s: %w", argv[0], p.apart(err))
}

// command returns what to start: the program, or the shell that becomes it.
func (p *Program) command(argv []string, j *job.Job) (c handling.Command, err error) {
	if err := p.CheckSurroundings(); err != nil {
		return c, err
	}
	path, err := p.program()
	if err != nil {
		return c, err
	}
	c = handling.Command{Path: path, Argv: argv, Dir: p.Dir, Env: p.environment(j)}
	if a := p.other(); a != nil {
		c.Credential, c.NewPrivs = a.credential, p.NewPrivs
	}
	script := p.script()
	if script == "" {
		return c, nil
	}
	if err := p.Check(); err != nil { // the shell's error would differ, and it would run files that are no programs
		return c, err
	}
	if !strings.HasPrefix(path, "/") {
		path = "./" + path // never an option
	}
	words := []string{"sh", "-c", script, "sh"}
	if p.Nice != 0 {
		nice, err := exec.LookPath("nice")
		if err != nil {
			return c, err
		}
		words = append(words, nice, "-n", strconv.Itoa(p.Nice))
	}
	c.Path, c.Argv = shell, append(append(words, path), argv[1:]...)
	return c, nil
}

// CheckSurroundings returns an error for people if this process can't give programs their user and limits. As root it also
// refuses a program that another user could have written.
func (p *Program) CheckSurroundings() error {
	if err := p.findAccount(); err != nil {
		return err
	}
	if os.Geteuid() == 0 && !p.AllowForeign {
		if err := p.Foreign(); err != nil {
			return fmt.Errorf("%w, or set allow_foreign_handlers", err)
		}
	}
	if p.Nice < 0 && (p.other() != nil || !process.MayPrefer()) {
		return fmt.Errorf("nice: %d: only a program that runs as root with CAP_SYS_NICE may have less than 0", p.Nice)
	}
	for _, l := range p.Limits.all() {
		hard, known := process.HardLimit(l.letter)
		if known && (p.other() != nil || !process.MayRaise()) && uint64(l.n)*uint64(l.unit) > hard {
			return fmt.Errorf("limits.%s: %s is more than this host allows (ulimit -H -%c: %d)", l.key, l.shown, l.letter, hard/uint64(l.unit))
		}
	}
	if p.script() == "" {
		return nil
	}
	if _, err := exec.LookPath(shell); err != nil {
		return fmt.Errorf("%s sets limits, nice and umask: %w", shell, errors.Unwrap(err))
	}
	if _, err := exec.LookPath("nice"); err != nil && p.Nice != 0 {
		return fmt.Errorf("the program nice sets nice: %w", errors.Unwrap(err))
	}
	return nil
}

func (p *Program) reap(started *handling.Program) (ending, error) {
	status, used, err := started.Reap()
	return ending{status, p.Limits.over(status, used)}, err
}

// over names the limit that ended a program with this status and processor time, or "" if unknown.
func (l Limits) over(status syscall.WaitStatus, used time.Duration) string {
	signal := status.Signal()
	if !status.Signaled() {
		signal = syscall.Signal(status.ExitStatus() - 128) // a shell's status for a child killed by a signal
	}
	switch {
	case l.CPU > 0 && (signal == syscall.SIGXCPU || signal == syscall.SIGKILL && used >= l.CPU+lastCPU-time.Second/2):
		return fmt.Sprintf("over its CPU time limit (%s)", l.CPU)
	case l.FileSize > 0 && signal == syscall.SIGXFSZ:
		return fmt.Sprintf("over its file size limit (%s)", texts.Bytes(l.FileSize))
	}
	return ""
}
