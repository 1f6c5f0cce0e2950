package cmd

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/notice"
)

// leftOutAgain is after how long a job type is told of again that ticks leave out.
const leftOutAgain = time.Hour

// warnOfLeft warns of job types that the worker has left out: each tick does so, and one an hour says it, unless somebody looks.
func (a *app) warnOfLeft(ctx context.Context, i *instance, left []leftType) {
	if len(left) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mailedWithin)
	defer cancel()
	say := func(leftType) (bool, error) { return true, nil }
	if now, err := i.db.Clock(ctx); err == nil && !a.verbose && !a.err.isTerminal() {
		board := notice.NewBoard(i.db)
		say = func(l leftType) (bool, error) {
			return board.Claim(ctx, fmt.Sprintf("left out %s %s", l.queue, l.name), now, leftOutAgain)
		}
	}
	for _, l := range left {
		if ours, err := say(l); ours || err != nil {
			a.warn(fmt.Errorf("job type %s of %s is left out, and its jobs wait: %w", l.name, l.queue, l.err))
		}
	}
}

// warnOfPrograms warns of handlers and retry handlers whose programs can't be run here, of these queues and job types; none named
// is all, but what is left out is told otherwise. It looks at files and runs nothing.
func (a *app) warnOfPrograms(c *config.Config, queues, types []string, left ...leftType) {
	wanted := func(names []string, name string) bool { return len(names) == 0 || slices.Contains(names, name) }
	for _, q := range c.Queues {
		for _, t := range q.Types {
			isLeft := slices.ContainsFunc(left, func(l leftType) bool { return l.queue == q.Name && l.name == t.Name })
			if isLeft || !wanted(queues, q.Name) || !wanted(types, t.Name) {
				continue
			}
			for _, by := range []map[string]config.Handler{q.Handlers, q.RetryHandlers} {
				h, ok := by[t.Name]
				if !ok {
					continue
				}
				if err := canRun(c, h); err != nil {
					a.warn(fmt.Errorf("%s can't be run: %w", h.Key, err))
				}
			}
		}
	}
}
