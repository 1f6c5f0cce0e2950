package rules

import (
	"cmp"
	"slices"
)

// Share is what one shard has of a limit, or of a rate's starts, that is divided among the shards of a queue.
type Share struct {
	// Has is what the shard holds. What all shards hold adds up to the limit.
	Has int
	// Target is what the shard should hold. It starts nothing beyond the lesser of both, so what it should give away becomes free as its
	// jobs end.
	Target int
	// Used counts against the limit now.
	Used int
	// Wants is the weight that waits there besides; 0 is none. First is the weight of the first job that waits.
	Wants, First int
	// Since orders the shards that want more: the least comes first, then the one with the lower number.
	Since int64
}

// Allows says whether a job of this weight may start in a shard: it fits into the lesser of what it has and its target, or it is heavier than
// the whole limit, which the shard has all of, and nothing else runs.
func (s Share) Allows(limit, weight int) bool {
	room, used := min(s.Has, s.Target), max(s.Used, 0)
	if weight > limit {
		return used == 0 && room >= limit
	}
	return weight <= room-used
}

// Divide gives each share its target, and moves what no shard uses towards the targets. A share never gives away what is in use,
// and the shares add up to the limit before and after. Where they don't, because the limit has changed or a hand has written there,
// they are made anew: what is used comes first. Where the shards use more than the limit, nothing starts before they use less.
func Divide(limit int, shares []Share) {
	if len(shares) == 0 {
		return
	}
	d := newDivision(max(limit, 0), shares)
	d.settle()
	d.aim()
	d.move()
	d.bound()
}

// division is a limit with the shares in line: first those that want more, the one that has waited longest before the others.
type division struct {
	limit   int
	line    []*portion
	wanting int
}

// portion is a share with its numbers made sound: none is below 0 or above the limit.
type portion struct {
	*Share
	used int
	// home is the shard's part if all shards have the same. want is what it would use in all, first what its first job takes.
	home, want, first int
}

func newDivision(limit int, shares []Share) division {
	d := division{limit: limit}
	sound := func(n int) int { return min(max(n, 0), limit) }
	for i := range shares {
		p := &portion{Share: &shares[i], home: limit / len(shares)}
		if i < limit%len(shares) {
			p.home++
		}
		p.used = sound(p.Used)
		if p.want = p.used; p.Wants > 0 {
			p.first = max(sound(p.First), 1)
			p.want = min(p.used+max(sound(p.Wants), p.first), limit)
			d.wanting++
		}
		d.line = append(d.line, p)
	}
	slices.SortStableFunc(d.line, func(a, b *portion) int {
		if by := cmp.Compare(b.first, 0) - cmp.Compare(a.first, 0); by != 0 || a.first == 0 {
			return by
		}
		return cmp.Compare(a.Since, b.Since)
	})
	return d
}

// settle makes shares of the limit anew where they don't add up to it, or one is exceeded.
func (d division) settle() {
	left := d.limit
	for _, p := range d.line {
		if p.Has < p.used || p.Has > left {
			left = -1
			break
		}
		left -= p.Has
	}
	if left == 0 {
		return
	}
	left = d.limit
	for _, p := range d.line[1:] {
		p.Has = min(p.used, left)
		left -= p.Has
	}
	d.line[0].Has = left
}

// aim gives each share its target.
func (d division) aim() {
	left := d.limit
	give := func(p *portion, upTo int) {
		n := min(max(upTo-p.Target, 0), left)
		p.Target, left = p.Target+n, left-n
	}
	for _, p := range d.line {
		p.Target = 0
	}
	// The first job of the first in line gets its room beside what runs there, which may run for days. The others' first jobs get it
	// in the place of what runs, else the last in line would have nothing while all are busy.
	for i, p := range d.line[:d.wanting] {
		n := p.first
		if i == 0 {
			n = min(p.used+p.first, d.limit)
		}
		if n <= left {
			give(p, n)
		}
	}
	for _, p := range d.line {
		give(p, min(p.home, p.want))
	}
	// The rest goes to those that want more, evenly, in pieces of the first job's weight: no job fits into a smaller one.
	for {
		var fitting []*portion
		sum := 0
		for _, p := range d.line[:d.wanting] {
			if n := min(p.first, p.want-p.Target); n > 0 && n <= left {
				fitting, sum = append(fitting, p), sum+p.first
			}
		}
		if len(fitting) == 0 {
			break
		}
		times := max(left/sum, 1)
		for _, p := range fitting {
			if n := min(times*p.first, p.want-p.Target); n <= left {
				give(p, p.Target+n)
			}
		}
	}
	for _, p := range d.line {
		give(p, p.want)
	}
	for _, p := range d.line {
		give(p, p.home)
	}
	d.line[0].Target += left
}

// move moves what a share has beyond its target and doesn't use to those that have less than theirs, in line.
func (d division) move() {
	free := 0
	for _, p := range d.line {
		n := max(p.Has-max(p.Target, p.used), 0)
		p.Has, free = p.Has-n, free+n
	}
	for _, p := range d.line {
		n := min(max(p.Target-p.Has, 0), free)
		p.Has, free = p.Has+n, free-n
	}
}

// bound lowers the targets where shards use more than they hold: none exceeds what the others leave of the limit.
func (d division) bound() {
	used, over := 0, false
	for _, p := range d.line {
		used, over = used+p.used, over || p.used > p.Has
	}
	for _, p := range d.line {
		if over {
			p.Target = min(p.Target, max(d.limit-(used-p.used), 0))
		}
	}
}
