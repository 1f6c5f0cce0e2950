package monitor

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/hipq/hipq/internal/dbtest"
)

// anyMS is a time of any order of magnitude.
var anyMS = rapid.Custom(func(t *rapid.T) int64 {
	return rapid.Int64Range(0, int64(1)<<rapid.IntRange(0, 40).Draw(t, "bits")).Draw(t, "ms")
})

// Percentiles of merged hours are within 2 % of the exact ones.
func TestPercentilesOfMergedHours(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []int64
		var merged Times
		for range rapid.IntRange(1, 5).Draw(t, "hours") {
			var hour Times
			for _, ms := range rapid.SliceOfN(anyMS, 0, 50).Draw(t, "times") {
				all = append(all, ms)
				hour.put(ms)
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
			dbtest.Require(t, math.Abs(float64(*got-want)) <= float64(want)/50, "of %d, the percentile %v is %d, want %d", all, part, *got, want)
		}
	})
}

// A stored histogram reads back unchanged. A corrupt one only loses the percentiles.
func TestStoredHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var counted, got, spoilt histogram
		for _, ms := range rapid.SliceOf(anyMS).Draw(t, "times") {
			counted.put(bucketOf(ms), 1)
		}
		value := dbtest.Must(counted.Value())(t)
		got.put(3, 7) // left by the previous row
		err := got.Scan(value)
		dbtest.Require(t, err == nil && slices.Equal(got, counted), "%v is read as %v: %v", counted, got, err)
		text := append(value.([]byte), rapid.SliceOf(rapid.Byte()).Draw(t, "spoilt")...)
		dbtest.OK(t, spoilt.Scan(text[rapid.IntRange(0, len(text)).Draw(t, "from"):]))
		spoilt.percentiles(int64(len(text)))
	})
}
