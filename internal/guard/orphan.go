//go:build !windows

package guard

import (
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/hipq/hipq/internal/process"
)

type orphan struct {
	process.Other
	// termed reports that it has got its TERM; denied, that it may not be signalled.
	termed, denied bool
}

// look finds the current strays: processes with the worker's id in the environment or in one of its groups; the
// worker's adopted processes; earlier strays; and the descendants, groups and sessions of these.
func (h *hunt) look() {
	defer func(began time.Time) { h.took = time.Since(began) }(time.Now())
	if h.children != nil {
		h.adopted = h.children.count()
	}
	all := process.Others()
	spared := map[int]struct{}{os.Getpid(): {}}
	if h.spared != 0 {
		heirs := map[int]struct{}{h.spared: {}}
		spread(all, heirs, func(o process.Other) bool { return has(heirs, o.Parent) })
		maps.Copy(spared, heirs)
	}
	maps.DeleteFunc(all, func(pid int, _ process.Other) bool { return has(spared, pid) })

	h.lookForForks(all)

	found := map[int]struct{}{}
	for pid, o := range all {
		if h.knows(pid, o) || process.HasInEnvironment(pid, WorkerVariable+"="+h.workerID) {
			found[pid] = struct{}{}
		}
	}
	spread(all, found, func(o process.Other) bool {
		return has(found, o.Parent) || has(found, o.Group) || has(found, o.Session)
	})

	strays := map[int]orphan{}
	for pid := range found {
		s := orphan{Other: all[pid]}
		if before := h.strays[pid]; before.Born == s.Born {
			s.termed, s.denied = before.termed, before.denied
		}
		if !s.Ended {
			strays[pid] = s
		}
	}
	h.strays = strays
}

// lookForForks finds, at the first look, possible forks of the worker, and later those that still may be.
func (h *hunt) lookForForks(all map[int]process.Other) {
	first := h.forks == nil
	if first {
		h.forks = map[int]int{}
	}
	for pid, o := range all {
		if born, known := h.forks[pid]; (first || known && born == o.Born) && o.IsFork(pid) {
			h.forks[pid] = o.Born
		} else {
			delete(h.forks, pid)
		}
	}
	maps.DeleteFunc(h.forks, func(pid, _ int) bool { return !has(all, pid) })
}

// knows reports whether a process is in a group, adopted, or was found earlier.
func (h *hunt) knows(pid int, o process.Other) bool {
	before, stray := h.strays[pid]
	born, adopted := h.adopted[pid]
	return has(h.groups, o.Group) || stray && before.Born == o.Born || adopted && born == o.Born
}

func spread(all map[int]process.Other, to map[int]struct{}, akin func(process.Other) bool) {
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

// KillOrphans kills a worker's programs, what they started, and its guard, on this host. It returns descriptions of
// what it could not kill. Call it for dead workers, before others take their jobs: a handler may have killed or stopped
// the guard. On Linux it finds processes with the worker's id in their environment, and what they started. It waits up
// to 10 s for possible forks of the worker. Elsewhere it finds none. It may be repeated.
func KillOrphans(workerID string) (left []string) {
	h := newHunt(workerID)
	h.spared = os.Getpid() // it may itself be such a stray
	if !h.any() {
		return nil
	}
	h.kill()
	return h.left()
}

// describe says which process could not be killed, and why.
func (s orphan) describe(pid int) string {
	why := "it was killed but has not ended"
	if s.denied {
		why = "this user may not signal it"
	}
	return fmt.Sprintf("process %d (%s) still runs: %s", pid, process.NameOf(pid), why)
}
