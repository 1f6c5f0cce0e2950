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

// addDigest adds each row of an hour's digest to that which into gives for it, if it does. It is false, and nothing was added, if
// the text is no digest of this version.
func addDigest(text []byte, into func(queue, jobType []byte) *metric) bool {
	if len(text) < digestHead || text[0] != digestVersion || binary.BigEndian.Uint32(text[1:]) != crc32.ChecksumIEEE(text[digestHead:]) {
		return false
	}
	rows := digest{text: text[digestHead:]}
	var counted metric
	numbers := counted.numbers()
	for len(rows.text) > 0 {
		queue, jobType, rest := rows.part(), rows.part(), rows.part()
		if rows.bad {
			break // a hand has made it, checksum and all
		}
		if r := into(queue, jobType); r != nil {
			row := digest{text: rest}
			for _, n := range numbers {
				*n = row.signed()
			}
			r.add(&counted)
			row.addTo(&r.Wait.histogram)
			row.addTo(&r.Run.histogram)
		}
	}
	return true
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

func (d *digest) signed() int64 {
	u := d.number()
	return int64(u>>1) ^ -int64(u&1)
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
	at, text := uint64(0), d.text // a copy, since a report spends most of its time here
	for ; used > 0 && len(text) > 0; used-- {
		b := uint64(text[0])
		text = text[1:]
		n := b%smallCount + 1
		if b < long {
			at += b / smallCount
		} else {
			d.text = text
			step := b - long
			if step == far {
				step = min(d.number(), buckets)
			}
			at += step
			n = d.number()
			text = d.text
		}
		if at >= uint64(len(into)) || n > math.MaxInt64 {
			break
		}
		into[at] += int64(n)
	}
	if d.text = text; used > 0 {
		d.fail()
	}
}

// fail says that the digest makes no sense from here on.
func (d *digest) fail() { d.text, d.bad = nil, true }
