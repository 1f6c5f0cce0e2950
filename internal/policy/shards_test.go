package policy

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hipq/hipq/internal/claim"
	"github.com/hipq/hipq/internal/dbtest"
)

// number draws what a row may contain: mostly valid numbers.
func number(top int) *rapid.Generator[int] {
	return rapid.OneOf(rapid.IntRange(0, top), rapid.IntRange(0, top), rapid.Int())
}

// demands draws demands as manual edits may leave them in the rows.
func demands(limit int) *rapid.Generator[[]Demand] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Demand {
		return Demand{
			Used: number(limit).Draw(t, "used"), Wants: number(limit).Draw(t, "wants"), First: number(limit).Draw(t, "first"),
			Since: rapid.Int64().Draw(t, "since"),
		}
	}), 1, 9)
}

// held is the sum of the shares and of the use beyond them.
func held(shares []int, demands []Demand) (sum int) {
	for i, d := range demands {
		sum += max(shares[i], d.Used)
	}
	return sum
}

// Whatever the rows contain, no share is below 0, and their sum isn't above the limit.
func TestSharesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.OneOf(rapid.IntRange(0, 30), rapid.IntRange(0, math.MaxInt32)).Draw(t, "limit")
		demands := demands(limit).Draw(t, "demands")
		given := slices.Clone(demands)
		shares := Divide(limit, demands)
		dbtest.Same(t, given, demands, "it has changed what it was given")
		sum := 0
		for _, share := range shares {
			sum += share
			dbtest.Require(t, share >= 0, "below 0: %v", shares)
		}
		dbtest.Ensure(t, sum <= limit && len(shares) == len(demands), "of a limit of %d the shares are %v", limit, shares)
	})
}

func TestDivideNothing(t *testing.T) {
	shares := Divide(3, nil)
	dbtest.Ensure(t, len(shares) == 0, "%v", shares)
}

// A share never gives away room in use: if use is within the limit, shares and the use beyond them equal the limit.
func TestOnlyWhatIsFreeMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 30).Draw(t, "limit")
		demands := demands(limit).Draw(t, "demands")
		used := 0
		for i := range demands {
			demands[i].Used = rapid.IntRange(0, limit-used).Draw(t, "used")
			used += demands[i].Used
		}
		shares := Divide(limit, demands)
		dbtest.Ensure(t, held(shares, demands) == limit, "of a limit of %d the shares are %v: %+v", limit, shares, demands)
	})
}

// If the others are idle, a shard that asks gets the whole limit at once. It goes to two askers as its jobs end.
func TestOneHotShard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 100).Draw(t, "limit")
		demands := make([]Demand, rapid.IntRange(1, 20).Draw(t, "n"))
		hot := rapid.IntRange(0, len(demands)-1).Draw(t, "hot")
		demands[hot].Wants, demands[hot].First = limit, 1
		shares := Divide(limit, demands)
		dbtest.Ensure(t, shares[hot] == limit, "of a limit of %d the hot shard has its share of %v", limit, shares)
		if len(demands) == 1 {
			return
		}
		other := (hot + 1) % len(demands)
		demands[hot].Used, demands[hot].Since = limit, 1
		demands[other].Wants, demands[other].First = limit, 1
		even := max(limit/2, 1)
		shares = Divide(limit, demands)
		dbtest.Ensure(t, shares[other] == 0 && shares[hot] <= limit-even, "the hot shard should leave %d: %v", even, shares)
		demands[hot].Used = 0
		shares = Divide(limit, demands)
		dbtest.Ensure(t, shares[other] >= even, "the other shard should have %d: %v", even, shares)
	})
}

// A division among asking shards leaves no pieces too small for any of their jobs.
func TestNoPieces(t *testing.T) {
	demands := make([]Demand, 3)
	for i := range demands {
		demands[i] = Demand{Wants: 40, First: 4, Since: int64(i)}
	}
	started := 0
	shares := Divide(10, demands)
	for _, share := range shares {
		if hasRoom(10, share, 0, 4) {
			started++
		}
	}
	dbtest.Ensure(t, started == 2, "of jobs of weight 4 a limit of 10 has started %d: %v", started, shares)
}

// shares of a limit of 12
func TestDivide(t *testing.T) {
	for name, c := range map[string]struct {
		demands []Demand
		want    []int
	}{
		"what nobody uses is even":                          {make([]Demand, 5), []int{3, 3, 2, 2, 2}},
		"what is used stays where it is":                    {[]Demand{{Used: 9}, {}, {}}, []int{9, 2, 1}},
		"those that ask have the same":                      {[]Demand{{Wants: 20, First: 1}, {Wants: 20, First: 1}, {}, {}}, []int{6, 6, 0, 0}},
		"no more than they ask for":                         {[]Demand{{Wants: 20, First: 1}, {Wants: 4, First: 2}, {}}, []int{8, 4, 0}},
		"also a piece that no job like the first fits into": {[]Demand{{Wants: 20, First: 5}, {}}, []int{12, 0}},
		"what is used within an even share stays": {
			[]Demand{{Wants: 20, First: 1}, {Used: 5}}, []int{7, 5},
		},
		"what is used beyond it comes back as jobs end": {
			[]Demand{{Wants: 20, First: 1}, {Used: 10}}, []int{2, 6},
		},
		"the one that has waited longest comes first": {
			[]Demand{{Wants: 12, First: 12, Since: 2}, {Wants: 12, First: 12, Since: 1}, {Used: 4}}, []int{0, 8, 0},
		},
		"the first in line gets room beside what runs there": {
			[]Demand{{Used: 9, Wants: 1, First: 1, Since: 1}, {Wants: 20, First: 1, Since: 2}}, []int{10, 2},
		},
		"a heavy job of the next in line comes before more light ones of the others": {
			[]Demand{{Wants: 20, First: 1, Since: 1}, {Wants: 20, First: 9, Since: 2}, {Wants: 20, First: 1, Since: 3}}, []int{2, 9, 1},
		},
		"what is used over the limit has to end": {
			[]Demand{{Used: 9, Wants: 1, First: 1}, {Used: 6}}, []int{6, 2},
		},
	} {
		dbtest.Same(t, Divide(12, c.demands), c.want, "%s: the shares of %+v", name, c.demands)
	}
}

// Dividing is fast for any number of shards and any limit.
func TestDivideIsQuick(t *testing.T) {
	demands := make([]Demand, 100)
	for i := range demands {
		demands[i] = Demand{Used: i * i, Wants: math.MaxInt32, First: 1 + i*i*i, Since: int64(i % 7)}
	}
	for _, limit := range []int{998, 1_000_000, math.MaxInt32} {
		began := time.Now()
		Divide(limit, demands)
		took := time.Since(began)
		dbtest.Ensure(t, took <= time.Second, "a limit of %d takes %s", limit, took)
	}
}

func hasRoom(limit, share, used, weight int) bool {
	return (&claim.Limit{Max: share, Whole: limit, Used: used}).HasRoom(weight)
}

// queue is a queue in shards, as in its rows: jobs start only in order, and only as their shard's row allows.
type queue struct {
	limit   int
	shares  []int
	demands []Demand
	waiting [][]int // the weights of each shard's waiting jobs
	running [][]int
	now     int64
}

func newQueue(limit, shards int) *queue {
	q := &queue{limit: limit, demands: make([]Demand, shards), waiting: make([][]int, shards), running: make([][]int, shards)}
	q.shares = Divide(limit, q.demands)
	return q
}

func (q *queue) used() (sum int) {
	for _, d := range q.demands {
		sum += d.Used
	}
	return sum
}

// round starts what a shard may start, and returns how many jobs. It resets the shard's demand. It fails if the jobs exceed
// the limit.
func (q *queue) round(t *rapid.T, shard int) (started int) {
	p := &q.demands[shard]
	for ; len(q.waiting[shard]) > 0 && hasRoom(q.limit, q.shares[shard], p.Used, q.waiting[shard][0]); started++ {
		weight := q.waiting[shard][0]
		used := q.used()
		dbtest.Require(t, used <= 0 || used+weight <= q.limit, "with %d used of %d a job of %d has started: %+v", used, q.limit, weight, q.shares)
		q.waiting[shard] = q.waiting[shard][1:]
		q.running[shard] = append(q.running[shard], weight)
		p.Used += weight
		p.Wants, p.First = 0, 0
	}
	return started
}

// ask is a round and its consequences if it leaves a job waiting.
func (q *queue) ask(t *rapid.T, shard int) (started int) {
	started = q.round(t, shard)
	p := &q.demands[shard]
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
	q.divide(t)
	return started + q.round(t, shard)
}

// divide divides the limit again. It fails if the shares and the use beyond them exceed both the limit and the use.
func (q *queue) divide(t *rapid.T) {
	q.shares = Divide(q.limit, q.demands)
	sum := held(q.shares, q.demands)
	dbtest.Ensure(t, sum <= max(q.limit, q.used()), "of a limit of %d the shares are %v: %+v", q.limit, q.shares, q.demands)
}

// end ends a job.
func (q *queue) end(shard, i int) {
	r := q.running[shard]
	q.demands[shard].Used -= r[i]
	q.running[shard] = append(r[:i:i], r[i+1:]...)
}

// However jobs come, start and end, and although the limit changes, only a job that runs alone exceeds the limit.
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
				dbtest.SkipIf(t, len(q.running[i]) == 0, "nothing runs")
				q.end(i, rapid.IntRange(0, len(q.running[i])-1).Draw(t, "job"))
			},
			"lapse": func(t *rapid.T) {
				p := &q.demands[anyShard.Draw(t, "shard")]
				p.Wants, p.First = 0, 0
			},
			"another limit": func(t *rapid.T) {
				q.limit = rapid.IntRange(1, 20).Draw(t, "limit")
				q.divide(t)
			},
		})
	})
}

// While jobs end, each asking shard starts its first job after at most two rounds of all shards for each shard. No two heavy
// jobs wait for each other, and light ones don't starve a heavy one.
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
				dbtest.Require(t, waited[i] <= 2*shards, "shard %d has waited for %d turns: %+v", i, waited[i], q.shares)
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

// Whatever the use when a limit changes: until the next division, jobs end, and others start only below the limit.
func TestLimitDividedAnew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newQueue(rapid.IntRange(1, 10).Draw(t, "limit"), rapid.IntRange(1, 4).Draw(t, "shards"))
		for i := range q.shares {
			q.running[i] = rapid.SliceOfN(rapid.IntRange(1, 3), 0, 6).Draw(t, "running")
			q.waiting[i] = rapid.SliceOfN(rapid.IntRange(1, 3), 0, 6).Draw(t, "waiting")
			p := &q.demands[i]
			for _, weight := range q.running[i] {
				p.Used += weight
			}
			if len(q.waiting[i]) > 0 && rapid.Bool().Draw(t, "asks") {
				p.Wants, p.First, p.Since = 10, q.waiting[i][0], rapid.Int64Range(0, 9).Draw(t, "since")
			}
		}
		q.divide(t)
		for len(busy(q)) > 0 {
			q.end(rapid.SampledFrom(busy(q)).Draw(t, "ends"), 0)
			for i := range q.shares {
				q.round(t, i)
			}
		}
	})
}

// busy returns the shards with running jobs.
func busy(q *queue) (list []int) {
	for i, r := range q.running {
		if len(r) > 0 {
			list = append(list, i)
		}
	}
	return list
}

// TestHaveIdle: room moves at once if a shard waits for it and none can use it.
func TestHaveIdle(t *testing.T) {
	for _, c := range []struct {
		what        string
		limit, rate int
		want        bool
		parts       []Part
	}{
		{"nothing waits", 6, 2, false, []Part{{Share: 6, RateShare: 1}, {RateShare: 1}}},
		{"one has the limit, and nothing waits there", 6, 0, true, []Part{{Share: 6}, {First: 1}}},
		{"one has the limit, and will start", 6, 2, false, []Part{{Share: 6, RateShare: 1, First: 1}, {RateShare: 1, First: 1}}},
		{"one has the limit, and waits for the rate", 6, 2, true, []Part{{Share: 6, RateShare: 1, Lately: 1, First: 1}, {RateShare: 1, First: 1}}},
		{"jobs run in what the first has lost", 6, 0, false, []Part{{Share: 3, Used: 6}, {Share: 0, First: 1}}},
		{"half of them have ended", 6, 0, true, []Part{{Share: 3, Used: 3}, {Share: 0, First: 1}}},
		{"a heavy job waits for the last of the limit", 6, 0, true, []Part{{Share: 4}, {Share: 2, First: 6}}},
		{"one heavier than the limit has all of it", 6, 0, false, []Part{{}, {Share: 6, First: 9}}},
		{"one has the rate, and nothing waits there", 0, 2, true, []Part{{RateShare: 2}, {First: 1}}},
		{"one has the rate, and will start", 0, 2, false, []Part{{RateShare: 2, First: 1}, {First: 1}}},
		{"one has the rate, and waits for the limit", 6, 2, true, []Part{{Share: 0, RateShare: 2, First: 1}, {Share: 6, First: 1}}},
		{"one lacks both, and only the limit is idle", 6, 2, false, []Part{{Share: 6, RateShare: 1, Lately: 1}, {RateShare: 1, Lately: 1, First: 1}}},
		{"one lacks both, and both are idle", 6, 2, true, []Part{{Share: 6, RateShare: 2}, {First: 1}}},
	} {
		got := HaveIdle(c.limit, c.rate, c.parts)
		dbtest.Ensure(t, got == c.want, "%s: got %v", c.what, got)
	}
}
