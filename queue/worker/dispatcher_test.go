package worker

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// TestRoundThatFoundNothingComesBackLate: a round that found nothing may return after a concurrent one that found more jobs.
// Then another round goes out, and its finding counts.
func TestRoundThatFoundNothingComesBackLate(t *testing.T) {
	db := dbtest.Open(t, "sqlite", dbtest.SQLite(t), "emails")
	q := dbtest.Must(queue.New(db, queue.Options{Name: "emails", Types: []job.Type{job.DefaultType("send")}}))(t)
	nothing := handler.Func(func(context.Context, *job.Job) error { return nil })
	w := dbtest.Must(newWorker(Params{Queues: []Queue{{Queue: q, Handlers: map[string]handler.Handler{"send": nothing}}}}))(t)
	w.starts, w.stopStarts = context.WithCancel(t.Context())
	defer w.stopStarts()
	s := w.sources[0]
	newRound := func() *round {
		r := &round{Round: store.NewRound(w.self), shard: s.shards[0], sent: time.Now()}
		r.Slots = 1
		s.add(r)
		return r
	}
	without, with := newRound(), newRound()
	w.dispatcher.land(s, with, store.Done{More: true})
	w.dispatcher.land(s, without, store.Done{})
	dbtest.Ensure(t, s.more(), "what a round has found is forgotten")
	w.dispatcher.land(s, newRound(), store.Done{})
	dbtest.Ensure(t, !s.more(), "what a later round has not found is still looked for")
}

// TestRoomOfItsOwn: a shard fills room left by its own jobs at once, but not others'. Without rate it waits.
func TestRoomOfItsOwn(t *testing.T) {
	db := dbtest.Open(t, "sqlite", dbtest.SQLite(t), "emails")
	q := dbtest.Must(queue.New(db, queue.Options{Name: "emails", Shards: 4, ThrottleLimit: 8}))(t)
	soon := time.Now().Add(time.Hour)
	s := &source{Queue: Queue{Queue: q}, shards: []*shard{
		{full: true}, {full: true}, {waitUntil: soon}, {full: true},
	}}
	var settled []store.Settled
	for _, place := range []int{4001, 4002} {
		settled = append(settled, store.Settled{Job: &job.Job{Place: place}})
	}
	d := &dispatcher{loop: &loop{sources: []*source{s}}}
	d.foundRoom(s, settled, nil)
	for number, want := range []bool{false, true, false, false} {
		dbtest.Same(t, s.numbered(number).more(), want, "shard %d: more is", number)
	}
}

// sharded is a source of n shards that all have jobs to start; it prefers these.
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

// send sends n rounds and counts them by shard.
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

// TestShardsTakeTurns: the shard served longest ago comes first, also when some shards have no jobs for a while.
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

// TestPreferredShards: preferred shards get most rounds, and the others some.
func TestPreferredShards(t *testing.T) {
	s := sharded(t, 8, 2, 5)
	got := s.send(320)
	for number, n := range got {
		most := number == 2 || number == 5
		dbtest.Ensure(t, (!most || n >= 100) && (most || n >= 3 && n <= 20), "of 320 rounds the shards have had %v", got)
	}
}
