package worker

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// workerOf makes a worker of a queue with so many shards.
func workerOf(t *testing.T, shards int) *worker {
	t.Helper()
	db := dbtest.Open(t, "sqlite", dbtest.SQLite(t), "emails")
	q := dbtest.Must(queue.New(db, queue.Options{Name: "emails", Shards: shards, Types: []job.Type{job.DefaultType("send")}}))(t)
	nothing := handler.Func(func(context.Context, *job.Job) error { return nil })
	return dbtest.Must(newWorker(Params{Queues: []Queue{{Queue: q, Handlers: map[string]handler.Handler{"send": nothing}}}}))(t)
}

// TestPollWakesAShard: what a poll finds is news to the candidates, and room of the rate ends the wait for it. In a queue with shards,
// rounds that wait don't put off the poll, which divides its limits.
func TestPollWakesAShard(t *testing.T) {
	w := workerOf(t, 2)
	w.starts, w.stopStarts = context.WithCancel(t.Context())
	defer w.stopStarts()
	s := w.sources[0]
	for _, one := range s.shards {
		one.waits, one.notBefore = true, time.Now().Add(time.Minute)
	}
	w.poller.see(s, store.Poll{Shards: []bool{true, true}, Free: []bool{true, false}}, nil)
	dbtest.Ensure(t, s.shards[0].mayStart() && !s.shards[1].mayStart(), "%+v %+v", s.shards[0], s.shards[1])
	dbtest.Ensure(t, !reflect.DeepEqual(s.shards[0].candidates, s.store().Candidates(0, s.serves)), "the candidates don't know")
	r := &round{Round: store.NewRound(w.self), shard: s.shards[0], isOut: true}
	s.add(r)
	w.poller.reapAt, s.nextPoll, s.seenSince = time.Now().Add(time.Minute), time.Now(), time.Now()
	next, at := w.poller.next()
	dbtest.Ensure(t, next == s && time.Until(at) <= 0, "the poll is put off for %s", time.Until(at))
}

// TestRoundThatFoundNothingComesBackLate: a round that found nothing may return after a concurrent one that found more jobs.
// Then another round goes out, and its finding counts.
func TestRoundThatFoundNothingComesBackLate(t *testing.T) {
	w := workerOf(t, 1)
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
	dbtest.Ensure(t, s.mayStart(), "what a round has found is forgotten")
	w.dispatcher.land(s, newRound(), store.Done{})
	dbtest.Ensure(t, !s.mayStart(), "what a later round has not found is still looked for")
}

// TestStripeOutlastsARest: a source whose handlers rest, or go on, keeps its part of the jobs that several workers read ahead.
func TestStripeOutlastsARest(t *testing.T) {
	w := workerOf(t, 1)
	s, fresh := w.sources[0], w.sources[0].store().Candidates(0, []string{"send"})
	dbtest.Ensure(t, reflect.DeepEqual(s.shards[0].candidates, fresh), "a stripe before a search for other workers")
	s.stripe(3, 1)
	fresh.Stripe(3, 1)
	s.serve()
	dbtest.Ensure(t, reflect.DeepEqual(s.shards[0].candidates, fresh), "the stripe is lost")
}

// TestRoundOfALeftOutQueue: a queue is left out while a round, whose commit had no reply, waits to be sent again. The worker runs
// what the round has started, and starts nothing else.
func TestRoundOfALeftOutQueue(t *testing.T) {
	for name, want := range map[string]Summary{"committed": {Started: 1, Finished: 1}, "not committed": {}} {
		t.Run(name, func(t *testing.T) {
			dbtest.EachOpen(t, func(t *testing.T, db *schema.DB) {
				q := dbtest.Must(queue.New(db, queue.Options{Name: "emails", Types: []job.Type{job.DefaultType("send")}}))(t)
				for range 2 {
					dbtest.Must(q.Enqueue(t.Context(), job.Params{Type: "send"}))(t)
				}
				nothing := handler.Func(func(context.Context, *job.Job) error { return nil })
				w := dbtest.Must(newWorker(Params{Queues: []Queue{{Queue: q, Handlers: map[string]handler.Handler{"send": nothing}}}}))(t)
				got, err := w.live(t.Context(), func() error {
					s := w.sources[0]
					r := &round{Round: store.NewRound(w.self), shard: s.shards[0]}
					r.Slots, r.Candidates = 1, r.shard.candidates
					s.add(r)
					if want.Started > 0 {
						dbtest.Same(t, len(dbtest.Must(s.store().Round(t.Context(), r.Round))(t).Started), 1, "started")
					}
					r.Again = true
					w.dispatcher.leaveOut("emails", queue.ErrShards)
					return nil
				})
				dbtest.Ensure(t, errors.Is(err, queue.ErrShards), "%v", err)
				dbtest.Same(t, got, want)
				var left int
				dbtest.OK(t, db.SQL.GetContext(t.Context(), &left, "SELECT COUNT(*) FROM "+w.sources[0].store().Table()+" WHERE status = 'available'"))
				dbtest.Same(t, left, 2-want.Started, "jobs left")
			}, "emails")
		})
	}
}

// TestRoomOfItsOwn: a shard fills room left by its own jobs at once, but not others'. Without rate it waits.
func TestRoomOfItsOwn(t *testing.T) {
	db := dbtest.Open(t, "sqlite", dbtest.SQLite(t), "emails")
	q := dbtest.Must(queue.New(db, queue.Options{Name: "emails", Shards: 4, ThrottleLimit: 8}))(t)
	soon := time.Now().Add(time.Hour)
	s := &source{Queue: Queue{Queue: q}, shards: []*shard{
		{}, {}, {notBefore: soon}, {},
	}}
	var settled []store.Settled
	for _, place := range []int{4001, 4002} {
		settled = append(settled, store.Settled{Job: &job.Job{Place: place}})
	}
	d := &dispatcher{loop: &loop{sources: []*source{s}}}
	d.foundRoom(s, settled, nil)
	for number, want := range []bool{false, true, false, false} {
		dbtest.Same(t, s.numbered(number).mayStart(), want, "shard %d: more is", number)
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
		one.found()
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
			one.dueAt = time.Time{}
		}
	}
	got = s.send(9)
	dbtest.Ensure(t, slices.Equal(got, []int{3, 0, 0, 3, 0, 0, 3, 0}), "the shards have had %v rounds", got)
	for _, one := range s.shards {
		one.found()
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

// TestBusyLane: another lane of the queue is busy if its slots run jobs. A slot that a round has only reserved isn't taken: that
// round asks for the job in line, which no other may overtake.
func TestBusyLane(t *testing.T) {
	of := func(queueName, jobType string, running, reserved int) *source {
		q := new(queue.Queue)
		q.Name = queueName
		return &source{Queue: Queue{Queue: q}, types: []string{jobType}, serves: []string{jobType}, lane: &lane{limit: 1, width: 1, slots: 1, running: running, reserved: reserved}}
	}
	this := of("emails", "this", 1, 0)
	d := &dispatcher{loop: &loop{sources: []*source{
		this, of("emails", "runs", 1, 0), of("emails", "reserved", 0, 1), of("emails", "free", 0, 0), of("reports", "runs", 1, 0),
	}}}
	dbtest.Same(t, d.busy(this), []store.Types{{"runs"}})
}

// TestSlotsLeftDelayNoClaim: a job that comes when the worker has just left its slots gets one at once.
func TestSlotsLeftDelayNoClaim(t *testing.T) {
	w := workerOf(t, 1)
	enough := errors.New("enough")
	_, err := w.live(t.Context(), func() error {
		s := w.slots
		s.host.slots, s.claimedAt, s.spareSince = 1, time.Now().Add(-time.Minute), time.Now().Add(-leaveAfter)
		s.balance()
		dbtest.OK(t, (<-w.landed)())
		dbtest.Same(t, s.host.slots, 0, "slots")
		w.sources[0].foundAny()
		dbtest.Ensure(t, s.due(s.wants()) <= 0, "a claim waits for %s", s.due(s.wants()))
		return enough
	})
	dbtest.Ensure(t, errors.Is(err, enough), "%v", err)
}

// TestOverdue: a worker without jobs gives up when it has waited too long for its database; a hunt for a dead worker's processes,
// or a stop of its own process, isn't such a wait.
func TestOverdue(t *testing.T) {
	for name, also := range map[string]func(*worker){
		"": func(*worker) {}, "hunt": func(w *worker) { w.poller.hunts.Add(1) }, "stop": func(w *worker) { w.wakes(time.Now().Add(-time.Minute)) },
	} {
		l := &loop{Params: Params{Options: Options{Grace: time.Second}}}
		l.starts, l.stopStarts = context.WithCancel(t.Context())
		l.stopStarts()
		w := &worker{loop: l, slots: &slots{loop: l, host: &lane{}}, poller: &poller{loop: l}, quietSince: time.Now().Add(-time.Minute)}
		also(w)
		err := w.overdue()
		dbtest.Ensure(t, errors.Is(err, schema.ErrNoAnswer) == (name == ""), "%s: %v", name, err)
	}
}

// TestTheServerLetsNobodyIn: a running worker waits while the server refuses its connection, because it has too many, or because of
// the user: no right to the database, a wrong or expired password, a host that isn't allowed, an account that is locked or gone.
func TestTheServerLetsNobodyIn(t *testing.T) {
	for _, number := range []uint16{1040, 1203, 1226, 1044, 1045, 1130, 1396, 1698, 1820, 1862, 3118, 3955, 4151} {
		dbtest.Ensure(t, passes(&mysql.MySQLError{Number: number}), "%d ends the worker", number)
	}
	for _, number := range []uint16{1049, 1064, 1142, 1143, 1146} { // no database, no table, no right to a table, a wrong statement
		dbtest.Ensure(t, !passes(&mysql.MySQLError{Number: number}), "the worker waits after %d", number)
	}
}

// TestZeroOptions: zero options are the documented defaults.
func TestZeroOptions(t *testing.T) {
	q := dbtest.Must(queue.New(dbtest.Open(t, "sqlite", dbtest.SQLite(t), "emails"), queue.Options{Name: "emails"}))(t)
	w := dbtest.Must(newWorker(Params{Queues: []Queue{{Queue: q}}}))(t)
	dbtest.Same(t, w.Options, DefaultOptions, "worker")
	want := queue.Options{Name: "emails", Location: time.UTC, KeepFinished: queue.DefaultKeepFinished, KeepFailed: queue.DefaultKeepFailed}
	dbtest.Ensure(t, reflect.DeepEqual(q.Options, want), "queue: %+v", q.Options)
}
