//go:build !windows

package guard

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hipq/hipq/internal/process"
)

const (
	// round is how often a hunt looks whether processes that it has sent a signal are gone.
	round = 50 * time.Millisecond
	// lastRounds is how often it sends KILL to processes that won't be gone, before it gives up on them.
	lastRounds = 40
	// forksFor is how long it waits at most for forks to show whose they are.
	forksFor = 10 * time.Second
)

// hunt finds and ends what a worker's programs are and have started: by their process groups, and, where the system shows
// other processes, also the strays, which have left those. It is safe for concurrent use.
type hunt struct {
	workerID string
	// children are the hunter's, if it is the worker.
	children *children
	// spared is no stray, nor is what descends from it.
	spared int

	mu     sync.Mutex
	groups map[int]struct{}
	// adopted are the worker's, with when they were born.
	adopted map[int]int
	strays  map[int]orphan
	// forks are those, with when they were born, that there were at the first look and that may still become the worker's
	// programs: nothing shows yet whose they are.
	forks map[int]int
	took  time.Duration // by the last look
}

func newHunt(workerID string) *hunt {
	return &hunt{workerID: workerID, groups: map[int]struct{}{}, adopted: map[int]int{}, strays: map[int]orphan{}}
}

func (h *hunt) addGroup(pgid int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if pgid > 1 { // to signal the others is to signal everything
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

// headcount counts the adopted processes, and gives the new ones.
func (h *hunt) headcount() (fresh map[int]int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.adopted
	h.adopted = h.children.count()
	fresh = maps.Clone(h.adopted)
	maps.DeleteFunc(fresh, func(pid, born int) bool { return before[pid] == born })
	return fresh
}

// any looks whether there is anything to end.
func (h *hunt) any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.children != nil && h.children.adopts { // then whatever there is descends from its children
		h.adopted = h.children.count()
		return len(h.groups)+len(h.adopted) > 0
	}
	h.look()
	return len(h.groups)+len(h.strays)+len(h.forks) > 0
}

// mayGrow says whether there are forks that may yet become the worker's programs.
func (h *hunt) mayGrow() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.forks) > 0
}

// signal sends sig to all groups and strays; 0 only looks, but gives strays that have come to light a TERM. It says whether
// anything is there that it could send to, and forgets groups that aren't: their ids may be given to others.
func (h *hunt) signal(sig syscall.Signal) (found bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.look() // first: a process whose parent ends by the signal is no descendant any more
	for pgid := range h.groups {
		switch {
		case !process.Runs(pgid): // what is left of it is killed, as the worker would have done
			_ = syscall.Kill(-pgid, syscall.SIGKILL)
			delete(h.groups, pgid)
		case syscall.Kill(-pgid, sig) == nil:
			found = found || !process.SeesOthers // else by its processes, because an unreaped zombie is in its group too
		}
	}
	for pid, s := range h.strays {
		err := s.Signal(pid, h.signalFor(&s, sig))
		s.denied = errors.Is(err, syscall.EPERM)
		found = found || err == nil
		h.strays[pid] = s
	}
	return found
}

// signalFor is what a stray gets, when all get sig: no TERM twice, nor one beside its group's.
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

// pardon forgets who has got a TERM.
func (h *hunt) pardon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for pid, s := range h.strays {
		s.termed = false
		h.strays[pid] = s
	}
}

// end ends everything: TERM, and KILL when the limit has come. What comes to light meanwhile, being just started, gets its
// TERM too.
func (h *hunt) end(limit time.Time) {
	sig, quiet := syscall.SIGTERM, 0
	for ; now().Before(limit); time.Sleep(round) {
		if h.signal(sig) || h.mayGrow() {
			quiet = 0
		} else if quiet++; quiet == 2 {
			return // twice, since what is signalled may just be starting something
		}
		sig = 0
	}
	h.kill()
}

func (h *hunt) kill() {
	limit := time.Now().Add(forksFor)
	for n, quiet := 0, 0; n < lastRounds; n++ {
		found := h.signal(syscall.SIGKILL)
		switch {
		case h.mayGrow() && time.Now().Before(limit):
			n, quiet = 0, 0
		case found:
			quiet = 0
		default:
			if quiet++; quiet == 2 {
				return
			}
		}
		h.forgetGroups() // nothing gets out of a group that was killed; zombies stay in it until somebody reaps them
		time.Sleep(round)
	}
}

// left says, in words, which strays are still there after all.
func (h *hunt) left() (texts []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.look()
	for _, pid := range slices.Sorted(maps.Keys(h.strays)) {
		texts = append(texts, h.strays[pid].describe(pid))
	}
	return texts
}
