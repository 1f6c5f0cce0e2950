//go:build !windows

package guard

import (
	"github.com/hipq/hipq/internal/process"
)

// late keeps a worker from starting a program too late. Who starts one has looked just before whether the lock holds; but the
// process may be stopped between that look and the fork, and go on when its jobs are others'. So while programs are being
// started, a deadline is set: it kills this process when the guard process would kill its programs.
type late struct {
	kills    bool // else no deadline is ever set
	deadline process.Deadline
	starting int // so many programs at this moment
}

// KillIfLate has the system (Linux) kill this process if it is in the middle of a program's start, and still is when its lock
// is about to end. That happens to a process which was stopped just then: going on, it would start a job that is another
// worker's by then. It is for processes that are nothing but a worker. Call it once, before the first program starts.
func (g *Guard) KillIfLate() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.late.kills = true
}

// startBegins notes that a program is about to be started. The last look at the lock has to come after it: a process that was
// stopped in here sets its deadline too late, or none.
func (g *Guard) startBegins() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.late.starting++
	g.setDeadline()
}

func (g *Guard) startIsOver() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.late.starting--; g.late.starting == 0 && g.late.kills {
		g.late.deadline.Lift()
	}
}

// setDeadline sets the deadline if programs are being started. Where the time is up already the last look finds that out, and
// the worker can still say why it ends.
func (g *Guard) setDeadline() {
	if !g.late.kills || g.late.starting == 0 || g.killAt.IsZero() {
		return
	}
	if left := g.killAt.Sub(now()); left > 0 {
		g.late.deadline.Set(left)
	}
}
