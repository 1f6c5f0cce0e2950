package rules

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

// shares are shares as a hand may have left them.
func shares(limit int) *rapid.Generator[[]Share] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Share {
		return Share{
			Has: number(limit).Draw(t, "has"), Target: number(limit).Draw(t, "target"), Used: number(limit).Draw(t, "used"),
			Wants: number(limit).Draw(t, "wants"), First: number(limit).Draw(t, "first"), Since: rapid.Int64().Draw(t, "since"),
		}
	}), 1, 9)
}

func sums(shares []Share) (capacity, target, used int) {
	for _, p := range shares {
		capacity += p.Has
		target += p.Target
		used += p.Used
	}
	return capacity, target, used
}

// checkSums fails unless capacities and targets are the limit, and none of them is below 0.
func checkSums(t *rapid.T, limit int, shares []Share) {
	if has, target, _ := sums(shares); has != limit || target > limit {
		t.Fatalf("of a limit of %d the shares are %d and the targets %d: %+v", limit, has, target, shares)
	}
	for _, p := range shares {
		if p.Has < 0 || p.Target < 0 {
			t.Fatalf("below 0: %+v", shares)
		}
	}
}

// Whatever stands in the rows, capacities and targets are the limit afterwards, and a second time changes nothing.
func TestSharesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.OneOf(rapid.IntRange(0, 30), rapid.IntRange(0, math.MaxInt32)).Draw(t, "limit")
		shares := shares(limit).Draw(t, "shares")
		given := slices.Clone(shares)
		Divide(limit, shares)
		checkSums(t, limit, shares)
		for i := range shares {
			if g, p := given[i], shares[i]; g.Used != p.Used || g.Wants != p.Wants || g.First != p.First || g.Since != p.Since {
				t.Fatalf("it has changed more than capacity and target: %+v is %+v", g, p)
			}
		}
		again := slices.Clone(shares)
		Divide(limit, again)
		if !slices.Equal(shares, again) {
			t.Fatalf("repeated, it made %+v of %+v", again, shares)
		}
	})
}

func TestDivideNothing(*testing.T) { Divide(3, nil) }

// Whatever stands in the rows, only what is free moves where the capacities are the limit, and what is used within it keeps its
// capacity where they are not.
func TestOnlyWhatIsFreeMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 30).Draw(t, "limit")
		shares := shares(limit).Draw(t, "shares")
		used := 0
		for i := range shares {
			shares[i].Used = rapid.IntRange(0, limit-used).Draw(t, "used")
			used += shares[i].Used
		}
		Divide(limit, shares)
		for i, p := range shares {
			if p.Has < p.Used {
				t.Fatalf("part %d uses more than its capacity: %+v", i, shares)
			}
		}
	})
}

// Where the others are idle, one that asks has the whole limit at once; and it goes back to two that ask as its jobs end.
func TestOneHotShard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 100).Draw(t, "limit")
		shares := make([]Share, rapid.IntRange(1, 20).Draw(t, "n"))
		Divide(limit, shares)
		hot := rapid.IntRange(0, len(shares)-1).Draw(t, "hot")
		shares[hot].Wants, shares[hot].First = limit, 1
		Divide(limit, shares)
		if shares[hot].Has != limit || shares[hot].Target != limit {
			t.Fatalf("of a limit of %d the hot part has %+v", limit, shares[hot])
		}
		if len(shares) == 1 {
			return
		}
		other := (hot + 1) % len(shares)
		shares[hot].Used, shares[hot].Since = limit, 1
		shares[other].Wants, shares[other].First = limit, 1
		Divide(limit, shares)
		home := max(limit/len(shares), 1)
		if shares[other].Target < home || shares[hot].Has != limit {
			t.Fatalf("the other part is to have %d: %+v", home, shares)
		}
		shares[hot].Used = 0
		Divide(limit, shares)
		if shares[other].Has < home {
			t.Fatalf("the other part is to have %d: %+v", home, shares)
		}
	})
}

// What is divided among shares that ask has no pieces into which none of their jobs fits.
func TestNoPieces(t *testing.T) {
	shares := make([]Share, 3)
	for i := range shares {
		shares[i] = Share{Wants: 40, First: 4, Since: int64(i)}
	}
	Divide(10, shares)
	started := 0
	for _, p := range shares {
		if p.Allows(10, 4) {
			started++
		}
	}
	if started != 2 {
		t.Fatalf("of jobs of weight 4 a limit of 10 has started %d: %+v", started, shares)
	}
}

// Who gets what, of a limit of 12.
func TestTargetsOfShares(t *testing.T) {
	for name, c := range map[string]struct{ shares, want []Share }{
		"what nobody uses goes home": {
			[]Share{{Has: 12}, {}, {}, {}, {}},
			[]Share{{Has: 3, Target: 3}, {Has: 3, Target: 3}, {Has: 2, Target: 2}, {Has: 2, Target: 2}, {Has: 2, Target: 2}},
		},
		"what is used beyond home stays where it is": {
			[]Share{{Has: 12, Used: 9}, {}, {}},
			[]Share{{Has: 9, Target: 9}, {Has: 3, Target: 3}, {}},
		},
		"those that ask have the same": {
			[]Share{{Wants: 20, First: 1}, {Wants: 20, First: 1}, {Has: 12}, {}},
			[]Share{{Has: 6, Target: 6}, {Has: 6, Target: 6}, {}, {}},
		},
		"no more than they ask for": {
			[]Share{{Wants: 20, First: 1}, {Wants: 4, First: 2}, {Has: 12}},
			[]Share{{Has: 8, Target: 8}, {Has: 4, Target: 4}, {}},
		},
		"also a piece that no job like the first fits into": {
			[]Share{{Wants: 20, First: 5}, {Has: 12}},
			[]Share{{Has: 12, Target: 12}, {}},
		},
		"what is used at home stays there": {
			[]Share{{Wants: 20, First: 1}, {Has: 12, Used: 5}},
			[]Share{{Has: 7, Target: 7}, {Has: 5, Target: 5}},
		},
		"what is used beyond home comes back as jobs end": {
			[]Share{{Wants: 20, First: 1}, {Has: 12, Used: 10}},
			[]Share{{Has: 2, Target: 6}, {Has: 10, Target: 6}},
		},
		"who has waited longest comes first": {
			[]Share{{Wants: 12, First: 12, Since: 2}, {Wants: 12, First: 12, Since: 1}, {Has: 12, Used: 4}},
			[]Share{{}, {Has: 8, Target: 12}, {Has: 4}},
		},
	} {
		got := slices.Clone(c.shares)
		Divide(12, got)
		for i := range got {
			if got[i].Has != c.want[i].Has || got[i].Target != c.want[i].Target {
				t.Errorf("%s: part %d of %+v is %+v", name, i, c.shares, got[i])
			}
		}
	}
}

func TestShareAllows(t *testing.T) {
	for _, c := range []struct {
		share  Share
		weight int
		want   bool
	}{
		{Share{Has: 4, Target: 5, Used: 1}, 3, true},
		{Share{Has: 4, Target: 5, Used: 1}, 4, false},
		{Share{Has: 5, Target: 4, Used: 1}, 4, false},
		{Share{Has: 10, Target: 10}, 10, true},
		{Share{Has: 10, Target: 10}, 11, true},
		{Share{Has: 10, Target: 10, Used: 1}, 11, false},
		{Share{Has: 10, Target: 9}, 11, false},
		{Share{Has: 9, Target: 10}, 11, false},
		{Share{Has: 10, Target: 10}, math.MaxInt, true},
		{Share{Has: -5, Target: 10}, 1, false},
		{Share{Has: 2, Target: 2, Used: -5}, 3, false},
	} {
		if got := c.share.Allows(10, c.weight); got != c.want {
			t.Errorf("%+v allows %d of 10: %v", c.share, c.weight, got)
		}
	}
}

// queue is a queue in shards, as its rows have it: jobs start only in order, only as their shard's row allows.
type queue struct {
	limit   int
	shares  []Share
	waiting [][]int // the weights of the jobs of each shard that wait
	running [][]int
	now     int64
}

func newQueue(limit, shards int) *queue {
	q := &queue{limit: limit, shares: make([]Share, shards), waiting: make([][]int, shards), running: make([][]int, shards)}
	Divide(limit, q.shares)
	return q
}

func (q *queue) used() int {
	_, _, used := sums(q.shares)
	return used
}

// round starts what a shard may start, and says how many jobs these were. What it has asked for is over then. It fails where they
// run over the limit.
func (q *queue) round(t *rapid.T, shard int) (started int) {
	p := &q.shares[shard]
	for ; len(q.waiting[shard]) > 0 && p.Allows(q.limit, q.waiting[shard][0]); started++ {
		weight := q.waiting[shard][0]
		if used := q.used(); used > 0 && used+weight > q.limit {
			t.Fatalf("with %d used of %d a job of %d has started: %+v", used, q.limit, weight, q.shares)
		}
		q.waiting[shard] = q.waiting[shard][1:]
		q.running[shard] = append(q.running[shard], weight)
		p.Used += weight
		p.Wants, p.First = 0, 0
	}
	return started
}

// ask is a round and what follows it when it leaves a job waiting.
func (q *queue) ask(t *rapid.T, shard int) (started int) {
	started = q.round(t, shard)
	p := &q.shares[shard]
	if len(q.waiting[shard]) == 0 {
		p.Wants, p.First = 0, 0
		return started
	}
	if p.Wants == 0 {
		q.now++
		p.Since = q.now
	}
	p.First, p.Wants = q.waiting[shard][0], 0
	for _, weight := range q.waiting[shard] {
		p.Wants += weight
	}
	Divide(q.limit, q.shares)
	checkSums(t, q.limit, q.shares)
	return started + q.round(t, shard)
}

// end ends a job.
func (q *queue) end(shard, i int) {
	r := q.running[shard]
	q.shares[shard].Used -= r[i]
	q.running[shard] = append(r[:i:i], r[i+1:]...)
}

// Whatever jobs come, start and end, whoever asks, and although the limit changes: no job starts above the limit, but one alone.
func TestSharesKeepTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newQueue(rapid.IntRange(1, 20).Draw(t, "limit"), rapid.IntRange(1, 6).Draw(t, "shards"))
		anyShard := rapid.IntRange(0, len(q.shares)-1)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				i := anyShard.Draw(t, "shard")
				q.waiting[i] = append(q.waiting[i], rapid.IntRange(1, 24).Draw(t, "weight"))
			},
			"round": func(t *rapid.T) { q.round(t, anyShard.Draw(t, "shard")) },
			"ask":   func(t *rapid.T) { q.ask(t, anyShard.Draw(t, "shard")) },
			"end": func(t *rapid.T) {
				i := anyShard.Draw(t, "shard")
				if len(q.running[i]) == 0 {
					t.Skip("nothing runs")
				}
				q.end(i, rapid.IntRange(0, len(q.running[i])-1).Draw(t, "job"))
			},
			"lapse": func(t *rapid.T) {
				p := &q.shares[anyShard.Draw(t, "shard")]
				p.Wants, p.First = 0, 0
			},
			"another limit": func(t *rapid.T) {
				q.limit = rapid.IntRange(1, 20).Draw(t, "limit")
				Divide(q.limit, q.shares)
			},
		})
	})
}

// As long as jobs end, each shard that keeps asking starts its first job after two rounds of all shards for each shard, at the
// latest: no two heavy jobs wait for each other, and no light ones keep a heavy one waiting.
func TestAllAreServed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, shards := rapid.IntRange(1, 20).Draw(t, "limit"), rapid.IntRange(1, 6).Draw(t, "shards")
		q := newQueue(limit, shards)
		weights := rapid.OneOf(rapid.Just(1), rapid.IntRange(1, limit), rapid.IntRange(1, limit+5))
		waited := make([]int, shards)
		for range rapid.IntRange(1, 60).Draw(t, "turns") {
			for i := range shards {
				for rapid.IntRange(0, 3).Draw(t, "more") > 0 && len(q.waiting[i]) < 30 {
					q.waiting[i] = append(q.waiting[i], weights.Draw(t, "weight"))
				}
			}
			for _, i := range rapid.Permutation(order(shards)).Draw(t, "order") {
				waited[i]++
				if q.ask(t, i) > 0 || len(q.waiting[i]) == 0 {
					waited[i] = 0
				}
				if waited[i] > 2*shards {
					t.Fatalf("shard %d has waited for %d turns: %+v", i, waited[i], q.shares)
				}
			}
			for i := range shards {
				for len(q.running[i]) > 0 {
					q.end(i, 0)
				}
			}
		}
	})
}

func order(n int) (list []int) {
	for i := range n {
		list = append(list, i)
	}
	return list
}

// Two jobs of which each takes the whole limit, or more, in two shards: one goes, then the other.
func TestTwoHeavyJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		heavy := rapid.IntRange(limit, limit+5)
		q := newQueue(limit, rapid.IntRange(2, 8).Draw(t, "shards"))
		a := rapid.IntRange(0, len(q.shares)-2).Draw(t, "a")
		b := rapid.IntRange(a+1, len(q.shares)-1).Draw(t, "b")
		q.waiting[a], q.waiting[b] = []int{heavy.Draw(t, "heavy")}, []int{heavy.Draw(t, "heavy")}
		if q.ask(t, a) != 1 || q.ask(t, b) != 0 {
			t.Fatalf("who asks first goes: %+v", q.shares)
		}
		q.end(a, 0)
		if q.ask(t, b) != 1 {
			t.Fatalf("when the first has ended, the other goes: %+v", q.shares)
		}
	})
}

// Where a limit is lowered below what is used, nothing starts until less is used; then what becomes free is for whoever has
// waited longest.
func TestLimitLowered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newQueue(10, 3)
		for i := range q.shares {
			q.waiting[i] = []int{1, 1, 1, 1, 1, 1, 1, 1}
			q.ask(t, i)
		}
		if q.used() != 10 {
			t.Fatalf("%d are used of 10", q.used())
		}
		q.limit = 4
		Divide(q.limit, q.shares)
		for q.used() > 4 {
			i := rapid.SampledFrom(busy(q)).Draw(t, "busy")
			q.end(i, 0)
			if q.used() < 4 {
				break
			}
			for _, i := range rapid.Permutation(order(3)).Draw(t, "order") {
				if n := q.ask(t, i); n > 0 {
					t.Fatalf("with %d used of 4, %d have started", q.used()-n, n)
				}
			}
		}
		q.end(busy(q)[0], 0)
		started := 0
		for range 2 {
			for i := range q.shares {
				started += q.ask(t, i)
			}
		}
		if started == 0 || q.used() != 4 {
			t.Fatalf("with %d used of 4, %d have started", q.used(), started)
		}
	})
}

// However much is used, and by whom, when a limit is divided anew: until it is divided again, jobs end and others start below the
// limit only.
func TestLimitDividedAnew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newQueue(rapid.IntRange(1, 10).Draw(t, "limit"), rapid.IntRange(1, 4).Draw(t, "shards"))
		for i := range q.shares {
			q.running[i] = rapid.SliceOfN(rapid.IntRange(1, 3), 0, 6).Draw(t, "running")
			q.waiting[i] = rapid.SliceOfN(rapid.IntRange(1, 3), 0, 6).Draw(t, "waiting")
			p := &q.shares[i]
			for _, weight := range q.running[i] {
				p.Used += weight
			}
			if len(q.waiting[i]) > 0 && rapid.Bool().Draw(t, "asks") {
				p.Wants, p.First, p.Since = 10, q.waiting[i][0], rapid.Int64Range(0, 9).Draw(t, "since")
			}
		}
		Divide(q.limit, q.shares)
		for len(busy(q)) > 0 {
			q.end(rapid.SampledFrom(busy(q)).Draw(t, "ends"), 0)
			for i := range q.shares {
				q.round(t, i)
			}
		}
	})
}

// busy are the shards in which something runs.
func busy(q *queue) (list []int) {
	for i, r := range q.running {
		if len(r) > 0 {
			list = append(list, i)
		}
	}
	return list
}
