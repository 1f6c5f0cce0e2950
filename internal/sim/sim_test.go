package sim

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// large is a queue of 64 shards with 1,000 workers, to which a fifth more comes than its limit lets through.
func large(t *testing.T, limit int, service time.Duration) Config {
	if testing.Short() {
		t.Skip("it computes for seconds")
	}
	return Config{
		Seed: 1, Split: Lent, Shards: 64, Workers: 1000, Slots: 4, Limit: limit, Weights: []int{1}, Service: service,
		Arrive: 1.2 * float64(limit) / service.Seconds(), For: 10 * time.Second, Costs: Measured(),
	}
}

// run runs a simulation that keeps all promises.
func run(t *testing.T, c Config) Result {
	t.Helper()
	r, err := Run(c)
	if err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
	return r
}

// However jobs come, whatever they weigh, and whatever limits and rates there are: the limit and the rate hold at each start, no job
// starts twice, none overtakes another in its shard, and all start and end.
func TestPromises(t *testing.T) {
	for seed := range uint64(150) {
		random := rand.New(rand.NewPCG(seed, 1))
		c := Config{
			Seed: seed, Split: Split(random.IntN(3)), Shards: 1 + random.IntN(8), Workers: 1 + random.IntN(20), Slots: 1 + random.IntN(5),
			Weights: []int{1}, Skew: []Skew{Uniform, Zipf, Hot}[random.IntN(3)], Arrive: 40, For: 5 * time.Second, Drain: true,
			Service: time.Duration(1+random.IntN(300)) * time.Millisecond, Costs: Measured(),
		}
		c.Blind = random.IntN(2) == 0
		c.Nodes, c.Cores = 1+random.IntN(3), 1+random.IntN(2)
		if random.IntN(4) > 0 {
			c.Limit = 1 + random.IntN(20)
			for range random.IntN(4) {
				c.Weights = append(c.Weights, 1+random.IntN(25)) // perhaps more than a part, or than the limit
			}
		}
		if random.IntN(3) == 0 {
			c.Rate, c.Per = 20+random.IntN(40), time.Second
		}
		if c.Split == Divided { // whose parts may be too small for some jobs, for good
			c.Drain = false
		}
		r := run(t, c)
		if c.Drain && (r.Added == 0 || r.Started != r.Added || r.Finished != r.Added) {
			t.Fatalf("%+v: of %d jobs %d have started, and %d ended", c, r.Added, r.Started, r.Finished)
		}
	}
}

// A run with the same config is the same run.
func TestSame(t *testing.T) {
	c := large(t, 50, 100*time.Millisecond)
	c.Skew = Zipf
	if a, b := run(t, c), run(t, c); !reflect.DeepEqual(a, b) {
		t.Fatalf("%d and %d jobs have started", a.Started, b.Started)
	}
}

// Wherever the jobs are, a limit that is lent lets nearly as many through as one that is not split, or more, for it has no row by which
// all workers take turns. One that is only divided loses what the shards don't use that have few jobs.
func TestSkew(t *testing.T) {
	t.Log("limit 200, jobs a second: unsplit, divided, lent")
	for _, service := range []time.Duration{100 * time.Millisecond, time.Second} {
		for _, spread := range []struct {
			name string
			skew Skew
		}{{"uniform", Uniform}, {"Zipf", Zipf}, {"one hot shard", Hot}} {
			by := map[Split]Result{}
			for _, split := range []Split{Unsplit, Divided, Lent} {
				c := large(t, 200, service)
				c.Split, c.Skew = split, spread.skew
				by[split] = run(t, c)
			}
			unsplit, divided, lent := by[Unsplit].Throughput, by[Divided].Throughput, by[Lent].Throughput
			t.Logf("jobs of %4v, %-13s: %6.0f %6.0f %6.0f; rounds %4.0f %4.0f %4.0f, asks %3.0f, cores %.1f %.1f %.1f", service, spread.name, unsplit, divided, lent,
				by[Unsplit].Rounds, by[Divided].Rounds, by[Lent].Rounds, by[Lent].Asks, by[Unsplit].Busy, by[Divided].Busy, by[Lent].Busy)
			if lent < 0.8*unsplit {
				t.Errorf("jobs of %v, %s: lent %.0f/s, unsplit %.0f/s", service, spread.name, lent, unsplit)
			}
			if service == time.Second && spread.skew != Uniform && divided > 0.8*unsplit {
				t.Errorf("jobs of %v, %s: a plain division loses nothing any more: %.0f/s of %.0f/s", service, spread.name, divided, unsplit)
			}
		}
	}
}

// The same with a rate.
func TestSkewOfARate(t *testing.T) {
	by := map[Split]float64{}
	for _, split := range []Split{Unsplit, Divided, Lent} {
		c := large(t, 0, 100*time.Millisecond)
		c.Split, c.Skew, c.Rate, c.Per, c.Arrive = split, Zipf, 128, time.Second, 150
		by[split] = run(t, c).Throughput
	}
	t.Logf("a rate of 128/s, Zipf: unsplit %.0f/s, divided %.0f/s, lent %.0f/s", by[Unsplit], by[Divided], by[Lent])
	if by[Lent] < 0.8*by[Unsplit] || by[Divided] > 0.8*by[Unsplit] {
		t.Errorf("lent %.0f/s, divided %.0f/s, unsplit %.0f/s", by[Lent], by[Divided], by[Unsplit])
	}
}

// Jobs that weigh more than a shard's part, and some that weigh more than the limit, wait for their turn, and don't hold up the rest.
func TestHeavyJobs(t *testing.T) {
	by := map[Split]Result{}
	for _, split := range []Split{Unsplit, Lent} {
		c := large(t, 200, 200*time.Millisecond)
		c.Split, c.Skew, c.Drain, c.Weights = split, Zipf, true, make([]int, 200)
		for i := range c.Weights {
			c.Weights[i] = 1 + i%20
		}
		c.Weights[0] = 300
		c.Arrive = 1.2 * 200 / 12 / c.Service.Seconds() // they weigh 12 on average
		by[split] = run(t, c)
		r := by[split]
		t.Logf("%s: %.0f/s, half of the jobs waited %v, one in a hundred %v, one %v", split, r.Throughput, r.Waits.Quantile(.5).Round(time.Millisecond),
			r.Waits.Quantile(.99).Round(time.Millisecond), r.Waits.Quantile(1).Round(time.Millisecond))
	}
	if u, l := by[Unsplit].Ended, by[Lent].Ended; l > u*5/4 {
		t.Errorf("lent they had ended after %v, unsplit after %v", l, u)
	}
}

// What workers lose who try each second although there is no room: the row by which they take turns is busy with that.
func TestBlindLooks(t *testing.T) {
	for _, split := range []Split{Unsplit, Lent} {
		c := large(t, 200, time.Second)
		c.Split, c.Skew = split, Zipf
		seeing := run(t, c)
		c.Blind = true
		blind := run(t, c)
		t.Logf("%s: looks that see whether there is room %.0f/s in %.0f rounds, blind ones %.0f/s in %.0f", split, seeing.Throughput, seeing.Rounds, blind.Throughput, blind.Rounds)
		if blind.Throughput > 0.8*seeing.Throughput {
			t.Errorf("blind looks lose nothing any more")
		}
	}
}

// A billion jobs a day, at five times their average, in databases of two cores with four shards each. Nobody helps in another
// database. Each job that ends may have a round of its own; where these take long, more jobs share one.
func TestBillionADay(t *testing.T) {
	const arrive = 58_000
	done := map[int]float64{}
	for _, databases := range []int{4, 8, 16} {
		c := large(t, 0, 200*time.Millisecond)
		c.Shards, c.Workers, c.Slots, c.Arrive, c.For = 4*databases, 256, 128, arrive, 2500*time.Millisecond
		c.Nodes, c.Cores, c.Help = databases, 2, 0
		r := run(t, c)
		done[databases] = r.Throughput
		t.Logf("%2d databases: %.0f/s in %.0f rounds, half of the jobs waited %v, one in a hundred %v", databases, r.Throughput, r.Rounds,
			r.Waits.Quantile(.5).Round(time.Millisecond), r.Waits.Quantile(.99).Round(time.Millisecond))
	}
	if done[16] < 0.95*arrive || done[4] > 0.95*arrive {
		t.Errorf("of %d/s, 16 databases do %.0f/s, and 4 do %.0f/s", arrive, done[16], done[4])
	}
}
