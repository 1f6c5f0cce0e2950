package monitor

import (
	"math"
	"math/bits"
	"slices"
)

// histogram counts times by how long they are, in buckets: one for each millisecond up to exact, and above that perDoubling for
// each doubling, so that a bucket's middle is within 1/64 of each of its times. Since all have the same buckets, those of many
// hours add up without loss.
type histogram struct {
	// n are the buckets from first on.
	first int
	n     []int64
}

const (
	exact       = 64
	perDoubling = exact / 2
	// doublings end at some 34 years; what is longer counts for that.
	doublings = 34
	buckets   = exact + doublings*perDoubling
)

// bucketOf is the bucket of a time in milliseconds.
func bucketOf(ms int64) int {
	if ms < exact {
		return int(max(ms, 0))
	}
	e := bits.Len64(uint64(ms)) - bits.Len(exact-1) // how many of the last bits don't count
	if e > doublings {
		return buckets - 1
	}
	return e*perDoubling + int(ms>>e)
}

// middleOf is the time, in milliseconds, that stands for all of a bucket.
func middleOf(at int) int64 {
	if at < exact {
		return int64(at)
	}
	e := at/perDoubling - 1
	return int64(at-e*perDoubling)<<e + (int64(1)<<e-1)/2
}

// put counts n times more in a bucket.
func (h *histogram) put(at int, n int64) { h.part(at, at+1)[0] += n }

// part are the buckets in [from, to), for which it makes room first, and for some of their neighbours, which will come too.
func (h *histogram) part(from, to int) []int64 {
	if from < h.first || to > h.first+len(h.n) {
		h.reach(from, to)
	}
	return h.n[from-h.first : to-h.first]
}

func (h *histogram) reach(from, to int) {
	const stretch = 64
	from, to = from/stretch*stretch, (to+stretch-1)/stretch*stretch
	if len(h.n) > 0 {
		from, to = min(from, h.first), max(to, h.first+len(h.n))
	}
	n := make([]int64, to-from)
	copy(n[max(h.first-from, 0):], h.n)
	h.first, h.n = from, n
}

// add adds the times of another histogram.
func (h *histogram) add(o *histogram) {
	switch {
	case len(o.n) == 0:
	case len(h.n) == 0:
		h.first, h.n = o.first, slices.Clone(o.n)
	default:
		into := h.part(o.first, o.first+len(o.n))[:len(o.n)]
		for i, n := range o.n {
			into[i] += n
		}
	}
}

// percentiles are the times, in milliseconds, that 50, 95 and 99 of a hundred don't exceed. It is false if there are not as many
// times as all.
func (h *histogram) percentiles(all int64) (ms [3]int64, ok bool) {
	var ranks [len(ms)]int64
	for i, part := range [len(ms)]float64{0.5, 0.95, 0.99} {
		ranks[i] = int64(math.Ceil(part * float64(all)))
	}
	var counted int64
	found := 0
	for i, n := range h.n {
		counted += n
		for ; found < len(ms) && counted >= ranks[found]; found++ {
			ms[found] = middleOf(h.first + i)
		}
	}
	return ms, counted == all
}
