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
// checksum, and then for each row the queue and the job type, the numbers, and the buckets of the two histograms, all as varints.

const (
	// digestVersion is the form of digests. For hours with another there are the rows, which have no histograms.
	digestVersion = 1
	digestHead    = 1 + 4
)

// encode makes the digest of an hour.
func (m metrics) encode() []byte {
	text := make([]byte, digestHead)
	names := slices.SortedFunc(maps.Keys(m.rows), func(a, b key) int {
		return 2*strings.Compare(a.queue, b.queue) + strings.Compare(a.jobType, b.jobType)
	})
	for _, k := range names {
		r := m.rows[k]
		if r.entries() == 0 {
			continue
		}
		text = appendText(appendText(text, k.queue), k.jobType)
		for _, n := range r.numbers() {
			text = binary.AppendVarint(text, *n)
		}
		text = appendHistogram(appendHistogram(text, &r.Wait.histogram), &r.Run.histogram)
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

// appendHistogram appends how many buckets have something, and for each how far it is from the last, with a bit that says
// that more than one time is in it, and how many those are besides.
func appendHistogram(to []byte, h *histogram) []byte {
	used := 0
	for _, n := range h.n {
		if n > 0 {
			used++
		}
	}
	to = binary.AppendUvarint(to, uint64(used))
	last := 0
	for i, n := range h.n {
		at := h.first + i
		switch {
		case n <= 0:
			continue
		case n == 1:
			to = binary.AppendUvarint(to, uint64(at-last)<<1)
		default:
			to = binary.AppendUvarint(binary.AppendUvarint(to, uint64(at-last)<<1|1), uint64(n-1))
		}
		last = at
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

// digest is a digest that is being read.
type digest struct {
	text []byte
	// names are those that were read before, so that each is there once.
	names map[string]string
	bad   bool
}

// decode calls f with each row of a digest, of which nothing is valid after f but its names. It is false, and f was not called,
// if the text is no digest of this version.
func (d *digest) decode(text []byte, f func(*metric)) bool {
	if len(text) < digestHead || text[0] != digestVersion || binary.BigEndian.Uint32(text[1:]) != crc32.ChecksumIEEE(text[digestHead:]) {
		return false
	}
	d.text, d.bad = text[digestHead:], false
	var r metric
	numbers := r.numbers()
	for len(d.text) > 0 {
		r.Queue, r.JobType = d.name(), d.name()
		for _, n := range numbers {
			u := d.number()
			*n = int64(u>>1) ^ -int64(u&1)
		}
		d.histogram(&r.Wait.histogram)
		d.histogram(&r.Run.histogram)
		if d.bad {
			break // a hand has made it, checksum and all
		}
		f(&r)
	}
	return true
}

func (d *digest) number() uint64 {
	if len(d.text) > 0 && d.text[0] < 0x80 { // most are
		v := d.text[0]
		d.text = d.text[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(d.text)
	if n <= 0 {
		d.text, d.bad = nil, true
		return 0
	}
	d.text = d.text[n:]
	return v
}

func (d *digest) name() string {
	n := d.number()
	if n > uint64(len(d.text)) {
		d.text, d.bad = nil, true
		return ""
	}
	text := d.text[:n]
	d.text = d.text[n:]
	name, ok := d.names[string(text)]
	if !ok {
		name = string(text)
		d.names[name] = name
	}
	return name
}

func (d *digest) histogram(h *histogram) {
	h.read = h.read[:0]
	at := uint64(0)
	for used := d.number(); used > 0 && !d.bad; used-- {
		step := d.number()
		n := uint64(1)
		if step&1 == 1 {
			n += d.number()
		}
		at += step >> 1
		if at >= buckets || n > math.MaxInt64 {
			d.bad = true
			return
		}
		h.read = append(h.read, bucket{int(at), int64(n)})
	}
}
