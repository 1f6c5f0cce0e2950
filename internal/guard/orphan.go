//go:build !windows

package guard

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"syscall"
	"time"

	"github.com/hipq/hipq/internal/process"
)

// kernelThreads is the parent of the kernel's own processes, which have no environment.
const kernelThreads = 2

type orphan struct {
	process.Other
	// termed reports that it has got its TERM; denied, that it may not be signalled.
	termed, denied bool
}

// hops is how often a look goes on with the newest processes, because one had ended before it was known whose it was, or before
// it got its signal: it may have hopped, that is, forked before its end. Its fork has a later id.
const hops = 10

// look finds the current strays: processes with the worker's id in the environment or in one of its groups; the
// worker's adopted processes; earlier strays; and the descendants, groups and sessions of these.
func (h *hunt) look() {
	defer func(began time.Time) { h.took = time.Since(began) }(time.Now())
	h.reaped = false
	if h.children != nil {
		h.adopted, h.reaped = h.children.count()
	}
	if h.shoots {
		for pid, born := range h.adopted {
			_ = process.Other{Born: born}.Signal(pid, syscall.SIGKILL)
		}
	}
	all, found := map[int]process.Other{}, map[int]struct{}{}
	for range hops {
		hopped := false
		process.AddOthers(all, func(pid int, o process.Other) {
			switch {
			case pid == os.Getpid(), pid == h.spared:
			case o.Ended: // and not yet reaped
				hopped = true
			case !h.knows(pid, o) && !process.HasInEnvironment(pid, h.mark()): // another's, or it has ended meanwhile
				hopped = hopped || o.Parent != kernelThreads && !process.Runs(pid)
			default:
				found[pid] = struct{}{}
				if h.shoots {
					err := o.Signal(pid, syscall.SIGKILL)
					hopped = hopped || err != nil && !errors.Is(err, syscall.EPERM)
				}
			}
		})
		if !hopped {
			break
		}
	}
	spared := map[int]struct{}{os.Getpid(): {}}
	if h.spared != 0 {
		heirs := map[int]struct{}{h.spared: {}}
		spread(all, heirs, func(o process.Other) bool { return has(heirs, o.Parent) })
		maps.Copy(spared, heirs)
	}
	maps.DeleteFunc(all, func(pid int, _ process.Other) bool { return has(spared, pid) })

	h.lookForForks(all)

	maps.DeleteFunc(found, func(pid int, _ struct{}) bool { return has(spared, pid) })
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

// mark is in the environment of the worker's programs.
func (h *hunt) mark() string { return WorkerVariable + "=" + h.workerID }

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

// Programs are the processes on this host that workers with this config file have started, directly or not, by their ids,
// with the workers'. This user sees only its own, and root all. Elsewhere than on Linux there are none.
func Programs(configFile string) map[int]string {
	of := map[int]string{}
	for pid, o := range process.Others() {
		if id := process.Variable(pid, WorkerVariable); id != "" && !o.Ended && pid != os.Getpid() && process.Variable(pid, "HIPQ_CONFIG") == configFile {
			of[pid] = id
		}
	}
	return of
}

func (s orphan) describe(pid int) string {
	why := "it was killed but has not ended"
	if s.denied {
		why = "this user may not signal it"
	}
	return fmt.Sprintf("process %d (%s) still runs: %s", pid, process.NameOf(pid), why)
}
