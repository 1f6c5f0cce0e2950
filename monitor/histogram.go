package monitor

import (
	"database/sql/driver"
	"encoding/binary"
	"math"
	"math/bits"
)

// histogram counts times in buckets: one for each millisecond below exact, then perDoubling for each doubling. So a
// bucket's middle is within 1/64 of each of its times. All histograms have the same buckets, so hours merge without
// loss.
type histogram []int64

const (
	exact       = 64
	perDoubling = exact / 2
	// doublings covers up to about 34 years; longer times count as that.
	doublings = 34
	buckets   = exact + doublings*perDoubling
)

func bucketOf(ms int64) int {
	if ms < exact {
		return int(max(ms, 0))
	}
	e := bits.Len64(uint64(ms)) - bits.Len(exact-1) // how many low bits are dropped
	if e > doublings {
		return buckets - 1
	}
	return e*perDoubling + int(ms>>e)
}

// middleOf returns the time, in milliseconds, that stands for all times of a bucket.
func middleOf(bucket int) int64 {
	if bucket < exact {
		return int64(bucket)
	}
	e := bucket/perDoubling - 1
	return int64(bucket-e*perDoubling)<<e + (int64(1)<<e-1)/2
}

func (h *histogram) put(bucket int, n int64) { h.upTo(bucket + 1)[bucket] += n }

// upTo returns the first n buckets. It allocates in steps of exact, because the next buckets will soon be needed.
func (h *histogram) upTo(n int) []int64 {
	if n > len(*h) {
		*h = append(*h, make([]int64, (n+exact-1)/exact*exact-len(*h))...)
	}
	return (*h)[:n]
}

func (h *histogram) add(o histogram) {
	into := h.upTo(len(o))
	for bucket, n := range o {
		into[bucket] += n
	}
}

// percentiles returns the 50th, 95th and 99th percentile in milliseconds. ok is false if the histogram has fewer times
// than all.
func (h histogram) percentiles(all int64) (ms [3]int64, ok bool) {
	var ranks [len(ms)]int64
	for i, part := range [len(ms)]float64{0.5, 0.95, 0.99} {
		ranks[i] = int64(math.Ceil(part * float64(all)))
	}
	var counted int64
	found := 0
	for bucket, n := range h {
		counted += n
		for ; found < len(ms) && counted >= ranks[found]; found++ {
			ms[found] = middleOf(bucket)
		}
	}
	return ms, counted == all
}

// longer is how many times are longer than ms, to the precision of the buckets.
func (h histogram) longer(ms int64) (n int64) {
	for _, count := range h[min(len(h), bucketOf(ms)+1):] {
		n += count
	}
	return n
}

// Value implements driver.Valuer. A bucket that isn't empty is two varints: distance and count.
func (h histogram) Value() (driver.Value, error) {
	text, last := []byte{}, 0
	for bucket, n := range h {
		if n > 0 {
			text = binary.AppendUvarint(binary.AppendUvarint(text, uint64(bucket-last)), uint64(n))
			last = bucket
		}
	}
	return text, nil
}

// Scan implements sql.Scanner. It stops at invalid text, which leaves no percentiles.
func (h *histogram) Scan(src any) error {
	*h = (*h)[:0]
	text, _ := src.([]byte)
	for bucket := uint64(0); len(text) > 0; {
		distance, size := binary.Uvarint(text)
		n, more := binary.Uvarint(text[max(size, 0):])
		if size <= 0 || more <= 0 || distance >= buckets-bucket || n > math.MaxInt32 {
			break
		}
		bucket += distance
		h.put(int(bucket), int64(n))
		text = text[size+more:]
	}
	return nil
}
