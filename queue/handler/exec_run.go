//go:build !windows

package handler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/queue/job"
)

// errGuardStops is the error of a program that ended when the guard may have stopped it.
var errGuardStops = errors.New("stopped by the worker's guard: the lock was about to end")

// run runs the program with these arguments, and input, for a job, and gives what it printed and how it ended; an error, meant for
// people, if it couldn't be run or had to be stopped.
func (e *Exec) run(ctx context.Context, j *job.Job, argv []string, input []byte) (out printed, end ending, err error) {
	if ctx.Err() != nil {
		return out, end, context.Cause(ctx)
	}
	if err := e.Guard.ofWorker().Start(); err != nil {
		return out, end, err
	}
	defer handling.Instead(ctx, func() {})() // it is ended here, if that can be; what is around it may go on
	buffer := &output{take: progressIn(ctx, j)}
	p, err := e.start(ctx, argv, j, func(c handling.Command) (*handling.Program, error) {
		return handling.Start(ctx, e.Guard.ofWorker(), c, input, buffer)
	})
	if err != nil {
		return out, end, err
	}
	giveUp := func(still string) { abandonAttempt(ctx, p, still, buffer) }
	defer handling.Instead(ctx, killedInVain(p, giveUp))()
	unwatch := context.AfterFunc(ctx, func() { p.Interrupt(e.Grace, func() { giveUp(mayNotSignal) }) })
	within, outside := p.Await("HIPQ_TOKEN=" + j.AttemptToken) // in this goroutine: a wake-up from another would cost a short job a tenth of its time
	byGuard := e.Guard.ofWorker().MayStop()
	unwatch()
	end, err = e.reap(p)
	switch {
	case p.Interrupted():
		if err = context.Cause(ctx); p.Ignored() != "" {
			err = fmt.Errorf("%w%s", err, p.Ignored())
		}
	case byGuard:
		// a worker that was itself stopped for a while learns only now that its time is up
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

// leftBehind is what is noted of the processes that a program has left, a line each for those that are killed now and later.
func leftBehind(within, outside []string) (notes string) {
	if len(within) > 0 {
		notes += "[left behind and killed: " + strings.Join(within, ", ") + "]\n"
	}
	if len(outside) > 0 {
		notes += "[left behind, and killed when the worker ends: " + strings.Join(outside, ", ") + "]\n"
	}
	return notes
}

// dying is how long a program may take to end that was killed, until it is left to itself. One that waits for a disk, or a server of
// files, may never end.
const dying = 5 * time.Second

// killedInVain is what to do when the attempt of a program is overdue: giveUp is called, with why, if that doesn't die.
func killedInVain(p *handling.Program, giveUp func(still string)) (overdue func()) {
	return func() {
		time.AfterFunc(dying, func() {
			p.IfKilledInVain(func() { giveUp("it doesn't end, although it was killed") })
		})
	}
}

// abandonAttempt ends the attempt of a program that can't be killed, so that it keeps no slot.
func abandonAttempt(ctx context.Context, p *handling.Program, still string, buffer *output) {
	p.Detach()
	outcome := tryAgain(stillRuns(context.Cause(ctx).Error(), p, still))
	outcome.Output = buffer.end().text
	handling.End(ctx, outcome)
}

// mayNotSignal is why a program still runs that has become another user's.
const mayNotSignal = "the worker may not signal it"

// stillRuns is why an attempt is over, of a program that can't be killed.
func stillRuns(why string, p *handling.Program, still string) string {
	return fmt.Sprintf("%s; process %d still runs: %s", why, p.PID(), still)
}
