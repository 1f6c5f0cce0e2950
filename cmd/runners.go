package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/alert"
	"github.com/hipq/hipq/queue/handler"
)

// runners makes the handlers of a worker from the config. The caller closes it.
type runners struct {
	i        *instance
	workerID string
	log      *slog.Logger
	guard    *handler.Guard // nil if nothing will run
	close    []func()
	left     []leftType
}

// newRunners is for a worker whose process starts only handlers.
func (a *app) newRunners(i *instance, workerID string) *runners {
	guard := handler.NewGuard(a.selfArgv(guardCommand), workerID, i.Worker.Grace)
	guard.Alone()
	return &runners{i: i, workerID: workerID, log: a.logger(), guard: guard}
}

// closeRunners ends what still runs, and names it for the worker's entry. What can't be killed doesn't affect the
// worker's result. The call may be repeated.
func (a *app) closeRunners(r *runners) (left string) {
	var ends sync.WaitGroup // together, because each may take the grace
	for _, end := range r.close {
		ends.Go(end)
	}
	ends.Wait()
	r.close = nil
	var said []string
	if err := r.guard.Close(); err != nil {
		a.warn(err)
		said = append(said, err.Error())
	}
	if killed := r.guard.Killed(); len(killed) > 0 {
		said = append(said, "left behind and killed: "+strings.Join(killed, ", "))
	}
	return strings.Join(said, "; ")
}

func (r *runners) handler(c config.Handler) (handler.Handler, error) {
	switch {
	case c.HTTP != nil:
		h, err := c.HTTP.Handler()
		if err != nil {
			return nil, r.i.Mistake(c.Key, err)
		}
		r.close = append(r.close, h.Close)
		return h, nil
	case c.Stream != nil:
		c.Stream.Log = r.log
		r.close = append(r.close, c.Stream.Close)
		return c.Stream, r.fits(c)
	}
	return c.Exec, r.fits(c)
}

// both makes a type's handler and its retry handler, which is nil if there is none.
func (r *runners) both(c, decides config.Handler) (h handler.Handler, decider handler.RetryHandler, err error) {
	if h, err = r.handler(c); err != nil || decides.Key == "" {
		return h, nil, err
	}
	return h, handler.RetryExec{Exec: decides.Exec}, r.fits(decides)
}

// leftType is a job type that a worker leaves out because its handler can't be made here. Its jobs wait.
type leftType struct {
	queue, name string
	err         error
}

// fits gives a program its worker, and checks whether it can run here as the configured user and within the limits.
func (r *runners) fits(h config.Handler) error {
	p := h.Program()
	p.Guard, p.WorkerID = r.guard, r.workerID
	if err := p.CheckSurroundings(); err != nil {
		return r.i.Mistake(h.Key, err)
	}
	return nil
}

// canRun checks whether a handler's program can run here, or an endpoint's files be read. It runs nothing.
func canRun(h config.Handler) error {
	if h.HTTP != nil {
		_, err := h.HTTP.Handler()
		return err
	}
	p := h.Program()
	if err := p.Check(); err != nil {
		return err
	}
	if script := p.MissingScript(); script != "" {
		return fmt.Errorf("%s, which %s runs, doesn't exist", script, p.Argv[0])
	}
	return nil
}

// foreign says which other user could have written a handler's program; "" if none, or if that is allowed.
func foreign(c *config.Config, h config.Handler) string {
	if h.HTTP != nil || c.AllowForeignHandlers {
		return ""
	}
	if err := h.Program().Foreign(); err != nil {
		return fmt.Sprintf("%s: %s", h.Key, err)
	}
	return ""
}

// doubts lists what may be wrong with a handler that can still run.
func doubts(c *config.Config, h config.Handler) (said []string) {
	if h.HTTP != nil {
		for _, file := range h.HTTP.Shared() {
			said = append(said, fmt.Sprintf("%s: others may read %s, which has a secret: chmod 600", h.Key, file))
		}
		if made, err := h.HTTP.Handler(); err == nil {
			if err := made.CheckAddress(); err != nil {
				said = append(said, fmt.Sprintf("%s.url: %s, so every request fails: add it to networks", h.Key, err))
			}
		}
	}
	if text := foreign(c, h); text != "" {
		said = append(said, text)
	}
	return said
}

// eachHandler calls do for the handlers and retry handlers of all job types. Types may share a retry handler.
func eachHandler(c *config.Config, do func(queue, jobType string, h config.Handler)) {
	for _, q := range c.Queues {
		for _, t := range q.Types {
			for _, by := range []map[string]config.Handler{q.Handlers, q.RetryHandlers} {
				if h, ok := by[t.Name]; ok {
					do(q.Name, t.Name, h)
				}
			}
		}
	}
}

// warnedAgain is how often ticks repeat a warning about handlers that can't run.
const warnedAgain = time.Hour

// warnHourly prints warnings by the names of their notices. Without a user at a terminal, one tick an hour does.
func (a *app) warnHourly(ctx context.Context, i *instance, warnings map[string]error) {
	if len(warnings) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mailedWithin)
	defer cancel()
	now, err := i.db.SQL.Clock(ctx)
	always := err != nil || a.isRead()
	for _, name := range slices.Sorted(maps.Keys(warnings)) {
		if !always {
			err = alert.NewLog(i.db).Once(ctx, name, now, warnedAgain, func() error {
				a.warn(warnings[name])
				return a.err.err
			})
		}
		if always || err != nil {
			a.warn(warnings[name])
		}
	}
}

// cantRun finds handlers and retry handlers whose programs can't run here. No names means all; types left out are
// reported elsewhere. It looks at files and runs nothing.
func cantRun(c *config.Config, queues, types []string, left []leftType) (errs []error) {
	wanted := func(names []string, name string) bool { return len(names) == 0 || slices.Contains(names, name) }
	eachHandler(c, func(queue, jobType string, h config.Handler) {
		isLeft := slices.ContainsFunc(left, func(l leftType) bool { return l.queue == queue && l.name == jobType })
		if isLeft || !wanted(queues, queue) || !wanted(types, jobType) {
			return
		}
		if err := canRun(h); err != nil {
			errs = append(errs, c.Mistake(h.Key, fmt.Errorf("can't be run: %w", err)))
		}
	})
	return errs
}

// leftTypes are the job types that a worker of this user would leave out on this host.
func leftTypes(c *config.Config) []leftType {
	r := &runners{i: &instance{Config: c}}
	for _, q := range c.Queues {
		for _, name := range slices.Sorted(maps.Keys(q.Handlers)) {
			if _, _, err := r.both(q.Handlers[name], q.RetryHandlers[name]); err != nil {
				r.left = append(r.left, leftType{q.Name, name, err})
			}
		}
	}
	return r.left
}

// atKey is the error with its key of the config.
func atKey(err error) string {
	if m, ok := errors.AsType[*config.Mistake](err); ok {
		return fmt.Sprintf("%s: %s", m.Key, m.Err)
	}
	return err.Error()
}

// troubles lists what keeps handlers from running on this host, and the programs that another user could have written. Root doesn't
// run those: they are among the first.
func troubles(c *config.Config) (wrong, doubtful []string) {
	left := leftTypes(c)
	for _, l := range left {
		wrong = append(wrong, fmt.Sprintf("job type %s of %s is left out, and its jobs wait: %s", l.name, l.queue, atKey(l.err)))
	}
	for _, err := range cantRun(c, nil, nil, left) {
		if text := atKey(err); !slices.Contains(wrong, text) { // a retry handler of several types
			wrong = append(wrong, text)
		}
	}
	eachHandler(c, func(_, _ string, h config.Handler) {
		if text := foreign(c, h); text != "" && os.Geteuid() != 0 && !slices.Contains(doubtful, text) {
			doubtful = append(doubtful, text)
		}
	})
	return wrong, doubtful
}
