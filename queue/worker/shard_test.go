package worker

import (
	"slices"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
)

// sharded is a source with so many shards, in all of which there is something to start; it prefers these.
func sharded(t *testing.T, n int, preferred ...int) *source {
	t.Helper()
	db := dbtest.Open(t, "sqlite", dbtest.SQLite(t), "emails")
	q := dbtest.Must(queue.New(db, queue.Options{Name: "emails", Shards: n}))(t)
	w := dbtest.Must(newWorker(Params{Queues: []Queue{{Queue: q}}, Shards: preferred}))(t)
	s := w.sources[0]
	for _, one := range s.shards {
		one.foundMore()
	}
	return s
}

// send sends so many rounds, and counts those of each shard.
func (s *source) send(n int) []int {
	rounds := make([]int, len(s.shards))
	for range n {
		one := s.next()
		s.counted++
		one.lastRound = s.counted
		rounds[slices.Index(s.shards, one)]++
	}
	return rounds
}

// The shard whose last round is longest ago comes first, also where some have nothing to start for a while.
func TestShardsTakeTurns(t *testing.T) {
	s := sharded(t, 8)
	got := s.send(24)
	dbtest.Ensure(t, slices.Equal(got, []int{3, 3, 3, 3, 3, 3, 3, 3}), "the shards have had %v rounds", got)
	for number, one := range s.shards {
		if number%3 > 0 {
			one.moreAt = time.Time{}
		}
	}
	got = s.send(9)
	dbtest.Ensure(t, slices.Equal(got, []int{3, 0, 0, 3, 0, 0, 3, 0}), "the shards have had %v rounds", got)
	for _, one := range s.shards {
		one.foundMore()
	}
	got = s.send(5)
	dbtest.Ensure(t, got[0] <= 0 && got[3] <= 0 && got[6] <= 0, "those that have waited come first, and the shards have had %v rounds", got)
}

// Preferred shards have most of the turns, and the others some.
func TestPreferredShards(t *testing.T) {
	s := sharded(t, 8, 2, 5)
	got := s.send(320)
	for number, n := range got {
		most := number == 2 || number == 5
		dbtest.Ensure(t, (!most || n >= 100) && (most || n >= 3 && n <= 20), "of 320 rounds the shards have had %v", got)
	}
}
