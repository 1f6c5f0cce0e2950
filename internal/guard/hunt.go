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
	// round is how often a hunt checks whether signalled processes are gone.
	round = 50 * time.Millisecond
	// lastRounds is how often it sends KILL to surviving processes before it gives up.
	lastRounds = 40
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
	h.adopted = h.children.count()
	fresh = maps.Clone(h.adopted)
	maps.DeleteFunc(fresh, func(pid, born int) bool { return before[pid] == born })
	return fresh
}

// any reports whether there is anything to end.
func (h *hunt) any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.children != nil && h.children.adopts { // then all strays descend from its children
		h.adopted = h.children.count()
		return len(h.groups)+len(h.adopted) > 0
	}
	h.look()
	return len(h.groups)+len(h.strays)+len(h.forks) > 0
}

// mayGrow reports whether there are forks that may become the worker's programs.
func (h *hunt) mayGrow() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.forks) > 0
}

// signal sends sig to all groups and strays; 0 only looks, but sends TERM to new strays. It reports whether it could
// signal anything. It forgets dead groups, whose ids may be reused.
func (h *hunt) signal(sig syscall.Signal) (found bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
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
		err := s.Signal(pid, h.signalFor(&s, sig))
		s.denied = errors.Is(err, syscall.EPERM)
		found = found || err == nil
		h.strays[pid] = s
	}
	return found
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

// pardon forgets which strays have got a TERM.
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
	for ; now().Before(limit); time.Sleep(round) {
		if h.signal(sig) || h.mayGrow() {
			quiet = 0
		} else if quiet++; quiet == 2 {
			return // twice, because a signalled process may just be starting something
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
		h.forgetGroups() // nothing leaves a killed group; zombies stay in it until reaped
		time.Sleep(round)
	}
}

// left describes the strays that remain.
func (h *hunt) left() (texts []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.look()
	for _, pid := range slices.Sorted(maps.Keys(h.strays)) {
		texts = append(texts, h.strays[pid].describe(pid))
	}
	return texts
}
