//go:build !windows

package guard

import (
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"syscall"

	"github.com/hipq/hipq/internal/process"
)

// children tells a worker's adopted processes, which nothing else reaps, from its other children: reaping one of those
// would steal its exit status.
type children struct {
	adopts bool // from before the first program on, or never

	mu sync.Mutex
	// own are the children that are waited for: programs, the guard process, and those from before Alone.
	own map[int]struct{}
	// starting are the numbers of own children that may have forked but aren't known yet.
	starting map[uint64]struct{}
	begun    uint64 // the last number
	// strangers are the children that were unknown at the last count, with the value of begun when each was first seen.
	strangers map[int]uint64
	// named are the processes that left has named, with their birth times.
	named map[int]int
}

func newChildren() *children {
	return &children{own: map[int]struct{}{}, starting: map[uint64]struct{}{}, named: map[int]int{}}
}

func (c *children) adopt() {
	had, err := process.Children()
	if err != nil || !process.AdoptOrphans(true) {
		return
	}
	c.adopts = true
	for _, pid := range had {
		c.own[pid] = struct{}{}
	}
}

func (c *children) fork(start func() (pid int, err error)) (pid int, err error) {
	if !c.adopts {
		return start()
	}
	c.mu.Lock()
	c.begun++
	number := c.begun
	c.starting[number] = struct{}{}
	c.mu.Unlock()

	pid, err = start()

	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.starting, number)
	if err == nil {
		c.own[pid] = struct{}{}
		delete(c.strangers, pid)
	}
	return pid, err
}

func (c *children) start(cmd *exec.Cmd) error {
	_, err := c.fork(func() (int, error) {
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		return cmd.Process.Pid, nil
	})
	return err
}

// reap reaps an ended own child. The lock keeps others from counting children between the wait, which frees the id, and
// its removal.
func (c *children) reap(pid int, wait func()) {
	if !c.adopts {
		wait()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	wait()
	delete(c.own, pid)
}

// count reaps ended adopted processes, and returns the others with their birth times. ended says that it reaped some.
func (c *children) count() (found map[int]int, ended bool) {
	found = map[int]int{}
	if !c.adopts {
		return found, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	pids, _ := process.Children()
	for _, pid := range c.adopted(pids) {
		if reaped, _ := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); reaped == pid {
			ended = true
			continue
		}
		if o, ok := process.OtherOf(pid); ok {
			found[pid] = o.Born
		}
	}
	return found, ended
}

// left finds what an ended, unreaped program has left: within its group, and outside it by this variable in the environment.
func (c *children) left(pgid int, variable string) (within, outside []string) {
	if !c.adopts {
		return nil, nil
	}
	pids, _ := process.Children()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, pid := range slices.DeleteFunc(pids, func(pid int) bool { return has(c.own, pid) }) {
		switch o, ok := process.OtherOf(pid); {
		case !ok || o.Ended:
		case o.Group == pgid:
			within = append(within, describe(pid))
			c.named[pid] = o.Born
		case variable != "" && process.HasInEnvironment(pid, variable):
			outside = append(outside, describe(pid))
			c.named[pid] = o.Born
		}
	}
	return within, outside
}

// unnamed describes the adopted processes that left has not named.
func (c *children) unnamed(adopted map[int]int) map[int]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[int]string{}
	for pid, born := range adopted {
		if c.named[pid] != born {
			found[pid] = describe(pid)
		}
	}
	return found
}

func describe(pid int) string { return fmt.Sprintf("%s (pid %d)", process.NameOf(pid), pid) }

// adopted are the children that are surely not own: every start in progress when they were first seen has since become
// known.
func (c *children) adopted(pids []int) (sure []int) {
	oldest := c.begun + 1
	for number := range c.starting {
		oldest = min(oldest, number)
	}
	strangers := map[int]uint64{}
	for _, pid := range pids {
		if has(c.own, pid) {
			continue
		}
		first, known := c.strangers[pid]
		if !known {
			first = c.begun
		}
		strangers[pid] = first
		if first < oldest {
			sure = append(sure, pid)
		}
	}
	c.strangers = strangers
	return sure
}

// Left names what an ended, unreaped program has left: within its group, and outside it by this variable in the
// environment. It returns nothing if this process doesn't adopt.
func (g *Guard) Left(pgid int, variable string) (within, outside []string) {
	if g == nil {
		return nil, nil
	}
	return g.children.left(pgid, variable)
}

// NoteKilled adds remains of a program that no attempt names to Killed.
func (g *Guard) NoteKilled(left []string) {
	if g != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.killed = append(g.killed, left...)
	}
}

// Killed names the killed remains of programs: those that Close killed, and those of NoteKilled.
func (g *Guard) Killed() []string {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.killed
}
