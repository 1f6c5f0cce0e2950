package monitor

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// anyMS is a time of any order of magnitude.
var anyMS = rapid.Custom(func(t *rapid.T) int64 {
	return rapid.Int64Range(0, int64(1)<<rapid.IntRange(0, 40).Draw(t, "bits")).Draw(t, "ms")
})

// Whatever the times are, and in however many hours they were counted, percentiles are within 2 % of the true ones.
func TestPercentilesOfMergedHours(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []int64
		var merged Times
		for range rapid.IntRange(1, 5).Draw(t, "hours") {
			var hour Times
			for _, ms := range rapid.SliceOfN(anyMS, 0, 50).Draw(t, "times") {
				all = append(all, ms)
				hour.add(new(once(ms)))
			}
			merged.add(&hour)
		}
		merged.sum()
		if len(all) == 0 {
			if merged.P50MS != nil {
				t.Fatalf("the median of nothing is %d", *merged.P50MS)
			}
			return
		}
		slices.Sort(all)
		for part, got := range map[float64]*int64{0.5: merged.P50MS, 0.95: merged.P95MS, 0.99: merged.P99MS} {
			want := all[int(math.Ceil(part*float64(len(all))))-1]
			if math.Abs(float64(*got-want)) > float64(want)/50 {
				t.Fatalf("of %d, the percentile %v is %d, want %d", all, part, *got, want)
			}
		}
	})
}

// addDigest adds the rows of a digest, if it is one.
func (m metrics) addDigest(text []byte) bool {
	d, ok := openDigest(text)
	addHours([]storedHour{{left: d, to: []metricOf{m.reader()}}})
	return ok
}

// A digest gives back what was counted, and what is none is seen to be none, however it was spoilt.
func TestDigest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counted := metrics{rows: map[key]*metric{}}
		for range rapid.IntRange(0, 4).Draw(t, "rows") {
			r := counted.row(key{rapid.String().Draw(t, "queue"), rapid.String().Draw(t, "type")})
			r.Added, r.Died = rapid.Int64Range(1, math.MaxInt64/8).Draw(t, "added"), rapid.Int64Range(0, 9).Draw(t, "died")
			for _, ms := range rapid.SliceOf(anyMS).Draw(t, "waits") {
				r.Wait.add(new(once(ms)))
			}
			for _, ms := range rapid.SliceOf(anyMS).Draw(t, "runs") {
				r.Run.add(new(once(ms)))
			}
			r.sum()
		}
		text := counted.encode()
		got := metrics{rows: map[key]*metric{}}
		if !got.addDigest(text) {
			t.Fatal("not decoded")
		}
		for _, r := range got.rows {
			r.sum()
		}
		if diff := cmp.Diff(counted, got, cmp.AllowUnexported(key{}, metrics{}, metric{}, Times{}, histogram{}),
			cmpopts.IgnoreFields(metric{}, "next")); diff != "" {
			t.Fatal(diff)
		}
		spoilt := slices.Clone(text)
		spoilt[rapid.IntRange(0, len(text)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		for _, bad := range [][]byte{spoilt, text[:rapid.IntRange(0, len(text)-1).Draw(t, "end")]} {
			if got := (metrics{rows: map[key]*metric{}}); got.addDigest(bad) || len(got.rows) > 0 {
				t.Fatalf("decoded %x", bad)
			}
		}
	})
}

// Whoever writes a digest by hand, with its checksum, may spoil the numbers but nothing else.
func TestDigestOfAHand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := withChecksum(append(make([]byte, digestHead), rapid.SliceOf(rapid.Byte()).Draw(t, "text")...))
		got := metrics{rows: map[key]*metric{}}
		got.addDigest(text)
		for _, r := range got.rows {
			r.sum()
		}
	})
}
