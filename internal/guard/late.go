//go:build !windows

package guard

import (
	"github.com/hipq/hipq/internal/process"
)

// late keeps a worker from starting a program too late. The worker checks its lock just before the fork, but may be
// stopped in between, and continue when its jobs belong to others. So a deadline is set while programs start: it kills
// this process (on Linux) when the guard process would kill its programs.
type late struct {
	kills    bool // set before the first program; else no deadline is ever set
	deadline process.Deadline
	starting int // number of programs that are starting
}

// startBegins records that a program is about to start. The last check of the lock must come after it: a process that
// is stopped in here sets its deadline too late, or not at all.
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

// setDeadline sets the deadline while programs start. If the time is already up, the last check of the lock finds out,
// and the worker can still report why it ends.
func (g *Guard) setDeadline() {
	if !g.late.kills || g.late.starting == 0 || g.killAt.IsZero() {
		return
	}
	if left := g.killAt.Sub(now()); left > 0 {
		g.late.deadline.Set(left)
	}
}
