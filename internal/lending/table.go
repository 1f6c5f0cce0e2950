package lending

import (
	"cmp"
	"slices"
)

// table are all parts of a limit.
type table struct {
	limit int
	line  []share // first those that ask, who has waited longest before the others; then the others, by number
	asks  int     // how many of them ask
}

// share is a part with its numbers made sound: none of them is below 0 or above the limit.
type share struct {
	*Part
	used  int
	home  int // what is the part's own when all ask for theirs
	first int // what its first job takes: all of the limit at most
	want  int // what it would use in all, if it could
}

func (s share) asks() bool { return s.Demand > 0 }

func newTable(limit int, parts []Part) table {
	t := table{limit: max(limit, 0)}
	sound := func(n int) int { return min(max(n, 0), t.limit) }
	for i := range parts {
		s := share{Part: &parts[i], home: t.limit / len(parts)}
		if i < t.limit%len(parts) {
			s.home++
		}
		s.used = sound(s.Used)
		s.want = s.used
		if s.asks() {
			s.first = max(sound(s.First), 1)
			s.want = plus(s.used, max(sound(s.Demand), s.first), t.limit)
			t.asks++
		}
		t.line = append(t.line, s)
	}
	slices.SortStableFunc(t.line, func(a, b share) int {
		switch {
		case a.asks() && b.asks():
			return cmp.Compare(a.Since, b.Since)
		case a.asks():
			return -1
		case b.asks():
			return 1
		}
		return 0
	})
	return t
}

// plus is a sum of two numbers that are not below 0, and at most top.
func plus(a, b, top int) int {
	if a >= top || b >= top-a {
		return top
	}
	return a + b
}

// isWhole says whether the capacities are the limit, and none is exceeded.
func (t table) isWhole() bool {
	left := t.limit
	for _, s := range t.line {
		if s.Capacity < s.used || s.Capacity > left {
			return false
		}
		left -= s.Capacity
	}
	return left == 0
}

// divide gives capacity to what is used. The first in line comes last: it has what is left then.
func (t table) divide() {
	left := t.limit
	for _, s := range t.line[1:] {
		s.Capacity = min(s.used, left)
		left -= s.Capacity
	}
	t.line[0].Capacity = left
}

// aim gives each part its target.
func (t table) aim() {
	left := t.limit
	give := func(s share, upTo int) {
		n := min(max(upTo-s.Target, 0), left)
		s.Target += n
		left -= n
	}
	askers, others := t.line[:t.asks], t.line[t.asks:]
	for _, s := range t.line {
		s.Target = 0
	}
	// The first job of each that asks, where it fits: that of the first in line always does, so a job that takes the whole limit
	// gets it in the end. It gets it beside what runs there, which may run for days; the others get it in its place, else the last in
	// line would have nothing at all when all are busy.
	for i, s := range askers {
		n := s.first
		if i == 0 {
			n = plus(s.used, s.first, t.limit)
		}
		if n <= left {
			give(s, n)
		}
	}
	// What is a part's own, as far as it has a use for it.
	for _, s := range t.line {
		give(s, min(s.home, s.want))
	}
	// The rest to those that ask, evenly, by jobs of the weight of the first: a piece that no job fits into would lie idle.
	for times := t.times(left); times > 0; times = t.times(left) {
		for _, s := range askers {
			if n := min(times*s.first, s.want-s.Target); n <= left {
				give(s, s.Target+n)
			}
		}
	}
	for _, s := range askers {
		give(s, s.want)
	}
	// To the others what they use, what is their own, and what they have anyway.
	for _, s := range others {
		give(s, s.used)
	}
	for _, s := range others {
		give(s, min(s.home, s.Capacity))
	}
	for _, s := range others {
		give(s, s.home)
	}
	for _, s := range t.line {
		give(s, s.Capacity)
	}
	t.wait()
}

// times is how many of its first jobs each part that asks may have of what is left, if any: those whose first job fits and who want
// more.
func (t table) times(left int) int {
	sum := 0
	for _, s := range t.line[:t.asks] {
		if n := min(s.first, s.want-s.Target); n > 0 && n <= left {
			sum = plus(sum, s.first, t.limit)
		}
	}
	if sum == 0 {
		return 0
	}
	return max(left/sum, 1)
}

// wait lets nothing start before the parts use less than the limit, where they use more: what a part may start jobs in is at most
// what the others leave of the limit. What is left of the targets goes to the first in line, whose capacity is no more than that.
func (t table) wait() {
	over, left := false, t.limit
	for _, s := range t.line {
		over = over || s.used > s.Capacity
	}
	if !over {
		return
	}
	for i, s := range t.line[1:] {
		mine := t.limit
		for k, other := range t.line {
			if k != i+1 {
				mine -= min(mine, other.used)
			}
		}
		s.Target = min(s.Target, mine)
		left -= s.Target
	}
	t.line[0].Target = left
}

// move takes what is free beyond the target of a part to those that have less than theirs, in line.
func (t table) move() {
	free := 0
	for _, s := range t.line {
		n := max(s.Capacity-max(s.Target, s.used), 0)
		s.Capacity -= n
		free += n
	}
	for _, s := range t.line {
		n := min(max(s.Target-s.Capacity, 0), free)
		s.Capacity += n
		free -= n
	}
}
