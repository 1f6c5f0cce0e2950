package worker

import (
	"context"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// Of two rounds side by side, the one that has found nothing may come back after the one that has found more: so there is a
// use for another, and what that one says holds.
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

// A shard fills at once what its own jobs leave, and not what others' leave. One whose rate is used up waits.
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
