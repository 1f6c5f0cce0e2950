package handler

import (
	"testing"
	"time"
)

// A program that has ended when the context ends counts by its exit status.
func TestInterruptAfterTheEnd(t *testing.T) {
	out := new(output)
	p, err := startProcess(nil, "/bin/sh", []string{"sh", "-c", "exit 5"}, "", nil, nil, out)
	if err != nil {
		t.Fatal(err)
	}
	awaitEnd(p.pid)
	p.interrupt(0, nil)
	p.await()
	status, err := p.reap()
	if err != nil || p.interrupted || status.ExitStatus() != 5 {
		t.Errorf("interrupted: %t, %v, %v", p.interrupted, status, err)
	}
	p.interrupt(time.Hour, nil) // too late for anything: the id may be another's
	if p.interrupted || p.kill != nil {
		t.Error("interrupted after the reaping")
	}
}
