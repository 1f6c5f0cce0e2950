package cmd

import (
	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/queue/handler"
)

// runners makes what runs for a worker's jobs of what the config says. Whoever has it closes it.
type runners struct {
	i        *instance
	workerID string
	guard    *handler.Guard // nil: nothing is to run
	streams  []*handler.Stream
}

// newRunners is for a worker whose process starts nothing but handlers.
func (a *app) newRunners(i *instance, workerID string) *runners {
	return &runners{i: i, workerID: workerID, guard: a.newGuard(i, workerID)}
}

// closeRunners ends what still runs. What can't be killed changes nothing about what the worker did.
func (a *app) closeRunners(r *runners) {
	for _, s := range r.streams {
		s.Close()
	}
	if err := r.guard.Close(); err != nil {
		a.warn(err)
	}
}

// handler is what runs for the jobs of a type.
func (r *runners) handler(h config.Handler) handler.Handler {
	if h.Stream == nil {
		return r.exec(h)
	}
	s := &handler.Stream{Processes: h.Processes, InFlight: h.InFlight}
	r.describe(&s.Program, h)
	r.streams = append(r.streams, s)
	return s
}

// exec is a program that runs each time.
func (r *runners) exec(h config.Handler) *handler.Exec {
	e := new(handler.Exec)
	r.describe(&e.Program, h)
	return e
}

func (r *runners) describe(p *handler.Program, h config.Handler) {
	p.Argv, p.Dir, p.Env = h.Program(), h.Dir, h.Env
	p.Grace, p.Guard, p.WorkerID, p.ConfigFile = r.i.Worker.Grace, r.guard, r.workerID, r.i.File
}

// canRun finds out whether a handler's program could be run here, and runs nothing.
func canRun(c *config.Config, h config.Handler) error {
	r := runners{i: &instance{Config: c}}
	var p handler.Program
	r.describe(&p, h)
	return p.Check()
}
