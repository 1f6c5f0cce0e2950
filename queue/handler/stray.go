//go:build !windows

package handler

import (
	"fmt"
	"maps"
	"os"
	"time"
)

// other is a process of this host.
type other struct {
	parent, group, session int
	// born, in ticks since the host's start, tells it from others that have its id after it.
	born  int
	ended bool
}

// stray is a process to end.
type stray struct {
	other
	// termed says that it has got its TERM; denied that it may not be signalled.
	termed, denied bool
}

// look finds the strays that are there now: what has the worker's id in its environment, or is in one of its groups; the
// worker's foundlings; what was a stray before; and what descends from such a process, or is in a group or session that
// one of them leads.
func (h *hunt) look() {
	defer func(began time.Time) { h.took = time.Since(began) }(time.Now())
	if h.children != nil {
		h.foundlings = h.children.count()
	}
	all := others()
	spared := map[int]struct{}{os.Getpid(): {}}
	if h.spared != 0 {
		heirs := map[int]struct{}{h.spared: {}}
		spread(all, heirs, func(o other) bool { return has(heirs, o.parent) })
		maps.Copy(spared, heirs)
	}
	maps.DeleteFunc(all, func(pid int, _ other) bool { return has(spared, pid) })

	found := map[int]struct{}{}
	for pid, o := range all {
		if h.knows(pid, o) || hasInEnvironment(pid, workerVariable+"="+h.workerID) {
			found[pid] = struct{}{}
		}
	}
	spread(all, found, func(o other) bool { return has(found, o.parent) || has(found, o.group) || has(found, o.session) })

	strays := map[int]stray{}
	for pid := range found {
		s := stray{other: all[pid]}
		if before := h.strays[pid]; before.born == s.born {
			s.termed, s.denied = before.termed, before.denied
		}
		if !s.ended {
			strays[pid] = s
		}
	}
	h.strays = strays
}

// knows says whether a process is in a group, a foundling, or was found earlier.
func (h *hunt) knows(pid int, o other) bool {
	before, stray := h.strays[pid]
	born, foundling := h.foundlings[pid]
	return has(h.groups, o.group) || stray && before.born == o.born || foundling && born == o.born
}

// spread adds to some processes all that are akin to them.
func spread(all map[int]other, to map[int]struct{}, akin func(other) bool) {
	for before := -1; before < len(to); {
		before = len(to)
		for pid, o := range all {
			if akin(o) {
				to[pid] = struct{}{}
			}
		}
	}
}

func has[V any](pids map[int]V, pid int) bool {
	_, ok := pids[pid]
	return ok
}

// KillStrays kills what the programs of a worker are and have started, on this host, and its guard, and gives what it could
// not kill, in words. It is for workers that are dead, before others take their jobs: a handler may have killed or stopped
// the guard too. On Linux it finds processes that have the worker's id in their environment, and what they have started;
// elsewhere none. It may be repeated.
func KillStrays(workerID string) (left []string) {
	h := newHunt(workerID)
	h.spared = os.Getpid() // it may be such a stray itself
	if !h.any() {
		return nil
	}
	h.kill()
	return h.left()
}

// describe says of a process that could not be killed which it is and why.
func (s stray) describe(pid int) string {
	why := "it doesn't end, although it was killed"
	if s.denied {
		why = "this user may not signal it"
	}
	return fmt.Sprintf("process %d (%s) still runs: %s", pid, nameOf(pid), why)
}
