package dbtest

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Poll is how long a worker may take to notice what another process has changed.
const Poll = time.Second

// Queue is what a config says of a queue. A number is 0 if there is no such limit.
type Queue struct {
	Name  string
	Limit int
	// Rate is how many jobs may start in Per.
	Rate int
	Per  time.Duration
	// By is what makes a group: job_type, or a key of the data. Groups are their limits; "*" is each other one.
	By     string
	Groups map[string]int
	Shards int
	// Slots is the queue's concurrency, and Types that of each type with a handler.
	Slots int
	Types map[string]int
}

// Job is a job that is due or that counts against a limit.
type Job struct {
	ID                         int64
	Queue, Type, Status, Group string
	Weight                     int
	// Since is when it was due and its row was there.
	Since time.Time
}

// Hand is a live worker that accepts jobs.
type Hand struct {
	ID string
	// Slots is its concurrency on the host, of which the jobs of all workers take some.
	Slots int
	// Queues and Types are what it works; all, if it names none.
	Queues, Types []string
	// Began is when it had registered. It accepts jobs until Until.
	Began, Until time.Time
}

// Moment is what can be seen of an instance whose workers run on one host.
type Moment struct {
	At time.Time
	// Jobs are in the order of each queue.
	Jobs []Job
	// Hands are at work, and Ended those that have ended by themselves since the moment before.
	Hands, Ended []Hand
	// Starts are the latest starts of each queue, in their order.
	Starts map[string][]time.Time
	Paused map[string]bool
	// Workers counts all live workers, and Strangers those that accept jobs and are no hands, because they end when they like.
	Workers, Strangers int
	// Waiting is how many processes of the machine wait for each processor.
	Waiting float64
}

func (j Job) due() bool { return j.Status == "available" || j.Status == "throttled" }

// runs says whether the job will free its room and its slot by itself: an answer may never come.
func (j Job) runs() bool { return !j.due() && j.Status != "awaiting" }

func (j Job) counts() bool { return !j.due() && j.Status != "deciding" }

func named(list []string, name string) bool { return len(list) == 0 || slices.Contains(list, name) }

// serves says whether the worker runs this job's type, and must have noticed the job: it was there before, or a poll ago.
func (h Hand) serves(q Queue, j Job, at time.Time) bool {
	_, handled := q.Types[j.Type]
	noticed := at.After(j.Since.Add(Poll)) || j.Since.Add(Poll/10).Before(h.Began)
	return handled && named(h.Queues, q.Name) && named(h.Types, j.Type) && noticed && at.Before(h.Until)
}

// free says whether the worker has a slot for a job.
func (m Moment) free(h Hand, q Queue, j Job) bool {
	host, queue, lane := 0, 0, 0
	for _, o := range m.Jobs {
		if o.runs() {
			host++
			if o.Queue == q.Name {
				queue++
				if o.Type == j.Type {
					lane++
				}
			}
		}
	}
	left := func(most, used int) bool { return most == 0 || used < most }
	return host < h.Slots && left(q.Slots, queue) && left(q.Types[j.Type], lane)
}

// scope is a limit of some jobs. Room is how much may start before something ends.
type scope struct {
	room int
	// used says that something counts, and frees that it runs, so that it will free its room.
	used, frees bool
	// waits is the first job without room.
	waits *Job
}

// scopes names the scopes of a job.
func (q Queue) scopes(j Job) (names []string) {
	if j.Weight > 0 {
		if q.Limit > 0 {
			names = append(names, "the limit")
		}
		if most := cmp.Or(q.Groups[j.Group], q.Groups["*"]); most > 0 && j.Group != "" {
			names = append(names, "the group "+j.Group)
		}
	}
	if q.Rate > 0 {
		names = append(names, "the rate")
	}
	return names
}

// room is what is left in each scope of a queue.
func (m Moment) room(q Queue) map[string]*scope {
	all := map[string]*scope{}
	of := func(name, group string) *scope {
		if all[name] == nil {
			all[name] = &scope{room: map[string]int{"the limit": q.Limit, "the rate": q.Rate}[name]}
			if group != "" {
				all[name].room = cmp.Or(q.Groups[group], q.Groups["*"])
			}
		}
		return all[name]
	}
	for _, j := range m.Jobs {
		if j.Queue != q.Name {
			continue
		}
		for _, name := range q.scopes(j) {
			group := ""
			if name != "the limit" && name != "the rate" {
				group = j.Group
			}
			if s := of(name, group); j.counts() && name != "the rate" {
				s.room, s.used, s.frees = s.room-j.Weight, true, s.frees || j.runs()
			}
		}
	}
	for _, at := range m.Starts[q.Name] {
		if s := all["the rate"]; s != nil && m.At.Sub(at) < q.Per+q.Per/20 { // hipq may count a start for a little longer
			s.room--
		}
	}
	return all
}

// look goes through the due jobs of a queue as the page "Which job is next" says. It returns the first job that a worker with
// a free slot could start, and each job that is the first to wait for room that something running will free.
func (m Moment) look(q Queue, hands []Hand) (ready *Job, by Hand, waiting map[string]*Job) {
	waiting = map[string]*Job{}
	all := m.room(q)
	for i, j := range m.Jobs {
		if j.Queue != q.Name || !j.due() || m.Paused[q.Name] {
			continue
		}
		over := false
		for _, name := range q.scopes(j) {
			s := all[name]
			enough := s.room >= j.Weight || !s.used
			if name == "the rate" {
				enough = s.room > 0
			} else if q.Shards > 1 { // what a shard has of the limit can't be seen
				enough = !s.used
			}
			if s.waits == nil && enough {
				continue
			}
			if over = true; s.waits == nil {
				if s.waits = &m.Jobs[i]; s.frees {
					waiting[name] = s.waits
				}
			}
			break
		}
		if over || ready != nil {
			continue
		}
		for _, h := range hands {
			if h.serves(q, j, m.At) && m.free(h, q, j) {
				ready, by = &m.Jobs[i], h
				break
			}
		}
	}
	return ready, by, waiting
}

// Idle finds out when an instance stands still. It knows neither why nor how hipq decides.
type Idle struct {
	Queues []Queue
	// Most is how long nothing may start although something could.
	Most time.Duration

	last  Moment
	since map[string]time.Time
	gap   time.Duration
	told  map[string]bool
	// others is when another process could last free room, and busy how busy the machine was.
	others time.Time
	busy   float64
}

// See takes the next moment and returns what is wrong. The limit is longer if the machine is busy, so that moments lie apart or
// processes wait, and if another process may have freed what is free: the worker learns that by its poll.
func (w *Idle) See(m Moment) (bad []string) {
	if w.since == nil {
		w.since, w.told, w.last.At = map[string]time.Time{}, map[string]bool{}, m.At
	}
	gap := m.At.Sub(w.last.At)
	w.gap = max(gap, w.gap-w.gap/20)
	begun := slices.DeleteFunc(slices.Clone(m.Hands), func(h Hand) bool { return m.At.Before(h.Began.Add(Poll)) })
	w.busy = max(m.Waiting, w.busy-w.busy/20)
	most := w.Most + 3*w.gap + time.Duration(w.busy*float64(100*time.Millisecond))
	answers := func(q Queue) bool { // an answer may make room
		return slices.ContainsFunc(m.Jobs, func(j Job) bool { return j.Queue == q.Name && j.Status == "awaiting" && len(q.scopes(j)) > 0 })
	}
	if m.Workers > 1 || slices.ContainsFunc(w.Queues, answers) {
		w.others = m.At
	}
	if m.At.Before(w.others.Add(2 * Poll)) {
		most += Poll
	}
	for _, q := range w.Queues {
		j, h, _ := m.look(q, begun)
		starts := m.Starts[q.Name]
		if j == nil || len(starts) > 0 && starts[len(starts)-1].After(w.last.At.Add(-gap)) {
			delete(w.since, q.Name)
		} else if _, stands := w.since[q.Name]; !stands {
			w.since[q.Name] = m.At
		}
		if since, stands := w.since[q.Name]; stands && m.At.Sub(since) > most && !w.told[q.Name] {
			bad = append(bad, fmt.Sprintf("%s has started nothing for %s, although worker %s has a slot for job %d of type %s (weight %d), since %s",
				q.Name, m.At.Sub(since).Round(time.Millisecond), h.ID, j.ID, j.Type, j.Weight, since.Format("15:04:05.000")))
		}
		_, w.told[q.Name] = w.since[q.Name]
		w.told[q.Name] = w.told[q.Name] && m.At.Sub(w.since[q.Name]) > most
		for _, gone := range m.Ended {
			bad = append(bad, w.early(m, q, gone)...)
		}
	}
	w.last = m
	return bad
}

// early says whether a worker has ended before its time and left a job behind, although the job could start, or waits for
// room that something running will free. It must have been so before and after the worker's end.
func (w *Idle) early(m Moment, q Queue, gone Hand) (bad []string) {
	left := func(before, now *Job) bool {
		return m.Strangers == 0 && before != nil && now != nil && before.ID == now.ID && gone.serves(q, *now, m.At) &&
			!slices.ContainsFunc(m.Hands, func(h Hand) bool { return h.serves(q, *now, m.At) })
	}
	ready, _, waiting := w.last.look(q, []Hand{gone})
	still, _, waits := m.look(q, []Hand{gone})
	if left(ready, still) && w.busy < 1 { // on a busy machine much happens between a worker's last look and its end
		bad = append(bad, fmt.Sprintf("worker %s has ended, although it had a slot for job %d of %s", gone.ID, ready.ID, q.Name))
	}
	for name, j := range waiting {
		if left(j, waits[name]) {
			bad = append(bad, fmt.Sprintf("worker %s has ended, although job %d of %s waits for room in %s, which running jobs have", gone.ID, j.ID, q.Name, name))
		}
	}
	return bad
}

// Forget excuses everything until now, as after a fault.
func (w *Idle) Forget() { w.since, w.last = nil, Moment{} }
