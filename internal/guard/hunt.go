//go:build !windows

package guard

import (
	"errors"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hipq/hipq/internal/process"
)

const (
	// round is how often a hunt checks whether signalled processes are gone.
	round = 50 * time.Millisecond
	// killsFor is for how long it sends KILL to surviving processes at least before it gives up.
	killsFor = 2 * time.Second
	// forksFor is how long it waits at most for forks to show whose they are.
	forksFor = 10 * time.Second
)

// hunt finds and ends a worker's programs and what they started: by process groups and, if the system shows other
// processes, also strays, which have left their groups. It is safe for concurrent use.
type hunt struct {
	workerID string
	// children are the hunter's, if it is the worker.
	children *children
	// spared and its descendants are no strays.
	spared int

	mu     sync.Mutex
	groups map[int]struct{}
	// adopted are the worker's adopted processes, with their birth times.
	adopted map[int]int
	strays  map[int]orphan
	// forks are the processes at the first look that may become the worker's programs, with their birth times: nothing
	// shows yet whose they are.
	forks map[int]int
	took  time.Duration // by the last look
	// reaped says that adopted processes had ended at the last look: others may have come from them.
	reaped bool
	// shoots makes a look kill each process on sight.
	shoots bool
	// patience is for how long it sends KILL at most, if that is longer than killsFor.
	patience time.Duration
}

func newHunt(workerID string) *hunt {
	return &hunt{workerID: workerID, groups: map[int]struct{}{}, adopted: map[int]int{}, strays: map[int]orphan{}}
}

func (h *hunt) addGroup(pgid int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if pgid > 1 { // kill(0) and kill(-1) reach far more
		h.groups[pgid] = struct{}{}
	}
}

func (h *hunt) removeGroup(pgid int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.groups, pgid)
}

func (h *hunt) forgetGroups() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.groups)
}

func (h *hunt) known() (groups map[int]struct{}, adopted map[int]int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.groups), maps.Clone(h.adopted)
}

func (h *hunt) addAdopted(pid, born int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.adopted[pid] = born
}

// headcount counts the adopted processes, and returns the new ones.
func (h *hunt) headcount() (fresh map[int]int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.adopted
	h.adopted, _ = h.children.count()
	fresh = maps.Clone(h.adopted)
	maps.DeleteFunc(fresh, func(pid, born int) bool { return before[pid] == born })
	return fresh
}

func (h *hunt) any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.children != nil && h.children.adopts { // then all strays descend from its children
		h.adopted, _ = h.children.count()
		return len(h.groups)+len(h.adopted) > 0
	}
	h.look()
	return len(h.groups)+len(h.strays)+len(h.forks) > 0
}

// signal sends sig to all groups and strays; 0 only looks, but sends TERM to new strays. It reports whether it has seen
// anything that it may signal, even if that was gone by then, and whether there are forks that may become the worker's
// programs. It forgets dead groups, whose ids may be reused.
func (h *hunt) signal(sig syscall.Signal) (found, mayGrow bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// not if its own forks, which have its environment, would be shot
	h.shoots = sig == syscall.SIGKILL && (h.spared != os.Getpid() || !process.HasInEnvironment(os.Getpid(), h.mark()))
	h.look() // first: a process whose parent the signal kills is no descendant afterwards
	for pgid := range h.groups {
		switch {
		case !process.Runs(pgid): // kill the group's rest, as the worker would
			_ = syscall.Kill(-pgid, syscall.SIGKILL)
			delete(h.groups, pgid)
		case syscall.Kill(-pgid, sig) == nil:
			found = found || !process.SeesOthers // else count its processes, because unreaped zombies are in its group too
		}
	}
	for pid, s := range h.strays {
		s.denied = errors.Is(s.Signal(pid, h.signalFor(&s, sig)), syscall.EPERM)
		found = found || !s.denied
		h.strays[pid] = s
	}
	return found || h.reaped, len(h.forks) > 0
}

// isOver reports whether nothing can be left after so many looks in turn that saw nothing, or waits for the next look. Once
// is never enough, because a signalled process may just be starting something.
func isOver(quiet int) bool {
	if quiet < 2 {
		time.Sleep(round)
	}
	return quiet >= 2
}

// signalFor is the signal for one stray when all get sig: no second TERM, and none if its group gets one.
func (h *hunt) signalFor(s *orphan, sig syscall.Signal) syscall.Signal {
	if sig == syscall.SIGKILL {
		return sig
	}
	if s.termed || has(h.groups, s.Group) {
		return 0
	}
	s.termed = true
	return syscall.SIGTERM
}

func (h *hunt) pardon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for pid, s := range h.strays {
		s.termed = false
		h.strays[pid] = s
	}
}

// end ends everything: TERM, and KILL at the limit. Processes that appear meanwhile, just started, get a TERM too.
func (h *hunt) end(limit time.Time) {
	sig, quiet := syscall.SIGTERM, 0
	for now().Before(limit) {
		quiet++
		if found, mayGrow := h.signal(sig); found || mayGrow {
			quiet = 0
		}
		if isOver(quiet) {
			return
		}
		sig = 0
	}
	h.kill()
}

func (h *hunt) kill() {
	until, forksUntil := time.Now().Add(max(killsFor, h.patience)), time.Now().Add(forksFor)
	for quiet := 0; time.Now().Before(until); {
		found, mayGrow := h.signal(syscall.SIGKILL)
		if quiet++; found {
			quiet = 0
		}
		if mayGrow && time.Now().Before(forksUntil) {
			until, quiet = time.Now().Add(max(killsFor, h.patience)), 0
		}
		h.forgetGroups() // nothing leaves a killed group; zombies stay in it until reaped
		if isOver(quiet) {
			return
		}
	}
}

func (h *hunt) left() (texts []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.look()
	for _, pid := range slices.Sorted(maps.Keys(h.strays)) {
		texts = append(texts, h.strays[pid].describe(pid))
	}
	return texts
}
