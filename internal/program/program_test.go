package program

import (
	"testing"
	"time"

	"github.com/hipq/hipq/internal/process"
)

// A program that has ended when the context ends counts by its exit status.
func TestInterruptAfterTheEnd(t *testing.T) {
	p, err := Start(nil, Command{Path: "/bin/sh", Argv: []string{"sh", "-c", "exit 5"}}, nil, new(discard))
	if err != nil {
		t.Fatal(err)
	}
	process.AwaitEnd(p.pid)
	p.Interrupt(0, nil)
	p.Await()
	status, err := p.Reap()
	if err != nil || p.interrupted || status.ExitStatus() != 5 {
		t.Errorf("interrupted: %t, %v, %v", p.interrupted, status, err)
	}
	p.Interrupt(time.Hour, nil) // too late for anything: the id may be another's
	if p.interrupted || p.kill != nil {
		t.Error("interrupted after the reaping")
	}
}

// discard takes what nobody wants to see.
type discard [64]byte

func (d *discard) Room() []byte { return d[:] }

func (d *discard) Took(int) {}
