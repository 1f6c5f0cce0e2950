package rules

import (
	"cmp"
	"math"
	"slices"
	"sort"
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
	line, free := lineUp(limit, demands), limit
	aim(limit, line)
	for _, p := range line {
		free -= p.used
	}
	shares := make([]int, len(demands))
	for _, p := range line {
		share := min(p.target, max(p.used+free, 0))
		free -= max(share-p.used, 0)
		shares[p.shard] = share
	}
	return shares
}

// portion is a demand with its numbers made sound: none is below 0 or above the limit. target is what the shard should use.
type portion struct {
	shard, used, target int
	// want is what it would use in all. first is what its first job takes; 0 if none waits.
	want, first int
	since       int64
}

// lineUp puts the shards in line: first those in which jobs wait, the one that has waited longest before the others.
func lineUp(limit int, demands []Demand) (line []*portion) {
	sound := func(n int) int { return min(max(n, 0), limit) }
	for i, of := range demands {
		p := &portion{shard: i, used: sound(of.Used), since: math.MaxInt64}
		if p.want = p.used; of.Wants > 0 {
			p.first, p.since = max(sound(of.First), 1), of.Since
			p.want = min(p.used+max(sound(of.Wants), p.first), limit)
		}
		line = append(line, p)
	}
	slices.SortStableFunc(line, func(a, b *portion) int { return cmp.Compare(a.since, b.since) })
	return line
}

// aim gives each shard its target: all of the limit.
func aim(limit int, line []*portion) {
	// The first job of the first in line gets its room beside what runs there, which may run for days. The others' first jobs get it
	// in the place of what runs, else the last in line would have nothing while all are busy.
	left := limit
	for i, p := range line {
		n := p.first
		if i == 0 && n > 0 {
			n = min(p.used+n, limit)
		}
		if n <= left {
			p.target, left = n, left-n
		}
	}
	level(limit, line)
	for _, p := range line { // what nobody wants is for those that come next, wherever that is
		p.want, p.first = limit, 1
	}
	level(limit, line)
}

// level raises the targets evenly, up to what each shard wants, as far as the limit goes.
func level(limit int, line []*portion) {
	left := func(level int) int {
		left := limit
		for _, p := range line {
			left -= p.at(level)
		}
		return left
	}
	most := sort.Search(limit, func(level int) bool { return left(level+1) < 0 })
	rest := left(most)
	for _, p := range line {
		low, high := p.at(most), p.at(most+1)
		if p.target = low; high-low <= rest {
			p.target, rest = high, rest-(high-low)
		}
	}
}

// at is the target that is raised to a level: in pieces of the first job's weight, because no job fits into a smaller one.
func (p *portion) at(level int) int {
	switch {
	case level <= p.target:
		return p.target
	case level >= p.want:
		return max(p.want, p.target)
	}
	return level - (level-p.target)%max(p.first, 1)
}
