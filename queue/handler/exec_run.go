//go:build !windows

package handler

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/queue/job"
)

var errGuardStops = errors.New("stopped by the worker's guard: the lock was about to expire")

// run runs the program and returns its output and end. The error, for people, says that it couldn't run or had to be stopped.
func (e *Exec) run(ctx context.Context, j *job.Job, argv []string, input []byte) (out printed, end ending, err error) {
	if ctx.Err() != nil {
		return out, end, context.Cause(ctx)
	}
	defer handling.Instead(ctx, func() {})() // this function ends the program if possible; its caller may go on
	buffer := &output{take: progressIn(ctx, j)}
	p, err := e.start(ctx, argv, j, func(c handling.Command) (*handling.Program, error) {
		return handling.Start(ctx, e.Guard, c, input, buffer)
	})
	if err != nil {
		return out, end, err
	}
	unwatch := context.AfterFunc(ctx, func() {
		p.Interrupt(e.grace(), func(still string) { // it can't be killed, and its attempt frees its slot
			p.Detach()
			outcome := tryAgain(stillRuns(context.Cause(ctx).Error(), p, still))
			outcome.Output = buffer.end().text
			handling.End(ctx, outcome)
		})
	})
	within, outside := p.Await("HIPQ_TOKEN=" + j.AttemptToken) // on this goroutine: a wake-up by another would cost a short job a tenth of its time
	byGuard := e.Guard.MayStop()
	unwatch()
	end, err = e.reap(p)
	switch {
	case p.Interrupted():
		if err = (stopError{context.Cause(ctx), !byGuard}); p.Ignored() != "" {
			err = fmt.Errorf("%w%s", context.Cause(ctx), p.Ignored())
		}
	case byGuard:
		// a worker that was itself stopped learns only now that its time is over
		if err = errGuardStops; ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	case err != nil:
		err = fmt.Errorf("wait for %s: %w", e.Argv[0], err)
	}
	out = buffer.end()
	out.left = leftBehind(within, outside)
	return out, end, err
}

// leftBehind notes the processes that a program left, on one line for those killed now and one for later.
func leftBehind(within, outside []string) (notes string) {
	if len(within) > 0 {
		notes += "[left behind and killed: " + strings.Join(within, ", ") + "]\n"
	}
	if len(outside) > 0 {
		notes += "[left behind, and killed when the worker ends: " + strings.Join(outside, ", ") + "]\n"
	}
	return notes
}

func stillRuns(why string, p *handling.Program, still string) string {
	return fmt.Sprintf("%s; process %d still runs: %s", why, p.PID(), still)
}
