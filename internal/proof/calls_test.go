//go:build linux && amd64

package proof

import (
	"context"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

func init() {
	kinds = append(kinds, kind{
		name: "calls", title: "SIGKILL, SIGSTOP and SIGTERM just before and just after a system call of workers, guards, their children before `exec`, and handlers",
		must: "lost, doubled, overlaps, over a limit, over a rate", faults: 1000,
		turns: []engineTurns{{"sqlite", 2}, {"mariadb", 2}}, round: calls,
	})
}

// places are the calls of a tick, by the process that makes them: about how many each makes for ten jobs.
var places = []struct {
	role processRole
	most int
}{{roleWorker, 800}, {roleGuard, 50}, {roleFork, 60}, {roleHandler, 300}}

// place returns the n-th of all places, from 0, and begins again after the last.
func place(n int) (role processRole, at int) {
	all := 0
	for _, p := range places {
		all += p.most
	}
	for n %= all; ; {
		for _, p := range places {
			if n < p.most {
				return p.role, n + 1
			}
			n -= p.most
		}
	}
}

// calls kills, stops and ends processes just before or after each of their system calls in turn.
func calls(r *round) {
	const crews, each = 3, 40
	r.live(workload{ticks: 1, backlog: 60}, time.Minute, func(ctx context.Context) {
		var crew sync.WaitGroup
		for c := range crews {
			rng := r.random(20 + uint64(c))
			crew.Go(func() {
				for n := 0; n < each && time.Now().Before(r.until); n++ {
					role, at := place((r.number-1)*crews*each + n*crews + c + r.turn.number*places[0].most/2)
					r.atCall(rng, role, at)
				}
			})
		}
		crew.Wait()
	})
}

// slower is how much longer a traced tick may take.
const slower = 20 * time.Second

// atCall runs a tick with one fault at one call.
func (r *round) atCall(rng *rand.Rand, role processRole, at int) {
	after, kind := rng.IntN(2) == 0, rng.IntN(10)
	pause := time.Duration(rng.Int64N(int64(2 * lockFor)))
	t := &tick{cmd: r.command("work", "--run-for", "2s", "--json"), began: time.Now(), ended: make(chan struct{}), stopped: slower}
	t.cmd.Stderr, t.cmd.Stdout = &t.said, &t.said
	number := 0
	tr, err := startTrace(t.cmd, traceOptions{Hook: func(c *tracedCall) {
		if c.Role != role {
			return
		}
		if !c.Returned {
			if number++; number != at {
				return
			}
			if after && kind < 9 {
				c.AwaitReturn()
				return
			}
		}
		if c.Role == roleWorker || kind == 6 {
			r.harm(t)
		}
		when := map[bool]string{true: "after", false: "before"}[c.Returned]
		switch {
		case kind < 6:
			r.inject("SIGKILL %s %s", when, c)
			c.Signal(syscall.SIGKILL)
		case kind == 6:
			r.inject("SIGKILL of everything %s %s", when, c)
			c.Trace.Kill()
		case kind < 9:
			r.inject("SIGTERM %s %s", when, c)
			c.Signal(syscall.SIGTERM)
		default:
			r.pause(t, pause)
			r.inject("SIGSTOP for %s before %s", pause.Round(time.Millisecond), c)
			c.Stop()
			time.AfterFunc(pause, func() { c.Trace.Signal(c.Role, syscall.SIGCONT) })
		}
	}})
	dbtest.Ensure(r.t, err == nil, "%v", err)
	if err != nil {
		return
	}
	r.mu.Lock()
	r.ticks = append(r.ticks, t)
	r.mu.Unlock()
	if err := tr.Wait(2 * time.Minute); err != nil {
		r.violates("trace a tick: %v", err)
	}
	t.took = time.Since(t.began)
	close(t.ended)
}
