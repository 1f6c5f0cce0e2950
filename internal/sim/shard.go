package sim

import (
	"math"
	"time"

	"github.com/hipq/hipq/internal/lending"
)

// job is one job.
type job struct {
	number  int // in its shard
	weight  int
	came    time.Duration
	started bool
}

// shard is a shard of the queue, with its row.
type shard struct {
	row
	waiting        []*job
	added, started int
	limit, rate    part
	starts         []time.Duration // in the rate's time
	asked          time.Duration   // when it asked last
}

// part is the shard's part of the limit, or of the rate, and when it asked for more of it.
type part struct {
	lending.Part
	at time.Duration
}

// addShards makes the shards, each with its home's part.
func (s *sim) addShards() {
	sum := 0.0
	for i := range s.Shards {
		s.shards = append(s.shards, &shard{asked: -s.AskEach})
		sum += math.Pow(float64(i+1), -float64(s.Skew))
		s.odds = append(s.odds, sum)
	}
	for i := range s.odds {
		s.odds[i] /= sum
	}
	s.balanceAll()
}

// takesTurns says whether rounds that start jobs take turns.
func (s *sim) takesTurns() bool { return s.Limit > 0 || s.Rate > 0 }

// forget forgets the starts of a shard that don't count any more.
func (s *sim) forget(x *shard) {
	for len(x.starts) > 0 && x.starts[0]+s.Per <= s.now {
		x.starts = x.starts[1:]
	}
	x.rate.Used = len(x.starts)
}

// fits says whether a job may start in a shard.
func (s *sim) fits(x *shard, j *job) bool {
	s.forget(x)
	return (s.Limit == 0 || x.limit.Allows(s.Limit, j.weight)) && (s.Rate == 0 || x.rate.Allows(s.Rate, 1))
}

// start starts the first job of a shard, and sees that all promises are kept.
func (s *sim) start(x *shard) *job {
	j := x.waiting[0]
	x.waiting = x.waiting[1:]
	s.must(!j.started, "a job has started twice")
	s.must(j.number == x.started, "job %d has overtaken job %d", j.number, x.started)
	j.started = true
	x.started++
	x.limit.Used += j.weight
	x.limit.Demand, x.rate.Demand = 0, 0
	x.starts = append(x.starts, s.now)
	s.running++
	s.weight += j.weight
	s.must(s.Limit == 0 || s.weight <= s.Limit || s.running == 1, "%d are running of %d", s.weight, s.Limit)
	s.starts = append(s.starts, s.now)
	if before := s.started - s.Rate; s.Rate > 0 && before >= 0 {
		s.must(s.now-s.starts[before] >= s.Per, "more than %d have started in %v", s.Rate, s.now-s.starts[before])
	}
	s.started++
	s.waits = append(s.waits, s.now-j.came)
	return j
}

// end ends a job, when a round has settled it.
func (s *sim) end(x *shard, j *job) {
	x.limit.Used -= j.weight
	s.running--
	s.weight -= j.weight
	s.finished++
}

// ask asks for more of the limit and of the rate, in a transaction of its own that locks the rows of all shards in their order.
func (s *sim) ask(number int, then func()) {
	x := s.shards[number]
	x.asked = s.now
	s.asks++
	s.lockAll(0, func() {
		s.after(s.work(number, s.Ask+time.Duration(s.Shards)*s.PerRow)+s.Commit, func() {
			s.demand(x)
			s.balanceAll()
			for _, other := range s.shards {
				other.unlock()
			}
			then()
		})
	})
}

func (s *sim) lockAll(from int, then func()) {
	if from == s.Shards {
		then()
		return
	}
	s.shards[from].lock(func() { s.lockAll(from+1, then) })
}

// demand notes what a shard asks for.
func (s *sim) demand(x *shard) {
	if len(x.waiting) == 0 {
		return
	}
	weight := 0
	for _, j := range x.waiting {
		if weight += j.weight; weight >= s.Limit {
			break
		}
	}
	note := func(p *part, demand, first int) {
		if p.Demand == 0 {
			p.Since = int64(s.now)
		}
		p.Demand, p.First, p.at = demand, first, s.now
	}
	note(&x.limit, weight, x.waiting[0].weight)
	note(&x.rate, len(x.waiting), 1)
}

// mayAsk says whether it is time for a shard to ask.
func (s *sim) mayAsk(x *shard) bool {
	return s.Split == Lent && s.takesTurns() && s.now-x.asked >= s.AskEach
}

func (s *sim) balanceAll() {
	s.balance(s.Limit, func(x *shard) *part { return &x.limit })
	s.balance(s.Rate, func(x *shard) *part {
		s.forget(x)
		return &x.rate
	})
}

// balance has a limit divided anew, under the rows of all shards.
func (s *sim) balance(limit int, of func(*shard) *part) {
	parts := make([]lending.Part, 0, s.Shards)
	for _, x := range s.shards {
		p := of(x)
		if p.Demand > 0 && s.now-p.at > s.Lapse {
			p.Demand = 0
		}
		parts = append(parts, p.Part)
	}
	lending.Balance(limit, parts)
	sum := 0
	for i, x := range s.shards {
		of(x).Part = parts[i]
		sum += parts[i].Capacity
	}
	s.must(sum == limit, "the capacities sum to %d, not to %d", sum, limit)
}
