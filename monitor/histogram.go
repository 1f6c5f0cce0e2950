package monitor

import (
	"fmt"
	"math/bits"
	"strings"
)

// histogram counts times by how long they are, in buckets: one for each millisecond up to exact, and above that perDoubling for
// each doubling, so that a bucket's middle is within 1/64 of each of its times. Since all have the same buckets, those of many
// hours add up without loss.
type histogram struct {
	// n are the buckets from first on.
	first int
	n     []int64
	// read are some more that are only there to be added to another histogram.
	read []bucket
}

type bucket struct {
	at int
	n  int64
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

// bucketSQL is bucketOf as an expression of both engines, about a column or another expression.
func bucketSQL(ms string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "CASE WHEN %s < 0 THEN 0 WHEN %s < %d THEN %s", ms, ms, exact, ms)
	for e := 1; e <= doublings; e++ {
		fmt.Fprintf(&b, " WHEN %s < %d THEN %d + (%s >> %d)", ms, int64(exact)<<e, e*perDoubling, ms, e)
	}
	fmt.Fprintf(&b, " ELSE %d END", buckets-1)
	return b.String()
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
func (h *histogram) put(at int, n int64) {
	if i := at - h.first; uint(i) >= uint(len(h.n)) {
		h.reach(at)
	}
	h.n[at-h.first] += n
}

// reach makes room for a bucket, and for some of its neighbours, which will come too.
func (h *histogram) reach(at int) {
	const stretch = 64
	from, to := at/stretch*stretch, (at/stretch+1)*stretch
	if len(h.n) > 0 {
		from, to = min(from, h.first), max(to, h.first+len(h.n))
	}
	n := make([]int64, to-from)
	if len(h.n) > 0 {
		copy(n[h.first-from:], h.n)
	}
	h.first, h.n = from, n
}

// add adds the times of another histogram.
func (h *histogram) add(o *histogram) {
	for i, n := range o.n {
		if n != 0 {
			h.put(o.first+i, n)
		}
	}
	for _, b := range o.read {
		h.put(b.at, b.n)
	}
}

// count is how many times are counted.
func (h *histogram) count() (all int64) {
	for _, n := range h.n {
		all += n
	}
	return all
}

// quantile is the time, in milliseconds, that this part of the times doesn't exceed; 0 where there is none.
func (h *histogram) quantile(part float64) int64 {
	all := h.count()
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
