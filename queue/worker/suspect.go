package worker

import (
	"slices"
	"time"

	"github.com/hipq/hipq/queue"
)

// A suspect is a job whose last attempt ended with its worker: perhaps it is what killed it. It is started alone, so that it
// takes no other job with it if it does so again.

// clearFor is how long a worker starts nothing, so that what runs may end and a suspect may run alone. If that doesn't do,
// it goes on as ever for the time of a lock: other workers may be luckier.
const clearFor = 10 * time.Second

// sendSuspect sends a round out that starts a suspect, if there may be one and nothing runs. It says whether anything else
// may be started now.
func (w *worker) sendSuspect(accepting bool) (others bool) {
	at := slices.IndexFunc(w.sources, func(s *source) bool { return s.suspected && s.lane.width() > 0 && !s.lane.without() })
	switch now := time.Now(); {
	case w.suspect:
		return false
	case !accepting || at < 0:
		w.clearing = time.Time{}
		return accepting
	case w.host.inUse() > 0:
		if now.After(w.clearNext) {
			w.clearing, w.clearNext = now.Add(clearFor), now.Add(clearFor+w.LockFor)
		}
		return !now.Before(w.clearing)
	}
	s := w.sources[at]
	if w.crowded(s) || s.lane.free() < 1 {
		return false
	}
	r := round{Round: queue.NewRound(w.Worker), reserved: 1, suspect: true}
	r.Slots, r.Candidates = 1, s.suspects
	w.suspect, w.clearing = true, time.Time{}
	w.reserve(s, 1)
	w.send(s, r)
	return false
}
