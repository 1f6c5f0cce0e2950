// Package sim simulates a queue in many shards, and many workers, with neither a database nor a clock: claims, limits and lending in
// the time that transactions take. The limits are divided by the package lending itself. A run with the same Config is the same run.
// docs/scaling.md has what it says, and where its figures come from.
package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"
)

// Split is how a queue's limit is held.
type Split int

// The ways to hold a limit.
const (
	Unsplit Split = iota // in one row, by which all workers take turns
	Divided              // each shard has its part, for good
	Lent                 // each shard has its part, and lends what it doesn't use
)

func (s Split) String() string { return [...]string{"unsplit", "divided", "lent"}[s] }

// Skew is how jobs spread over shards.
type Skew float64

// Uniform spreads them evenly, Zipf by one over the shard's rank, Hot puts all into one.
const (
	Uniform Skew = 0
	Zipf    Skew = 1
	Hot     Skew = math.MaxInt32
)

// Config is what is simulated. A limit or a rate of 0 is none.
type Config struct {
	Seed            uint64
	Split           Split
	Shards, Workers int
	Slots           int // of each worker
	Limit           int
	Rate            int // starts
	Per             time.Duration
	Arrive          float64       // jobs a second
	For             time.Duration // so long they come
	Drain           bool          // and then the run goes on until all have ended
	Skew            Skew
	Weights         []int         // of the jobs, as often as they are here
	Service         time.Duration // of a job, on average
	Costs
}

// Costs are what the database takes for what workers ask of it.
type Costs struct {
	Nodes, Cores int           // shards are spread over the nodes; each works on as many transactions as it has cores
	Commit       time.Duration // what each transaction waits for besides its work: round trips, the disk
	Round        time.Duration // work of a round
	Turn         time.Duration // more work of one that takes its turn, for there is a limit or a rate
	PerJob       time.Duration // and of each job that it settles or starts
	Enqueue      time.Duration // work of a job that is added
	Look         time.Duration // work of a look
	Ask          time.Duration // work of a transaction that asks for more of a limit
	PerRow       time.Duration // and of each shard's row in it
	LookEach     time.Duration // a worker looks so often
	AskEach      time.Duration // a shard asks so often at most
	Lapse        time.Duration // what a shard asks for lapses unless it is renewed
	Help         int           // so many shards a look looks at besides the home, in turn
	Blind        bool          // looks don't see whether there is room
}

// Measured are the costs measured on MariaDB, on a machine of two cores: see docs/scaling.md.
func Measured() Costs {
	return Costs{
		Nodes: 1, Cores: 16, Commit: 700 * time.Microsecond,
		Round: 1200 * time.Microsecond, Turn: 900 * time.Microsecond, PerJob: 50 * time.Microsecond, // starting and settling: 100
		Enqueue: 35 * time.Microsecond, Look: 600 * time.Microsecond, Ask: 450 * time.Microsecond, PerRow: 6 * time.Microsecond,
		LookEach: time.Second, AskEach: 250 * time.Millisecond, Lapse: 2 * time.Second, Help: 16,
	}
}

// Result is what came of it.
type Result struct {
	Added, Started, Finished       int           // jobs
	Throughput, Rounds, Asks, Busy float64       // jobs finished, rounds, asks, cores at work, in the second half of Config.For, a second
	Waits                          Waits         // of the jobs, from when they came to when they started, in ascending order
	Ended                          time.Duration // when the last job had
}

// Waits are how long jobs waited.
type Waits []time.Duration

// Quantile gives the wait that a part q of the jobs had at most.
func (w Waits) Quantile(q float64) time.Duration {
	if len(w) == 0 {
		return 0
	}
	return w[min(int(q*float64(len(w))), len(w)-1)]
}

// sim is a run.
type sim struct {
	Config
	clock
	*rand.Rand
	nodes   []node
	shards  []*shard
	odds    []float64       // by shard: the part of the jobs that are for it or for one before it
	count                   // so far
	running int             // jobs
	weight  int             // of them
	starts  []time.Duration // all, for the rate
	waits   Waits
}

// count is how often something has happened.
type count struct {
	added, started, finished, rounds, asks int
	worked                                 time.Duration
}

// Run simulates a queue. An error is a promise that was broken, or jobs that had not ended a hundred times as long after they came.
func Run(c Config) (r Result, err error) {
	s := &sim{Config: c, Rand: rand.New(rand.NewPCG(c.Seed, 0)), nodes: make([]node, c.Nodes)}
	defer func() {
		switch broken := recover().(type) {
		case nil:
		case promise:
			err = fmt.Errorf("after %v: %s", s.now, string(broken))
		default:
			panic(broken)
		}
	}()
	if c.Split == Unsplit {
		s.Shards = 1
	}
	for i := range s.nodes {
		s.nodes[i] = make(node, c.Cores)
	}
	s.addShards()
	for i := range c.Workers {
		w := &worker{sim: s, home: i % s.Shards, turn: i, free: c.Slots, more: map[int]bool{}, out: map[int]bool{}, ended: map[int][]*job{}}
		s.after(time.Duration(s.Float64()*float64(c.LookEach)), w.look)
	}
	s.after(0, s.arrive)
	for s.now < c.For/2 && s.step() {
	}
	half, from := s.count, s.now
	for s.now < c.For && s.step() {
	}
	full, took := s.count, (s.now - from).Seconds()
	for c.Drain && s.finished < s.added && s.step() {
		s.must(s.now < 100*c.For, "%d jobs of %d have not ended", s.added-s.finished, s.added)
	}
	slices.Sort(s.waits)
	return Result{
		Added: s.added, Started: s.started, Finished: s.finished, Waits: s.waits, Ended: s.now,
		Throughput: float64(full.finished-half.finished) / took, Rounds: float64(full.rounds-half.rounds) / took,
		Asks: float64(full.asks-half.asks) / took, Busy: (full.worked - half.worked).Seconds() / took,
	}, nil
}

// promise is one that was broken.
type promise string

// must ends the run unless a promise is kept.
func (s *sim) must(kept bool, format string, args ...any) {
	if !kept {
		panic(promise(fmt.Sprintf(format, args...)))
	}
}

// arrive adds a job, and comes again for the next.
func (s *sim) arrive() {
	if s.now >= s.For {
		return
	}
	at := sort.SearchFloat64s(s.odds, s.Float64())
	to := s.shards[at]
	to.waiting = append(to.waiting, &job{number: to.added, weight: s.Weights[s.IntN(len(s.Weights))], came: s.now})
	to.added++
	s.added++
	s.work(at, s.Enqueue)
	s.after(time.Duration(s.ExpFloat64()/s.Arrive*float64(time.Second)), s.arrive)
}
