package monitor

import (
	"math/bits"
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
	if len(o.n) == 0 {
		return
	}
	into := h.part(o.first, o.first+len(o.n))
	for i, n := range o.n {
		into[i] += n
	}
}

// count is how many times are counted.
func (h *histogram) count() (all int64) {
	for _, n := range h.n {
		all += n
	}
	return all
}

// quantile is the time, in milliseconds, that this part of the times, of which there are so many, doesn't exceed; 0 where there is
// none.
func (h *histogram) quantile(part float64, all int64) int64 {
	rank := int64(part * float64(all))
	if float64(rank) < part*float64(all) {
		rank++
	}
	for i, n := range h.n {
		if rank -= n; rank <= 0 {
			return middleOf(h.first + i)
		}
	}
	return 0
}
