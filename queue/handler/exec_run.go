//go:build !windows

package handler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/hipq/hipq/internal/disown"
	"github.com/hipq/hipq/internal/program"
	"github.com/hipq/hipq/queue/job"
)

// errGuardStops is the error of a program that ended when the guard may have stopped it.
var errGuardStops = errors.New("stopped by the worker's guard: the lock was about to end")

// run runs the program with input for a job, and gives what it printed and how it ended; an error, meant for people, if it
// couldn't be run or had to be stopped.
func (e *Exec) run(ctx context.Context, j *job.Job, input []byte) (out printed, status syscall.WaitStatus, err error) {
	if ctx.Err() != nil {
		return out, status, context.Cause(ctx)
	}
	if err := e.Guard.ofWorker().Start(); err != nil {
		return out, status, err
	}
	// again, as late as can be: starting the guard takes a while
	if ctx.Err() != nil {
		return out, status, context.Cause(ctx)
	}
	disown.Instead(ctx, func() {}) // it is ended here, if that can be
	buffer := e.takeOutput()
	defer e.giveBack(buffer)
	buffer.take = progressIn(ctx, j)
	p, err := e.start(func(path string) (*program.Program, error) {
		return program.Start(e.Guard.ofWorker(), path, e.Argv, e.Dir, e.environment(j), input, buffer)
	})
	if err != nil {
		return out, status, err
	}
	unwatch := context.AfterFunc(ctx, func() { p.Interrupt(e.Grace, func() { disownAttempt(ctx, p, buffer) }) })
	p.Await() // in this goroutine: a wake-up from another would cost a short job a tenth of its time
	byGuard := e.Guard.ofWorker().MayStop()
	unwatch()
	status, err = p.Reap()
	switch {
	case p.Interrupted():
		err = context.Cause(ctx)
	case byGuard:
		// a worker that was itself stopped for a while learns only now that its time is up
		if err = errGuardStops; ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	case err != nil:
		err = fmt.Errorf("wait for %s: %w", e.Argv[0], err)
	}
	return buffer.end(), status, err
}

// disownAttempt ends the attempt of a program that may not be killed, so that it keeps no slot.
func disownAttempt(ctx context.Context, p *program.Program, buffer *output) {
	p.Detach()
	outcome := tryAgain(stillRuns(context.Cause(ctx).Error(), p))
	outcome.Output = buffer.end().text
	disown.Attempt(ctx, outcome)
}

// stillRuns is why an attempt is over, of a program that may not be killed.
func stillRuns(why string, p *program.Program) string {
	return fmt.Sprintf("%s; process %d still runs: the worker may not signal it", why, p.PID())
}

// start finds the program and starts it as run does. Its error is meant for people.
func (p *Program) start(run func(path string) (*program.Program, error)) (*program.Program, error) {
	if len(p.Argv) == 0 {
		return nil, errors.New("start the handler: it has no program")
	}
	path, err := p.program()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Argv[0], err)
	}
	started, err := run(path)
	if err == nil {
		return started, nil
	}
	p.path.Store(nil) // perhaps it was moved: look again next time
	if p.Dir != "" {
		// the kernel doesn't say whether the program or the directory is to blame
		if _, dirErr := os.Stat(p.Dir); dirErr != nil {
			return nil, fmt.Errorf("start %s: directory %s: %w", p.Argv[0], p.Dir, errors.Unwrap(dirErr))
		}
	}
	return nil, fmt.Errorf("start %s: %w", p.Argv[0], p.apart(err))
}

func (e *Exec) takeOutput() *output {
	if out, ok := e.outputs.Get().(*output); ok {
		return out
	}
	return new(output)
}

func (e *Exec) giveBack(out *output) {
	out.reset()
	e.outputs.Put(out)
}
