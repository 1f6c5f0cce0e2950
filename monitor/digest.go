package monitor

import (
	"encoding/binary"
	"hash/crc32"
	"maps"
	"math"
	"slices"
	"strings"
)

// A digest is an hour's counts once more, with their histograms, as one value: a report over two weeks reads some hundred of
// them, where it would read the rows of each queue and job type of each hour, a hundred thousand perhaps. It is a version, a
// checksum, and then for each row the queue and the job type, how long the rest is, the numbers, and the buckets of the two
// histograms, all as varints.

const (
	// digestVersion is the form of digests. For hours with another there are the rows, which have no histograms.
	digestVersion = 1
	digestHead    = 1 + 4
)

// encode makes the digest of an hour.
func (m metrics) encode() []byte {
	text := make([]byte, digestHead)
	var rest []byte
	names := slices.SortedFunc(maps.Keys(m.rows), func(a, b key) int {
		return 2*strings.Compare(a.queue, b.queue) + strings.Compare(a.jobType, b.jobType)
	})
	for _, k := range names {
		r := m.rows[k]
		if r.entries() == 0 {
			continue
		}
		text = appendText(appendText(text, k.queue), k.jobType)
		rest = rest[:0]
		for _, n := range r.numbers() {
			rest = binary.AppendVarint(rest, *n)
		}
		rest = appendHistogram(appendHistogram(rest, &r.Wait.histogram), &r.Run.histogram)
		text = append(binary.AppendUvarint(text, uint64(len(rest))), rest...)
	}
	return withChecksum(text)
}

// withChecksum fills in a digest's head.
func withChecksum(text []byte) []byte {
	text[0] = digestVersion
	binary.BigEndian.PutUint32(text[1:], crc32.ChecksumIEEE(text[digestHead:]))
	return text
}

func appendText(to []byte, text string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

// A bucket of a histogram is told by how far it is from the last, its step, and how many times are in it: in one byte where both
// are small, as most are, else as a step below far and a varint, or as far and two varints.
const (
	smallStep  = 1 << 5 // steps below it
	smallCount = 1 << 2 // and counts up to it
	long       = smallStep * smallCount
	far        = 256 - long - 1
)

// appendHistogram appends how many buckets have something, the first of them and how far the last is from it, and then each.
func appendHistogram(to []byte, h *histogram) []byte {
	used, first, last := 0, 0, 0
	for i, n := range h.n {
		if n > 0 {
			if used++; used == 1 {
				first = h.first + i
			}
			last = h.first + i
		}
	}
	to = binary.AppendUvarint(to, uint64(used))
	if used == 0 {
		return to
	}
	to = binary.AppendUvarint(binary.AppendUvarint(to, uint64(first)), uint64(last-first))
	at := first
	for i, n := range h.n {
		if n <= 0 {
			continue
		}
		step := h.first + i - at
		switch {
		case step < smallStep && n <= smallCount:
			to = append(to, byte(step*smallCount)|byte(n-1))
		case step < far:
			to = binary.AppendUvarint(append(to, byte(long+step)), uint64(n))
		default:
			to = binary.AppendUvarint(binary.AppendUvarint(append(to, long+far), uint64(step)), uint64(n))
		}
		at += step
	}
	return to
}

// numbers are what a digest has of a row besides its histograms.
func (r *metric) numbers() []*int64 {
	return []*int64{
		&r.Added, &r.Counts.Started, &r.Counts.Finished, &r.Errors, &r.Failed, &r.Workers.Started, &r.Workers.Finished, &r.Died,
		&r.Wait.Count, &r.Wait.SumMS, &r.Wait.MinMS, &r.Wait.MaxMS, &r.Run.Count, &r.Run.SumMS, &r.Run.MinMS, &r.Run.MaxMS,
	}
}

// openDigest is false if the text is no digest of this version.
func openDigest(text []byte) (digest, bool) {
	if len(text) < digestHead || text[0] != digestVersion || binary.BigEndian.Uint32(text[1:]) != crc32.ChecksumIEEE(text[digestHead:]) {
		return digest{}, false
	}
	return digest{text: text[digestHead:]}, true
}

// digest is what is left of a digest, or of a row, that is being read.
type digest struct {
	text []byte
	bad  bool
}

func (d *digest) number() uint64 {
	if len(d.text) > 0 && d.text[0] < 0x80 { // most are
		v := d.text[0]
		d.text = d.text[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(d.text)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.text = d.text[n:]
	return v
}

// numbers reads some that may be negative.
func (d *digest) numbers(to []*int64) {
	for _, n := range to {
		v, size := binary.Varint(d.text)
		if size <= 0 {
			d.fail()
			return
		}
		*n, d.text = v, d.text[size:]
	}
}

// part is a text, or a row's rest.
func (d *digest) part() []byte {
	n := d.number()
	if n > uint64(len(d.text)) {
		d.fail()
		return nil
	}
	text := d.text[:n]
	d.text = d.text[n:]
	return text
}

// queue is that of the next row; false at the end.
func (d digest) queue() ([]byte, bool) {
	queue := d.part()
	return queue, !d.bad
}

// addRow adds the next row to each metric that these give for it.
func (d *digest) addRow(to []metricOf) {
	queue, jobType, rest := d.part(), d.part(), d.part()
	if d.bad {
		return // a hand has made it, checksum and all
	}
	var counted metric
	row := digest{text: rest}
	read := false
	for _, of := range to {
		r := of(queue, jobType)
		if r == nil {
			continue
		}
		if !read {
			row.numbers(counted.numbers())
			read = true
		}
		r.add(&counted)
		times := row
		times.addTo(&r.Wait.histogram)
		times.addTo(&r.Run.histogram)
	}
}

// addTo adds a row's histogram to another.
func (d *digest) addTo(h *histogram) {
	used := d.number()
	if used == 0 {
		return
	}
	first, size := d.number(), d.number()+1
	if first >= buckets || size > buckets-first {
		d.fail()
		return
	}
	into := h.part(int(first), int(first+size))
	for at := uint64(0); used > 0 && !d.bad; used-- {
		text := d.text[:min(used, uint64(len(d.text)))]
		n := 0
		for n < len(text) && text[n] < long { // a report spends most of its time here
			if at += uint64(text[n] / smallCount); at >= uint64(len(into)) {
				d.fail()
				return
			}
			into[at] += int64(text[n]%smallCount) + 1
			n++
		}
		d.text, used = d.text[n:], used-uint64(n)
		if used == 0 {
			return
		}
		step, count := d.step(), d.number()
		if at += step; at >= uint64(len(into)) || count > math.MaxInt64 {
			d.fail()
			return
		}
		into[at] += int64(count)
	}
}

// step is how far a bucket is from the last whose count follows.
func (d *digest) step() uint64 {
	if len(d.text) == 0 {
		d.fail()
		return 0
	}
	step := uint64(d.text[0]) - long
	if d.text = d.text[1:]; step == far {
		step = min(d.number(), buckets)
	}
	return step
}

// fail says that the digest makes no sense from here on.
func (d *digest) fail() { d.text, d.bad = nil, true }
