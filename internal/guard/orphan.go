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
	// termed says that it has got its TERM; denied that it may not be signalled.
	termed, denied bool
}

// look finds the strays that are there now: what has the worker's id in its environment, or is in one of its groups; the
// worker's adopted processes; what was an orphan before; and what descends from such a process, or is in a group or session that
// one of them leads.
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

// lookForForks finds, at the first look, the processes that may be forks of the worker; and then those of them that still may.
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

// knows says whether a process is in a group, an adopted process, or was found earlier.
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

// KillOrphans kills what the programs of a worker are and have started, on this host, and its guard, and gives what it could
// not kill, in words. It is for workers that are dead, before others take their jobs: a handler may have killed or stopped
// the guard too. On Linux it finds processes that have the worker's id in their environment, and what they have started; it
// waits some seconds for forks that may be the worker's to show what they are. Elsewhere it finds none. It may be repeated.
func KillOrphans(workerID string) (left []string) {
	h := newHunt(workerID)
	h.spared = os.Getpid() // it may be such a stray itself
	if !h.any() {
		return nil
	}
	h.kill()
	return h.left()
}

// describe says of a process that could not be killed which it is and why.
func (s orphan) describe(pid int) string {
	why := "it doesn't end, although it was killed"
	if s.denied {
		why = "this user may not signal it"
	}
	return fmt.Sprintf("process %d (%s) still runs: %s", pid, process.NameOf(pid), why)
}
