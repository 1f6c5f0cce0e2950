package lending

import (
	"testing"

	"pgregory.net/rapid"
)

// queue is a queue in shards, as its rows have it: jobs start only in order, only as their shard's row allows.
type queue struct {
	limit   int
	parts   []Part
	waiting [][]int // the weights of the jobs of each shard that wait
	running [][]int
	now     int64
}

func newQueue(limit, shards int) *queue {
	q := &queue{limit: limit, parts: make([]Part, shards), waiting: make([][]int, shards), running: make([][]int, shards)}
	Balance(limit, q.parts)
	return q
}

func (q *queue) used() int {
	_, _, used := sums(q.parts)
	return used
}

// round starts what a shard may start, and says how many jobs these were. What it has asked for is over then. It fails where they
// run over the limit.
func (q *queue) round(t *rapid.T, shard int) (started int) {
	p := &q.parts[shard]
	for ; len(q.waiting[shard]) > 0 && p.Allows(q.limit, q.waiting[shard][0]); started++ {
		weight := q.waiting[shard][0]
		if used := q.used(); used > 0 && used+weight > q.limit {
			t.Fatalf("with %d used of %d a job of %d has started: %+v", used, q.limit, weight, q.parts)
		}
		q.waiting[shard] = q.waiting[shard][1:]
		q.running[shard] = append(q.running[shard], weight)
		p.Used += weight
		p.Demand, p.First = 0, 0
	}
	return started
}

// ask is a round and what follows it when it leaves a job waiting.
func (q *queue) ask(t *rapid.T, shard int) (started int) {
	started = q.round(t, shard)
	p := &q.parts[shard]
	if len(q.waiting[shard]) == 0 {
		p.Demand, p.First = 0, 0
		return started
	}
	if p.Demand == 0 {
		q.now++
		p.Since = q.now
	}
	p.First, p.Demand = q.waiting[shard][0], 0
	for _, weight := range q.waiting[shard] {
		p.Demand += weight
	}
	Balance(q.limit, q.parts)
	checkSums(t, q.limit, q.parts)
	return started + q.round(t, shard)
}

// end ends a job.
func (q *queue) end(shard, i int) {
	r := q.running[shard]
	q.parts[shard].Used -= r[i]
	q.running[shard] = append(r[:i:i], r[i+1:]...)
}

// Whatever jobs come, start and end, whoever asks, and although the limit changes: no job starts above the limit, but one alone.
func TestLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newQueue(rapid.IntRange(1, 20).Draw(t, "limit"), rapid.IntRange(1, 6).Draw(t, "shards"))
		anyShard := rapid.IntRange(0, len(q.parts)-1)
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
				p := &q.parts[anyShard.Draw(t, "shard")]
				p.Demand, p.First = 0, 0
			},
			"another limit": func(t *rapid.T) {
				q.limit = rapid.IntRange(1, 20).Draw(t, "limit")
				Balance(q.limit, q.parts)
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
					t.Fatalf("shard %d has waited for %d turns: %+v", i, waited[i], q.parts)
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
		a := rapid.IntRange(0, len(q.parts)-2).Draw(t, "a")
		b := rapid.IntRange(a+1, len(q.parts)-1).Draw(t, "b")
		q.waiting[a], q.waiting[b] = []int{heavy.Draw(t, "heavy")}, []int{heavy.Draw(t, "heavy")}
		if q.ask(t, a) != 1 || q.ask(t, b) != 0 {
			t.Fatalf("who asks first goes: %+v", q.parts)
		}
		q.end(a, 0)
		if q.ask(t, b) != 1 {
			t.Fatalf("when the first has ended, the other goes: %+v", q.parts)
		}
	})
}

// Where a limit is lowered below what is used, nothing starts until less is used; then what becomes free is for whoever has
// waited longest.
func TestLimitLowered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newQueue(10, 3)
		for i := range q.parts {
			q.waiting[i] = []int{1, 1, 1, 1, 1, 1, 1, 1}
			q.ask(t, i)
		}
		if q.used() != 10 {
			t.Fatalf("%d are used of 10", q.used())
		}
		q.limit = 4
		Balance(q.limit, q.parts)
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
			for i := range q.parts {
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
		for i := range q.parts {
			q.running[i] = rapid.SliceOfN(rapid.IntRange(1, 3), 0, 6).Draw(t, "running")
			q.waiting[i] = rapid.SliceOfN(rapid.IntRange(1, 3), 0, 6).Draw(t, "waiting")
			p := &q.parts[i]
			for _, weight := range q.running[i] {
				p.Used += weight
			}
			if len(q.waiting[i]) > 0 && rapid.Bool().Draw(t, "asks") {
				p.Demand, p.First, p.Since = 10, q.waiting[i][0], rapid.Int64Range(0, 9).Draw(t, "since")
			}
		}
		Balance(q.limit, q.parts)
		for len(busy(q)) > 0 {
			q.end(rapid.SampledFrom(busy(q)).Draw(t, "ends"), 0)
			for i := range q.parts {
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
