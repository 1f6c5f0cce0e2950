package rules

import (
	"cmp"
	"slices"
)

// Demand is what one shard uses of a limit, or of a rate's starts, that the shards of a queue share, and what waits there.
type Demand struct {
	// Used counts against the limit now.
	Used int
	// Wants is the weight that waits besides; 0 is none. First is the weight of the first job that waits.
	Wants, First int
	// Since orders the shards in which jobs wait: the least comes first, then the one with the lower number.
	Since int64
}

// HasRoom says whether a job of this weight may start in a shard that has this share of the limit. One that is heavier than the
// whole limit needs all of it, and nothing else runs then.
func HasRoom(limit, share, used, weight int) bool { return min(weight, limit) <= share-max(used, 0) }

// Divide gives each shard its share of a limit. A share is less than what its shard uses where that should give room to others:
// then the shard starts nothing until enough of its jobs have ended. No other shard gets that room before, so the shares and what
// is used beyond them never exceed the limit. If the shards use more than the limit, nothing starts before they use less.
func Divide(limit int, demands []Demand) []int {
	d := lineUp(limit, demands)
	d.aim()
	shares := make([]int, len(demands))
	free := limit
	for _, p := range d.line {
		free -= p.used
	}
	for _, p := range d.line {
		share := min(p.target, max(p.used+free, 0))
		free -= max(share-p.used, 0)
		shares[p.shard] = share
	}
	return shares
}

// division is a limit, with the shards in line: first those in which jobs wait, the one that has waited longest before the others.
type division struct {
	limit, left int
	line        []*portion
}

// portion is a demand with its numbers made sound: none is below 0 or above the limit. target is what the shard should use.
type portion struct {
	shard, used, target int
	// want is what it would use in all. first is what its first job takes; 0 if none waits.
	want, first int
	since       int64
}

func lineUp(limit int, demands []Demand) *division {
	d := &division{limit: limit, left: limit}
	sound := func(n int) int { return min(max(n, 0), limit) }
	for i, of := range demands {
		p := &portion{shard: i, used: sound(of.Used), since: of.Since}
		if p.want = p.used; of.Wants > 0 {
			p.first = max(sound(of.First), 1)
			p.want = min(p.used+max(sound(of.Wants), p.first), limit)
		}
		d.line = append(d.line, p)
	}
	slices.SortStableFunc(d.line, func(a, b *portion) int {
		if a.first == 0 || b.first == 0 {
			return cmp.Compare(min(b.first, 1), min(a.first, 1))
		}
		return cmp.Compare(a.since, b.since)
	})
	return d
}

func (d *division) give(p *portion, n int) { p.target, d.left = p.target+n, d.left-n }

// aim gives each shard its target: all of the limit.
func (d *division) aim() {
	// The first job of the first in line gets its room beside what runs there, which may run for days. The others' first jobs get it
	// in the place of what runs, else the last in line would have nothing while all are busy.
	for i, p := range d.line {
		n := p.first
		if i == 0 && n > 0 {
			n = min(p.used+n, d.limit)
		}
		if n <= d.left {
			d.give(p, n)
		}
	}
	d.level()
	for _, p := range d.line { // what nobody wants is for those that come next, wherever that is
		p.want, p.first = d.limit, 1
	}
	d.level()
}

// level raises the targets evenly, the lowest first, up to what each shard wants. It does so in pieces of the first job's weight,
// because no job fits into a smaller one.
func (d *division) level() {
	for level := 0; ; {
		n, lowest := 0, d.limit
		for _, p := range d.line {
			if piece := min(max(p.first, 1), p.want-p.target); piece > 0 && piece <= d.left {
				n, lowest = n+1, min(lowest, p.target)
			}
		}
		if n == 0 {
			return
		}
		level = max(level, lowest) + max(d.left/n, 1)
		for _, p := range d.line {
			more := min(level, p.want) - p.target
			if more = min(more, d.left); p.target+more < p.want {
				more -= more % max(p.first, 1)
			}
			if more > 0 {
				d.give(p, more)
			}
		}
	}
}
