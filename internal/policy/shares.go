package policy

import (
	"cmp"
	"math"
	"slices"
)

// Demand is what one shard uses of a limit, or of a rate's starts, that the shards of a queue share, and what waits there.
type Demand struct {
	// Used counts against the limit now.
	Used int
	// Wants is the weight that waits in addition; 0 is none. First is the weight of the first job that waits.
	Wants, First int
	// Since orders the shards in which jobs wait: the least comes first, then the one with the lower number.
	Since int64
}

// HasRoom says whether a job of this weight may start in a shard that has this share of the limit. One that is heavier than the
// whole limit needs all of it, and nothing else runs then.
func HasRoom(limit, share, used, weight int) bool { return min(weight, limit) <= share-max(used, 0) }

// Divide gives each shard its share of a limit. A share is less than what its shard uses where that should give room to others:
// then the shard starts nothing until enough of its jobs have ended. No other shard gets that room before, so the shares and
// what is used beyond them never exceed the limit. If the shards use more than the limit, nothing starts before they use less.
func Divide(limit int, demands []Demand) []int {
	line, left := lineUp(limit, demands), limit
	// The first job of the first in line gets its room beside what runs there, which may run for days. The others' first jobs get
	// it instead of what runs, else the last in line would have nothing while all are busy.
	for i, p := range line {
		n := p.first
		if i == 0 && n > 0 {
			n = min(p.used+n, limit)
		}
		if n <= left {
			p.target, left = n, left-n
		}
	}
	left = level(line, left)
	for _, p := range line { // what is left is for the next jobs, in whichever shard
		p.want, p.first = limit, 1
	}
	level(line, left)
	free := limit
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

// level raises the targets evenly, the lowest first, up to what each shard wants, and gives what is left of n.
func level(line []*portion, n int) (left int) {
	for left = n; ; {
		var next *portion
		for _, p := range line {
			if least := p.piece(1); least > 0 && least <= left && (next == nil || p.target < next.target) {
				next = p
			}
		}
		if next == nil {
			return left
		}
		more := next.piece(left / len(line) / 2)
		next.target, left = next.target+more, left-more
	}
}

// piece is about n more, at least what the first job takes. No job fits into a part of that.
func (p *portion) piece(n int) int {
	first := max(p.first, 1)
	return min(max(n-n%first, first), p.want-p.target)
}
