package cmd

import (
	"fmt"
	"log/slog"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/queue/handler"
)

// runners makes what runs for a worker's jobs of what the config says. Whoever has it closes it.
type runners struct {
	i        *instance
	workerID string
	log      *slog.Logger
	guard    *handler.Guard // nil: nothing is to run
	close    []func()
	left     []leftType
}

// newRunners is for a worker whose process starts nothing but handlers.
func (a *app) newRunners(i *instance, workerID string) *runners {
	return &runners{i: i, workerID: workerID, log: a.logger(), guard: a.newGuard(i, workerID)}
}

// closeRunners ends what still runs. What can't be killed changes nothing about what the worker did.
func (a *app) closeRunners(r *runners) {
	for _, end := range r.close {
		end()
	}
	if err := r.guard.Close(); err != nil {
		a.warn(err)
	}
}

// handler is what runs for the jobs of a type.
func (r *runners) handler(c config.Handler) (handler.Handler, error) {
	switch {
	case c.HTTP != nil:
		h, err := c.HTTP.Handler()
		if err != nil {
			return nil, &config.Mistake{File: r.i.File, Key: c.Key, Err: err}
		}
		r.close = append(r.close, h.Close)
		return h, nil
	case c.Stream != nil:
		s := &handler.Stream{Processes: c.Processes, InFlight: c.InFlight, Log: r.log}
		r.describe(&s.Program, c)
		r.close = append(r.close, s.Close)
		return s, r.fits(&s.Program, c)
	}
	return r.exec(c)
}

// both are the handler of a type and its retry handler, nil if it has none.
func (r *runners) both(c, decides config.Handler) (h handler.Handler, decider handler.RetryHandler, err error) {
	if h, err = r.handler(c); err != nil || decides.Key == "" {
		return h, nil, err
	}
	e, err := r.exec(decides)
	return h, handler.RetryExec{Exec: e}, err
}

// leftType is a job type that a worker leaves out, for its handler can't be made here: its jobs wait.
type leftType struct {
	queue, name string
	err         error
}

// leaveOut leaves a job type out.
func (r *runners) leaveOut(queue, name string, err error) {
	r.left = append(r.left, leftType{queue, name, err})
}

// whyLeft is why a job type is left out; nil if it isn't.
func (r *runners) whyLeft(queue, name string) error {
	for _, l := range r.left {
		if l.queue == queue && l.name == name {
			return l.err
		}
	}
	return nil
}

// exec is a program that runs each time.
func (r *runners) exec(h config.Handler) (*handler.Exec, error) {
	e := &handler.Exec{DashArguments: h.DashArguments}
	r.describe(&e.Program, h)
	return e, r.fits(&e.Program, h)
}

// fits finds out whether programs can run here as the user, and within the limits, that the config says.
func (r *runners) fits(p *handler.Program, h config.Handler) error {
	if err := p.CheckSurroundings(); err != nil {
		return &config.Mistake{File: r.i.File, Key: h.Key, Err: err}
	}
	return nil
}

func (r *runners) describe(p *handler.Program, h config.Handler) {
	p.Argv, p.Dir, p.Env = h.Program(), h.Dir, h.Env
	p.User, p.NewPrivs, p.Limits, p.Nice, p.Umask = h.User, h.NewPrivs, h.Limits, h.Nice, h.Umask
	p.AllowForeign = r.i.AllowForeignHandlers
	p.Grace, p.Guard, p.WorkerID, p.ConfigFile = r.i.Worker.Grace, r.guard, r.workerID, r.i.File
}

// canRun finds out whether a handler's program could be run here, or what an endpoint needs be read, and runs nothing.
func canRun(c *config.Config, h config.Handler) error {
	if h.HTTP != nil {
		_, err := h.HTTP.Handler()
		return err
	}
	r := runners{i: &instance{Config: c}}
	var p handler.Program
	r.describe(&p, h)
	return p.Check()
}

// foreign says who else could have written a handler's program, unless that is allowed; "" is nobody.
func foreign(c *config.Config, h config.Handler) string {
	r := runners{i: &instance{Config: c}}
	var p handler.Program
	r.describe(&p, h)
	if h.HTTP != nil || c.AllowForeignHandlers {
		return ""
	}
	if err := p.Foreign(); err != nil {
		return fmt.Sprintf("%s: %s", h.Key, err)
	}
	return ""
}

// doubts are what may be wrong with a handler, or should be otherwise, and doesn't keep it from being run.
func doubts(c *config.Config, h config.Handler) (said []string) {
	if h.HTTP != nil {
		for _, file := range h.HTTP.Shared() {
			said = append(said, fmt.Sprintf("%s: others may read %s, which has a secret: chmod 600", h.Key, file))
		}
		if made, err := h.HTTP.Handler(); err == nil {
			if err := made.CheckAddress(); err != nil {
				said = append(said, fmt.Sprintf("%s.url: %s, so each request fails: give it in networks", h.Key, err))
			}
		}
		return said
	}
	r := runners{i: &instance{Config: c}}
	var p handler.Program
	r.describe(&p, h)
	if text := foreign(c, h); text != "" {
		said = append(said, text)
	}
	if script := p.MissingScript(); script != "" {
		said = append(said, fmt.Sprintf("%s: %s, which %s seems to be given to run, is not there", h.Key, script, p.Argv[0]))
	}
	return said
}
