package policy

import (
	"cmp"
	"math"
	"slices"
)

// Demand is what one shard uses of a limit, or of a rate's starts, that a queue's shards share, and what waits there.
type Demand struct {
	// Used counts against the limit now.
	Used int
	// Wants is the additional weight that waits; 0 is none. First is the weight of the first waiting job.
	Wants, First int
	// Since orders the shards with waiting jobs: the lowest comes first, then the lower shard number.
	Since int64
}

// Divide returns each shard's share of a limit. A share may be smaller than what its shard uses, to make room for others: the
// shard then starts nothing until enough of its jobs have ended. Others get that room only then, so shares and excess use
// never exceed the limit. If the shards use more than the limit, nothing starts until they use less.
func Divide(limit int, demands []Demand) []int {
	line, left := neediestFirst(limit, demands), limit
	// The first in line gets room for its first job on top of its running jobs, which may run for days. The others' first
	// jobs replace running ones: otherwise the last in line would get nothing while all are busy.
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
	for _, p := range line { // unwanted room goes to the next jobs, in any shard
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

// portion is a demand with numbers clamped to 0 and the limit. target is what the shard should use.
type portion struct {
	shard, used, target int
	// want is what it would use in total. first is what its first job takes; 0 if none waits.
	want, first int
	since       int64
}

// neediestFirst orders the shards: those with waiting jobs first, by how long they have waited.
func neediestFirst(limit int, demands []Demand) (line []*portion) {
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

// level raises the targets evenly, lowest first, up to each shard's want. It returns what is left of n.
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

// piece is about n more, but at least the first job's weight: no job fits into less.
func (p *portion) piece(n int) int {
	first := max(p.first, 1)
	return min(max(n-n%first, first), p.want-p.target)
}
