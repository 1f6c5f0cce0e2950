package claim

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var now = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// sentences are the rules again, from the sentences of the package comment: loops over all jobs and all limits.
type sentences struct {
	max     map[Scope]int // the limits
	share   int           // of the queue's limit, if it is divided
	running []Job
	lately  int // starts in the rate's period
}

// uses is what a job counts for in a limit. Weight 0 uses only the rate.
func uses(j Job, s Scope) int {
	switch s {
	case Rate:
		return 1
	case Queue, j.Group:
		return j.Weight
	}
	return 0
}

func (m sentences) used(s Scope) (sum int) {
	if s == Rate {
		return m.lately
	}
	for _, j := range m.running {
		sum += uses(j, s)
	}
	return sum
}

func (m sentences) fits(j Job, s Scope) bool {
	share := m.max[s]
	if s == Queue {
		share = min(share, m.share)
	}
	if uses(j, s) > m.max[s] {
		return m.used(s) == 0 && share == m.max[s]
	}
	return m.used(s)+uses(j, s) <= share
}

// decide says what each job does. A job that is passed over holds up what is behind it: in the limit for which it waits (its
// group's before the queue's before the rate), and in all of its limits if it has room, because it starts next. Ours are held by
// their group, or are in line: the first of each limit, and those that waited before.
func (m sentences) decide(jobs []Job, slots int) []Decision {
	all, holds := make([]Decision, len(jobs)), make([][]Scope, len(jobs))
	before := func(i int, s Scope, ours bool) (is bool) { // does one of ours, or any, hold it up?
		for k := range i {
			is = is || slices.Contains(holds[k], s) && (jobs[k].Ours || !ours)
		}
		return is
	}
	behind := func(i int, s Scope) (is bool) { // perhaps, because not all jobs before it are in the list
		for k := range i {
			is = is || jobs[k].Unread != None && jobs[k].Unread == s
		}
		return is
	}
	for i, j := range jobs {
		var limits []Scope
		without := None
		for _, s := range []Scope{Rate, Queue, j.Group} {
			if m.max[s] == 0 || uses(j, s) == 0 {
				continue
			}
			if limits = append(limits, s); before(i, s, false) || behind(i, s) || !m.fits(j, s) {
				without = s
			}
		}
		ago := now.Sub(j.Asked)
		if ago < 0 {
			ago = -ago
		}
		waits, never := j.Held || j.InLine, j.Held
		var d Decision
		switch {
		case j.Elsewhere && !waits:
		case j.Invalid:
			d.Action = Reject
		case j.Opens.After(now):
			d.Action = Postpone
		case !j.Ours && waits && (j.Busy || !never && ago >= AskLasts):
			if !j.Busy && ago >= Forgotten {
				d.Action = Release
			}
		case j.Ours && slots < 1:
			if d.Lacks = Slot; waits && (never || ago < AskLasts) {
				d.Action = Unask
			}
		case without == None && j.Ours:
			d.Action, slots = Start, slots-1
			m.running, m.lately = append(m.running, j), m.lately+1
		case without == None:
			holds[i] = limits
		default:
			d.Lacks, holds[i] = without, []Scope{without}
		}
		switch first := func(s Scope) bool { return !before(i, s, j.Ours) && (j.Ours || !behind(i, s)) }; {
		case len(holds[i]) == 0:
		case !j.Ours:
			if never && slices.ContainsFunc(holds[i], first) {
				d.Action = LineUp
			}
		case without == j.Group:
			switch {
			case !waits, !never && m.max[without] <= m.used(without):
				d.Action = Hold
			case j.InLine && ago >= time.Second:
				d.Action = LineUp
			}
		case j.Held, !waits && first(without), j.InLine && ago >= time.Second:
			d.Action = LineUp
		}
		all[i] = d
	}
	return all
}

// limits are the same limits as the rules know them.
func (m sentences) limits() Limits {
	l := Limits{}
	for s, n := range m.max {
		l[s] = &Limit{Max: n, Whole: n, Used: m.used(s)}
	}
	if l[Queue] != nil {
		l[Queue].Max = min(l[Queue].Max, m.share)
	}
	return l
}

// check fails if the rules and the sentences differ.
func (m sentences) check(t failer, jobs []Job, slots int) []Decision {
	m.running = slices.Clone(m.running)
	limits := m.limits()
	got, want := limits.Decide(jobs, slots, now), m.decide(jobs, slots)
	if !slices.Equal(got, want) {
		text := fmt.Sprintf("limits %v, of the queue's %d here, %d started lately, %d slots\n", m.max, m.share, m.lately, slots)
		for _, j := range m.running {
			text += fmt.Sprintf("runs: weight %d %s\n", j.Weight, j.Group)
		}
		for i, j := range jobs {
			text += fmt.Sprintf("%+v\n   does %+v, should %+v\n", j, got[i], want[i])
		}
		t.Fatalf("%s", text)
	}
	for s := range m.max {
		closed := false
		for i, d := range want {
			closed = closed || jobs[i].Ours && d.Lacks == s
		}
		if limits.OursWait(s) != closed {
			t.Fatalf("%s is closed: %v: %+v", s, !closed, jobs)
		}
	}
	return got
}

// choices picks by a number between 0 and 1, in 64 bits. The numbers of evenly are spread as evenly as can be. So are the
// combinations of what is picked first, and of a few picks that follow one another.
type choices uint64

func (c *choices) of(n int) int {
	pick, rest := bits.Mul64(uint64(*c), uint64(n))
	*c = choices(rest)
	return int(pick)
}

func evenly(n int, f func(choices)) {
	for k := range n {
		f(choices(uint64(k) * 0x9E3779B97F4A7C15)) // the golden ratio
	}
}

func (c *choices) queue() sentences {
	m := sentences{max: map[Scope]int{}}
	for _, s := range []Scope{Queue, "a", "b"} {
		if n := c.of(5); n > 0 {
			m.max[s] = n
		}
	}
	if c.of(2) > 0 {
		m.max[Rate], m.lately = 2, c.of(3)
	}
	m.share = 4 - c.of(3)
	m.running = [][]Job{nil, {{Weight: 1, Group: "a"}}, {{Weight: 2}}, {{Weight: 1, Group: "b"}, {Weight: 0, Group: "a"}}}[c.of(4)]
	return m
}

func (c *choices) job() Job { return Job{Weight: c.of(4), Group: []Scope{None, "a", "b"}[c.of(3)]} }

// Whatever five jobs of two workers are in the queue, the rules do what their sentences say. All combinations are tried of limits
// (none to 4, for the queue and two groups), rate, share, slots and what runs. Each gets other jobs, in any order: they differ in
// weight, group and worker, are held or in line, were asked for lately, long ago or never, or are busy. Some have a closed window
// or an invalid row, are elsewhere, or have more of their group behind them than is known.
func TestRulesAreTheirSentences(t *testing.T) {
	states := []Job{
		{Ours: true},
		{Ours: true},
		{Ours: true, InLine: true, Asked: now.Add(-time.Second)},
		{Ours: true, InLine: true, Asked: now.Add(1 - time.Second)},
		{Ours: true, InLine: true, Asked: now.Add(-time.Minute)},
		{Ours: true, Held: true, Group: "a"},
		{Held: true, Group: "a"},
		{Held: true, Group: "b", Busy: true},
		{InLine: true, Asked: now.Add(1 - AskLasts)},
		{InLine: true, Asked: now.Add(-AskLasts)},
		{InLine: true, Asked: now.Add(-Forgotten)},
		{InLine: true, Asked: now, Busy: true},
		{InLine: true, Asked: now.Add(time.Hour)},
		{Elsewhere: true, InLine: true, Asked: now},
		{Elsewhere: true},
	}
	evenly(150_000, func(c choices) {
		m, slots, jobs := c.queue(), c.of(4), make([]Job, 5)
		for i := range jobs {
			one := c.job()
			jobs[i] = states[c.of(len(states))]
			if jobs[i].Weight = one.Weight; !jobs[i].Held {
				jobs[i].Group = one.Group
			}
		}
		if i := c.of(20); i < len(jobs) {
			jobs[i].Unread = jobs[i].Group
		}
		if i := c.of(10); i < len(jobs) {
			jobs[i].Opens = now.Add(time.Hour)
		}
		if i := c.of(20); i < len(jobs) {
			jobs[i].Invalid = true
		}
		m.check(t, jobs, slots)
	})
}

// world is a queue with workers for one type of jobs each. They share only what the store keeps: who stands in a line, and when
// it was asked for.
type world struct {
	sentences
	clock  time.Duration
	jobs   []placed
	slots  []int           // of each worker
	starts []time.Duration // for the rate, whose period is a second
}

type placed struct {
	Job
	of    int           // its worker
	asked time.Duration // when it was asked for
	scope Scope         // where it waits, as it was told
	state string
}

type failer interface{ Fatalf(string, ...any) }

func (w *world) copy() *world {
	other := *w
	other.jobs, other.starts = slices.Clone(w.jobs), slices.Clone(w.starts)
	return &other
}

// running are the places of running jobs.
func (w *world) running() (list []int) {
	w.sentences.running, w.lately = nil, 0
	for i, p := range w.jobs {
		if p.state == "runs" {
			list, w.sentences.running = append(list, i), append(w.sentences.running, p.Job)
		}
	}
	for _, at := range w.starts {
		if w.clock-at < time.Second {
			w.lately++
		}
	}
	return list
}

func (w *world) free(worker int) int {
	n := w.slots[worker]
	for _, i := range w.running() {
		if w.jobs[i].of == worker {
			n--
		}
	}
	return n
}

// round is a worker's round. It sees its own jobs, those of others that stand in a line, and the first that a group holds of each.
func (w *world) round(t failer, worker int) (started int) {
	var jobs []Job
	var at []int
	type owner struct {
		of    int
		group Scope
	}
	seen := map[owner]bool{}
	for i, p := range w.jobs {
		before := seen[owner{p.of, p.Group}]
		seen[owner{p.of, p.Group}] = before || p.state == "" && (p.Held || p.InLine)
		if j := p.Job; p.state == "" && (p.of == worker || p.InLine || p.Held && !before) {
			if j.Ours = p.of == worker; p.InLine {
				j.Asked = now.Add(p.asked - w.clock)
			}
			jobs, at = append(jobs, j), append(at, i)
		}
	}
	for i, d := range w.check(t, jobs, w.free(worker)) {
		p := &w.jobs[at[i]]
		if d.Lacks != None && d.Lacks != Slot {
			p.scope = d.Lacks
		}
		switch d.Action {
		case Start:
			w.overtakesNone(t, at[i], at)
			p.state, p.Held, p.InLine, w.starts = "runs", false, false, append(w.starts, w.clock)
			started++
		case Release:
			p.Held, p.InLine = false, false
		case Unask:
			p.Held, p.InLine, p.asked = false, true, w.clock-AskLasts
		case Hold:
			p.Held, p.InLine = true, false
		case LineUp:
			p.Held, p.InLine, p.asked = false, true, w.clock
		}
	}
	w.running()
	for s, n := range w.max { // only one that is heavier than the limit is above it, and alone
		alone := slices.ContainsFunc(w.sentences.running, func(j Job) bool { return uses(j, s) == w.used(s) })
		if w.used(s) > n && !alone {
			t.Fatalf("%d of %d in use of %s: %+v", w.used(s), n, s, w)
		}
	}
	return started
}

// overtakesNone fails if a job that waits for one of this job's limits is before it. The round has seen these.
func (w *world) overtakesNone(t failer, starts int, seen []int) {
	for i, p := range w.jobs[:starts] {
		asked := p.of == w.jobs[starts].of || p.Held && slices.Contains(seen, i) || !p.Held && w.clock-p.asked < AskLasts
		if p.state == "" && (p.Held || p.InLine) && asked && uses(w.jobs[starts].Job, p.scope) > 0 {
			t.Fatalf("job %d overtakes %+v: %+v", starts, p, w)
		}
	}
}

// rest has rounds of all workers with free slots, until they start nothing. Then nothing may start by the sentences, if one
// worker with all of these slots looked; or a job waits for those of workers without, at most for AskLasts each.
func (w *world) rest(t failer) {
	tries := len(w.jobs)
	for idle := false; !idle; {
		idle = true
		for worker := range w.slots {
			idle = (w.free(worker) < 1 || w.round(t, worker) < 1) && idle
		}
		var jobs []Job
		waits := false
		for _, p := range w.jobs {
			if p.Ours = w.free(p.of) > 0; p.state == "" && p.Ours {
				p.Held, p.InLine = false, false
				jobs = append(jobs, p.Job)
			}
			waits = waits || p.state == "" && (p.Held || p.InLine) && !p.Ours
		}
		stands := idle && slices.ContainsFunc(w.decide(jobs, 1), func(d Decision) bool { return d.Action == Start })
		if stands && (tries == 0 || !waits) {
			t.Fatalf("something should start: %+v", w)
		}
		if stands {
			tries, idle, w.clock = tries-1, false, w.clock+AskLasts
		}
	}
}

// drain ends what runs until nothing is left: the next ones start each time.
func (w *world) drain(t failer) {
	for range w.jobs {
		for _, i := range w.running() {
			w.jobs[i].state = "ended"
		}
		w.clock += time.Second
		w.rest(t)
	}
	for _, p := range w.jobs {
		if p.state != "ended" && p.state != "runs" && !p.Opens.After(now) {
			t.Fatalf("never started: %+v: %+v", p, w)
		}
	}
}

// Two workers have rounds in turn, for jobs of different types, and after each round any set of the running jobs ends. In each
// of these ways the limits hold, no waiting job is overtaken, no slot is idle, and all jobs start in the end.
func TestWorkersShareLines(t *testing.T) {
	var play func(w *world, rounds int)
	play = func(w *world, rounds int) {
		if rounds == 0 {
			w.rest(t)
			w.drain(t)
			return
		}
		w.clock += 400 * time.Millisecond
		if w.free(rounds%2) > 0 {
			w.round(t, rounds%2)
		}
		running := w.running()
		for ends := range 1 << len(running) {
			next := w.copy()
			for bit, i := range running {
				if ends>>bit&1 > 0 {
					next.jobs[i].state = "ended"
				}
			}
			play(next, rounds-1)
		}
	}
	evenly(400, func(c choices) {
		w := &world{sentences: c.queue(), slots: []int{1 + c.of(3), 1 + c.of(2), 3}}
		w.share = 4
		for range 5 {
			w.jobs = append(w.jobs, placed{Job: c.job(), of: c.of(2)})
		}
		for _, j := range w.sentences.running {
			w.jobs = append(w.jobs, placed{Job: j, of: 2, state: "runs"})
		}
		w.starts = make([]time.Duration, w.lately)
		if i := c.of(10); i < 5 {
			w.jobs[i].Opens = now.Add(time.Hour)
		}
		play(w, 3)
	})
}

// A job for which its worker has no slot left doesn't line up, and holds up no other worker.
func TestNoLineWithoutASlot(t *testing.T) {
	w := &world{sentences: sentences{max: map[Scope]int{Queue: 2}, share: 2}, slots: []int{1, 1}}
	w.jobs = []placed{{Job: Job{Weight: 1}, of: 1}, {Job: Job{Weight: 2}, of: 1}, {Job: Job{Weight: 1}, of: 0}}
	if w.round(t, 1) != 1 || w.round(t, 0) != 1 {
		t.Errorf("one of each worker should run: %+v", w)
	}
}

// The same holds for any number of workers, jobs and rounds, with jobs that come before others, and workers that are away for long.
func TestRulesForLong(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{sentences: sentences{max: map[Scope]int{}, share: 99}, slots: rapid.SliceOfN(rapid.IntRange(1, 4), 1, 4).Draw(t, "slots")}
		for _, s := range []Scope{Queue, "a", "b", Rate} {
			if n := rapid.IntRange(0, 9).Draw(t, string(s)); n > 0 {
				w.max[s] = n
			}
		}
		worker := rapid.IntRange(0, len(w.slots)-1)
		job := rapid.Custom(func(t *rapid.T) placed {
			group := rapid.SampledFrom([]Scope{None, "a", "a", "b"}).Draw(t, "group")
			return placed{Job: Job{Weight: rapid.IntRange(0, 11).Draw(t, "weight"), Group: group}, of: worker.Draw(t, "worker")}
		})
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				w.jobs = slices.Insert(w.jobs, rapid.IntRange(0, len(w.jobs)).Draw(t, "at"), job.Draw(t, "job"))
			},
			"round": func(t *rapid.T) {
				if one := worker.Draw(t, "round"); w.free(one) > 0 {
					w.round(t, one)
				}
			},
			"end": func(t *rapid.T) {
				if running := w.running(); len(running) > 0 {
					w.jobs[rapid.SampledFrom(running).Draw(t, "ends")].state = "ended"
				}
			},
			"time": func(*rapid.T) { w.clock += 300 * time.Millisecond },
			"away": func(*rapid.T) { w.clock += AskLasts },
			"rest": func(t *rapid.T) { w.rest(t) },
		})
		w.drain(t)
	})
}

// A limit may be a share of a whole, and rows may contain anything.
func TestHasRoom(t *testing.T) {
	for _, c := range []struct {
		share, used, weight int
		want                bool
	}{
		{4, 1, 3, true},
		{4, 1, 4, false},
		{10, 0, 10, true},
		{10, 0, 11, true},
		{10, 1, 11, false},
		{9, 0, 11, false},
		{10, 0, math.MaxInt, true},
		{-5, 0, 1, false},
		{2, -5, 3, false},
		{6, 10, 1, false},
	} {
		limit := Limit{Whole: 10, Max: c.share, Used: c.used}
		if got := limit.HasRoom(c.weight); got != c.want {
			t.Errorf("%+v has room for %d: %v", limit, c.weight, got)
		}
	}
}
