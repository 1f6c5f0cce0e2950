package handler

import (
	"context"

	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/queue/job"
)

// hipq runs no programs on Windows.

type (
	account struct{ name, home string }
	talk    struct {
		taken, given int
		stamps       []string
	}
)

func (p *Program) other() *account             { return nil }
func (p *Program) asUser(f func() error) error { return f() }
func (p *Program) CheckSurroundings() error    { return nil }
func (p *Program) Foreign() error              { return nil }

func (e *Exec) run(context.Context, *job.Job, []string, []byte) (out printed, end ending, err error) {
	return out, end, process.CanRun()
}

func (s *Stream) open(context.Context) (*talk, error)                         { return nil, process.CanRun() }
func (s *Stream) worn(*talk) string                                           { return "" }
func (t *talk) ask(context.Context, *job.Job, []byte) (o job.Outcome, _ bool) { return o, false }
func (t *talk) begin()                                                        {}
func (t *talk) retire(string)                                                 {}
