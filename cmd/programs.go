package cmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/alert"
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
		board := alert.NewLog(i.db)
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
// is all, but what is left out is told otherwise.
func (a *app) warnOfPrograms(c *config.Config, queues, types []string, left ...leftType) {
	for _, err := range cantRun(c, queues, types, left...) {
		a.warn(err)
	}
}

// cantRun finds those programs. It looks at files and runs nothing.
func cantRun(c *config.Config, queues, types []string, left ...leftType) (errs []error) {
	wanted := func(names []string, name string) bool { return len(names) == 0 || slices.Contains(names, name) }
	for _, q := range c.Queues {
		for _, t := range q.Types {
			isLeft := slices.ContainsFunc(left, func(l leftType) bool { return l.queue == q.Name && l.name == t.Name })
			if isLeft || !wanted(queues, q.Name) || !wanted(types, t.Name) {
				continue
			}
			for _, h := range handlersOf(q, t.Name) {
				if err := canRun(c, h); err != nil {
					errs = append(errs, fmt.Errorf("%s can't be run: %w", h.Key, err))
				}
			}
		}
	}
	return errs
}

// handlersOf are the handler and the retry handler of a job type, as far as it has them.
func handlersOf(q config.Queue, name string) (all []config.Handler) {
	for _, by := range []map[string]config.Handler{q.Handlers, q.RetryHandlers} {
		if h, ok := by[name]; ok {
			all = append(all, h)
		}
	}
	return all
}

// foreignPrograms are those of handlers that another user could have written. Root doesn't run them, and so has troubles.
func foreignPrograms(c *config.Config) (said []string) {
	for _, q := range c.Queues {
		for _, t := range q.Types {
			for _, h := range handlersOf(q, t.Name) {
				if text := foreign(c, h); text != "" && os.Geteuid() != 0 && !slices.Contains(said, text) {
					said = append(said, text)
				}
			}
		}
	}
	return said
}

// leftTypes are the job types that a worker of this process's user would leave out on this host.
func leftTypes(c *config.Config) []leftType {
	r := &runners{i: &instance{Config: c}}
	for _, q := range c.Queues {
		for _, name := range slices.Sorted(maps.Keys(q.Handlers)) {
			if _, _, err := r.both(q.Handlers[name], q.RetryHandlers[name]); err != nil {
				r.leaveOut(q.Name, name, err)
			}
		}
	}
	return r.left
}

// leftOut says of a queue's job types why a worker would leave them out.
func (i *instance) leftOut(queue string) map[string]string {
	why := map[string]string{}
	for _, l := range leftTypes(i.Config) {
		if l.queue == queue {
			why[l.name] = l.why()
		}
	}
	return why
}

// why is what is wrong, at which key of the config.
func (l leftType) why() string {
	if m, ok := errors.AsType[*config.Mistake](l.err); ok {
		return fmt.Sprintf("%s: %s", m.Key, m.Err)
	}
	return l.err.Error()
}

// troubles are what keeps handlers from being run on this host.
func troubles(c *config.Config) (said []string) {
	left := leftTypes(c)
	for _, l := range left {
		said = append(said, fmt.Sprintf("job type %s of %s is left out, and its jobs wait: %s", l.name, l.queue, l.why()))
	}
	for _, err := range cantRun(c, nil, nil, left...) {
		if !slices.Contains(said, err.Error()) { // a retry handler of several types
			said = append(said, err.Error())
		}
	}
	return said
}
