package lending

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// number is what may stand in a row: mostly something sensible.
func number(top int) *rapid.Generator[int] {
	return rapid.OneOf(rapid.IntRange(0, top), rapid.IntRange(0, top), rapid.Int())
}

// parts are parts as a hand may have left them.
func parts(limit int) *rapid.Generator[[]Part] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Part {
		return Part{
			Capacity: number(limit).Draw(t, "capacity"), Target: number(limit).Draw(t, "target"), Used: number(limit).Draw(t, "used"),
			Demand: number(limit).Draw(t, "demand"), First: number(limit).Draw(t, "first"), Since: rapid.Int64().Draw(t, "since"),
		}
	}), 1, 9)
}

func sums(parts []Part) (capacity, target, used int) {
	for _, p := range parts {
		capacity += p.Capacity
		target += p.Target
		used += p.Used
	}
	return capacity, target, used
}

// checkSums fails unless capacities and targets are the limit, and none of them is below 0.
func checkSums(t *rapid.T, limit int, parts []Part) {
	if c, g, _ := sums(parts); c != limit || g != limit {
		t.Fatalf("of a limit of %d the capacities are %d and the targets %d: %+v", limit, c, g, parts)
	}
	for _, p := range parts {
		if p.Capacity < 0 || p.Target < 0 {
			t.Fatalf("below 0: %+v", parts)
		}
	}
}

// Whatever stands in the rows, capacities and targets are the limit afterwards, and a second time changes nothing.
func TestSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.OneOf(rapid.IntRange(0, 30), rapid.IntRange(0, math.MaxInt)).Draw(t, "limit")
		parts := parts(limit).Draw(t, "parts")
		given := slices.Clone(parts)
		Balance(limit, parts)
		checkSums(t, limit, parts)
		for i := range parts {
			if g, p := given[i], parts[i]; g.Used != p.Used || g.Demand != p.Demand || g.First != p.First || g.Since != p.Since {
				t.Fatalf("it has changed more than capacity and target: %+v is %+v", g, p)
			}
		}
		again := slices.Clone(parts)
		Balance(limit, again)
		if !slices.Equal(parts, again) {
			t.Fatalf("repeated, it made %+v of %+v", again, parts)
		}
	})
}

func TestNoParts(*testing.T) { Balance(3, nil) }

// Whatever stands in the rows, only what is free moves where the capacities are the limit, and what is used within it keeps its
// capacity where they are not.
func TestOnlyWhatIsFreeMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 30).Draw(t, "limit")
		parts := parts(limit).Draw(t, "parts")
		used := 0
		for i := range parts {
			parts[i].Used = rapid.IntRange(0, limit-used).Draw(t, "used")
			used += parts[i].Used
		}
		Balance(limit, parts)
		for i, p := range parts {
			if p.Capacity < p.Used {
				t.Fatalf("part %d uses more than its capacity: %+v", i, parts)
			}
		}
	})
}

// Where the others are idle, one that asks has the whole limit at once; and it goes back to two that ask as its jobs end.
func TestOneHotPart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 100).Draw(t, "limit")
		parts := make([]Part, rapid.IntRange(1, 20).Draw(t, "n"))
		Balance(limit, parts)
		hot := rapid.IntRange(0, len(parts)-1).Draw(t, "hot")
		parts[hot].Demand, parts[hot].First = limit, 1
		Balance(limit, parts)
		if parts[hot].Capacity != limit || parts[hot].Target != limit {
			t.Fatalf("of a limit of %d the hot part has %+v", limit, parts[hot])
		}
		if len(parts) == 1 {
			return
		}
		other := (hot + 1) % len(parts)
		parts[hot].Used, parts[hot].Since = limit, 1
		parts[other].Demand, parts[other].First = limit, 1
		Balance(limit, parts)
		home := max(limit/len(parts), 1)
		if parts[other].Target < home || parts[hot].Capacity != limit {
			t.Fatalf("the other part is to have %d: %+v", home, parts)
		}
		parts[hot].Used = 0
		Balance(limit, parts)
		if parts[other].Capacity < home {
			t.Fatalf("the other part is to have %d: %+v", home, parts)
		}
	})
}

// What is divided among parts that ask has no pieces into which none of their jobs fits.
func TestNoPieces(t *testing.T) {
	parts := make([]Part, 3)
	for i := range parts {
		parts[i] = Part{Demand: 40, First: 4, Since: int64(i)}
	}
	Balance(10, parts)
	started := 0
	for _, p := range parts {
		if p.Allows(10, 4) {
			started++
		}
	}
	if started != 2 {
		t.Fatalf("of jobs of weight 4 a limit of 10 has started %d: %+v", started, parts)
	}
}

// Who gets what, of a limit of 12.
func TestTargets(t *testing.T) {
	for name, c := range map[string]struct{ parts, want []Part }{
		"what nobody uses goes home": {
			[]Part{{Capacity: 12}, {}, {}, {}, {}},
			[]Part{{Capacity: 3, Target: 3}, {Capacity: 3, Target: 3}, {Capacity: 2, Target: 2}, {Capacity: 2, Target: 2}, {Capacity: 2, Target: 2}},
		},
		"what is used beyond home stays where it is": {
			[]Part{{Capacity: 12, Used: 9}, {}, {}},
			[]Part{{Capacity: 9, Target: 9}, {Capacity: 3, Target: 3}, {}},
		},
		"what is at home already stays there": {
			[]Part{{}, {Capacity: 3}, {Capacity: 9, Used: 9}, {}},
			[]Part{{}, {Capacity: 3, Target: 3}, {Capacity: 9, Target: 9}, {}},
		},
		"those that ask have the same": {
			[]Part{{Demand: 20, First: 1}, {Demand: 20, First: 1}, {Capacity: 12}, {}},
			[]Part{{Capacity: 6, Target: 6}, {Capacity: 6, Target: 6}, {}, {}},
		},
		"no more than they ask for": {
			[]Part{{Demand: 20, First: 1}, {Demand: 4, First: 2}, {Capacity: 12}},
			[]Part{{Capacity: 8, Target: 8}, {Capacity: 4, Target: 4}, {}},
		},
		"also a piece that no job like the first fits into": {
			[]Part{{Demand: 20, First: 5}, {Capacity: 12}},
			[]Part{{Capacity: 12, Target: 12}, {}},
		},
		"what is used at home isn't lent": {
			[]Part{{Demand: 20, First: 1}, {Capacity: 12, Used: 5}},
			[]Part{{Capacity: 7, Target: 7}, {Capacity: 5, Target: 5}},
		},
		"what is used beyond home comes back as jobs end": {
			[]Part{{Demand: 20, First: 1}, {Capacity: 12, Used: 10}},
			[]Part{{Capacity: 2, Target: 6}, {Capacity: 10, Target: 6}},
		},
		"who has waited longest comes first": {
			[]Part{{Demand: 12, First: 12, Since: 2}, {Demand: 12, First: 12, Since: 1}, {Capacity: 12, Used: 4}},
			[]Part{{}, {Capacity: 8, Target: 12}, {Capacity: 4}},
		},
	} {
		got := slices.Clone(c.parts)
		Balance(12, got)
		for i := range got {
			if got[i].Capacity != c.want[i].Capacity || got[i].Target != c.want[i].Target {
				t.Errorf("%s: part %d of %+v is %+v", name, i, c.parts, got[i])
			}
		}
	}
}

func TestAllows(t *testing.T) {
	for _, c := range []struct {
		part   Part
		weight int
		want   bool
	}{
		{Part{Capacity: 4, Target: 5, Used: 1}, 3, true},
		{Part{Capacity: 4, Target: 5, Used: 1}, 4, false},
		{Part{Capacity: 5, Target: 4, Used: 1}, 4, false},
		{Part{Capacity: 10, Target: 10}, 10, true},
		{Part{Capacity: 10, Target: 10}, 11, true},
		{Part{Capacity: 10, Target: 10, Used: 1}, 11, false},
		{Part{Capacity: 10, Target: 9}, 11, false},
		{Part{Capacity: 9, Target: 10}, 11, false},
		{Part{Capacity: 10, Target: 10}, math.MaxInt, true},
		{Part{Capacity: -5, Target: 10}, 1, false},
		{Part{Capacity: 2, Target: 2, Used: -5}, 3, false},
	} {
		if got := c.part.Allows(10, c.weight); got != c.want {
			t.Errorf("%+v allows %d of 10: %v", c.part, c.weight, got)
		}
	}
}
