package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// inShards divides a queue into n shards.
func inShards(n, limit int) func(*queue.Options) {
	return func(o *queue.Options) { o.Shards, o.ThrottleLimit = n, limit }
}

// addIn adds a job to one of the queue's shards and returns its id.
func (s env) addIn(shard int, j job.Params) int64 {
	s.t.Helper()
	j.Type = "send"
	for n := 0; ; n++ { // a shard key that belongs there
		j.ShardKey = fmt.Sprint("key ", n)
		if id := s.add(j)[0].ID; s.get(id).Shard() == shard {
			return id
		} else if err := s.Cancel(s.t.Context(), id); err != nil {
			s.t.Fatal(err)
		}
	}
}

// otherwise is the queue under a config with another division.
func (s env) otherwise(n int) env {
	s.t.Helper()
	o := s.Options
	o.Shards = n
	return envOf(s.t, s.db, must[*queue.Queue](s.t)(queue.New(s.db, o)))
}

// tick waits until the database's clock advances: SQLite's has milliseconds.
func (s env) tick() {
	s.t.Helper()
	clock := func() time.Time { return must[time.Time](s.t)(s.db.SQL.Clock(s.t.Context())) }
	for before := clock(); !clock().After(before); {
	}
}

func (s env) states() []admin.ShardState {
	s.t.Helper()
	return must[admin.Overview](s.t)(s.Overview(s.t.Context())).Shards
}

// Each shard's state: its jobs and its share of the limit.
func TestShardStates(t *testing.T) {
	change := func(o *queue.Options) {
		inShards(4, 8)(o)
		o.Rate = job.Rate{Starts: 40, Per: time.Hour}
	}
	suiteWith(t, change, func(s env) {
		first := s.addIn(2, job.Params{})
		s.addIn(2, job.Params{})
		s.addIn(3, job.Params{In: time.Hour})
		s.startIn("w", 2, 1)
		s.exec("INSERT INTO shop_emails (job_type) VALUES ('send')") // in no shard yet
		all := s.states()
		require(t, len(all) == 4, "%+v", all)
		for i, of := range all {
			want := admin.ShardState{Share: 2, RateShare: 10}
			want.Closed = of.Closed // by addIn
			if i == 2 {
				want.Due, want.Running, want.Used, want.RateUsed, want.OldestDue = 1, 1, 1, 1, of.OldestDue
				ensure(t, !want.OldestDue.IsZero(), "no oldest due")
			}
			if i == 3 {
				want.Scheduled = 1
			}
			equal(t, of, want)
		}
		equal(t, s.get(first).State(), job.Running, "the first")
		equal(t, must[admin.Overview](t)(s.Overview(t.Context())).Misplaced, 0, "misplaced")
		s.exec("UPDATE shop_emails SET shard = 9001 WHERE status = 'available'")
		s.exec("UPDATE shop_emails SET shard = 1000 WHERE status = 'scheduled'")
		equal(t, must[admin.Overview](t)(s.Overview(t.Context())).Misplaced, 2, "misplaced")
		equal(t, must[int64](t)(s.Misplaced(t.Context())), 2, "misplaced")
		d := must[admin.Division](t)(s.otherwise(8).Division(t.Context()))
		ensure(t, d.Of == 4 && errors.Is(d.Otherwise, queue.ErrShards), "%+v", d)
		d = must[admin.Division](t)(s.otherwise(0).Division(t.Context()))
		ensure(t, d.Of == 4 && d.Otherwise == nil && d.Place(3) == 4003, "%+v", d)
	})
}

// A start resets the time since when a shard has started nothing; a start that leaves no job waiting clears it.
func TestWaitsSince(t *testing.T) {
	parallel(t)
	for column, change := range map[string]func(*queue.Options){
		"share":      inShards(4, 8),
		"rate_share": func(o *queue.Options) { o.Shards, o.Rate = 4, job.Rate{Starts: 8, Per: time.Hour} },
	} {
		t.Run(column, func(t *testing.T) {
			suiteWith(t, change, func(s env) {
				for range 4 {
					s.addIn(1, job.Params{})
				}
				since := func(share, slots, want int) time.Time {
					t.Helper()
					s.tick()
					s.exec("UPDATE shop_shards SET "+column+" = ? WHERE queue = 'emails' AND shard = 4001", share)
					n := len(s.in(1, slots).Started)
					require(t, n == want, "%d jobs were started of a share of %d, want %d", n, share, want)
					return s.states()[1].WaitsSince
				}
				first := since(2, 3, 2)
				same := since(2, 3, 0)
				ensure(t, !first.IsZero() && same.Equal(first), "waits since %s, and without a start since %s", first, same)
				next := since(3, 3, 1)
				ensure(t, next.After(first), "waits since %s, and after a start since %s", first, next)
				none := since(8, 3, 1)
				ensure(t, none.IsZero(), "nothing waits, but since %s", none)
				s.addIn(1, job.Params{})
				again := since(4, 3, 0)
				ensure(t, again.After(next), "waits again since %s, which was so before: %s", again, next)
			})
		})
	}
}

// Each shard has its own shares of the limit and of the rate.
func TestWhyOfShards(t *testing.T) {
	change := func(o *queue.Options) {
		inShards(4, 8)(o)
		o.Rate = job.Rate{Starts: 4, Per: time.Hour}
	}
	suiteWith(t, change, func(s env) {
		s.hire("w")
		s.exec("UPDATE shop_workers SET heartbeat = '2036-01-01 00:00:00'")
		s.addIn(1, job.Params{})
		waits, other := s.addIn(1, job.Params{}), s.addIn(2, job.Params{})
		s.startIn("w", 1, 1)
		const rate = "its shard holds 1 of the queue's rate of 4 starts per 1h, which is used up for"
		s.wantWhy(waits, rate, "shard 1 of 4")
		s.wantWhy(other, "nothing stands in its way", "shard 2 of 4")
		s.exec("UPDATE shop_shards SET share = 0 WHERE queue = 'emails' AND shard = 4001")
		s.wantWhy(waits, "its shard holds 0 of 8, 1 are taken there, and its factor is 1; the other shards hold 7", rate, "shard 1 of 4")
		why := must[admin.Why](t)(s.otherwise(8).Why(t.Context(), other, admin.Asker{Handled: []string{"send"}}))
		equal(t, why.Reasons[0].Word, "divided_otherwise")
	})
}

// StartNow gets what other shards hold but don't use, and not what they use.
func TestStartNowDivides(t *testing.T) {
	change := func(o *queue.Options) {
		inShards(4, 4)(o)
		o.Rate = job.Rate{Starts: 12, Per: time.Hour}
	}
	suiteWith(t, change, func(s env) {
		first, second := s.addIn(1, job.Params{}), s.addIn(1, job.Params{ThrottleFactor: new(2)})
		heavy := s.addIn(1, job.Params{ThrottleFactor: new(2)})
		s.hire("w")
		now := func(id int64, want error) {
			t.Helper()
			r := store.NewRound(workers.Worker{ID: "w", Host: "h", PID: 1})
			_, err := s.core().StartNow(t.Context(), r, id)
			ensure(t, errors.Is(err, want), "%v, want %v", err, want)
		}
		now(first, nil)
		now(second, nil)
		of := s.states()[1]
		ensure(t, of.Used == 3 && of.Share == 3, "%+v", of)
		now(heavy, store.ErrNoRoom)
		light := s.addIn(2, job.Params{})
		now(light, nil)
		sum := 0
		for _, of := range s.states() {
			sum += of.Share
			ensure(t, of.Used <= of.Share, "%+v", of)
		}
		equal(t, sum, 4, "the shards hold")
		free := job.Params{ThrottleFactor: new(0)}
		for range 9 { // six of them beyond its quarter of the rate
			now(s.addIn(3, free), nil)
		}
		now(s.addIn(3, free), store.ErrNoRoom)
	})
}
