package worker

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hipq/hipq/schema"
)

// Whatever hosts and nodes there are: each shard is at home with somebody, and by hosts alone with one of them.
func TestEachShardIsAtHome(t *testing.T) {
	for _, of := range []int{0, 2, 3, 5} {
		for count := 1; count < 12; count++ {
			hosts := make([]string, count)
			for i := range hosts {
				hosts[i] = fmt.Sprintf("host%d", i)
			}
			slices.Sort(hosts)
			for _, n := range []int{1, 2, 8, 64} {
				times := make([]int, n)
				for _, host := range hosts {
					at := surroundings{host: host, hosts: hosts, of: of}
					if of > 0 {
						at.nodes = []int{schema.NodeOf(host, of)}
					}
					for _, shard := range at.home(n) {
						times[shard]++
					}
				}
				for shard, homes := range times {
					if homes == 0 || of == 0 && n >= count && homes > 1 {
						t.Errorf("%d hosts, %d nodes: shard %d of %d is at home with %d", count, of, shard, n, homes)
					}
				}
			}
		}
	}
}

// A host that has passed nodes over is at home in their shards too, and one that is not known yet counts itself.
func TestHomeOfAHost(t *testing.T) {
	for _, c := range []struct {
		at   surroundings
		want []int
	}{
		{surroundings{host: "a"}, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		{surroundings{host: "b", hosts: []string{"a", "c"}}, []int{1, 4, 7}},
		{surroundings{host: "a", hosts: []string{"a", "b"}, nodes: []int{1, 2}, of: 3}, nil},
		{surroundings{host: "c", hosts: []string{"a", "b", "c"}, nodes: []int{0, 1, 2}, of: 3}, []int{0, 1, 2, 3, 4, 5, 6, 7}},
	} {
		got := c.at.home(8)
		if c.want == nil { // those of the two nodes, and perhaps some of the third, if nobody is there
			c.want = slices.DeleteFunc(slices.Clone(got), func(shard int) bool { return shard%3 == 0 })
			if !slices.Equal(c.want, []int{1, 2, 4, 5, 7}) {
				t.Errorf("%+v: %v", c.at, got)
			}
			continue
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.at, got, c.want)
		}
	}
}

// sharded is a source with so many shards, in all of which there is something to start, and these at home.
func sharded(n int, home ...int) *source {
	s := &source{Queue: Queue{Queue: nil}, surveyed: true}
	for number := range n {
		s.shards = append(s.shards, &shard{number: number, more: true})
	}
	s.moveTo(home)
	return s
}

// Of many looks, each has the shards at home and some of the others, and all are looked at in turn.
func TestLooksAtAllShardsInTurn(t *testing.T) {
	s := sharded(50, 3, 4)
	seen := map[int]int{}
	for range 3 {
		numbers := s.toLookAt()
		if !slices.Equal(numbers[:2], []int{3, 4}) || len(numbers) != 2+othersMax {
			t.Errorf("it looks at %v", numbers)
		}
		for _, number := range numbers {
			seen[number]++
		}
	}
	if len(seen) != 50 || seen[3] != 3 {
		t.Errorf("%d shards of 50 have been looked at", len(seen))
	}
	if s.surveyed = false; s.toLookAt() != nil {
		t.Error("the first look is not at all of them")
	}
	if one := sharded(4, 9); one.home != 4 || len(one.toLookAt()) != 4 {
		t.Error("a source without a home is not at home everywhere")
	}
}

// While there is something to do at home, the other shards have a share of the rounds, each in its turn; then they have all.
func TestOtherShardsHaveTheirShare(t *testing.T) {
	s := sharded(8, 2, 5)
	rounds := make([]int, 8)
	send := func(n int) {
		for range n {
			one := s.next()
			s.startsIn(one)
			rounds[one.number]++
		}
	}
	send(6 * helpEvery)
	if !slices.Equal(rounds, []int{1, 1, 48, 1, 1, 42, 1, 1}) {
		t.Errorf("the shards have had %v rounds", rounds)
	}
	s.shards[0].more, s.shards[1].more = false, false
	clear(rounds)
	send(12)
	if !slices.Equal(rounds, []int{2, 2, 0, 2, 2, 0, 2, 2}) {
		t.Errorf("with nothing to do at home the shards have had %v rounds", rounds)
	}
	s.moveTo([]int{0})
	clear(rounds)
	send(helpEvery - 1)
	if s.home != 1 || rounds[0] < helpEvery-2 {
		t.Errorf("after a move the shards have had %v rounds", rounds)
	}
}
