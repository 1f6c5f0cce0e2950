package store_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// place is a job's place in the table.
func (s env) place(id int64) int {
	s.t.Helper()
	return value[int](s, "SELECT shard FROM shop_emails WHERE id = ?", id)
}

// inEight divides a queue with a limit into eight shards.
func inEight(limit int) func(*queue.Options) {
	return func(o *queue.Options) { o.ThrottleLimit, o.Shards = limit, 8 }
}

// Whatever shard was written into a row by hand, in any status, the job gets its place, counts, and is done.
func TestMisplacedInEachLine(t *testing.T) {
	wild := []int{-2147483648, -1, 0, 1000, 3002, 7999, 8008, 9000, 417003, 2147483647}
	suites(t, map[string]func(*queue.Options){
		"one": func(o *queue.Options) { o.ThrottleLimit = 5 }, "eight": inEight(5), "no limit": func(o *queue.Options) { o.Shards = 8 },
		"groups": func(o *queue.Options) { byRegion(0, map[string]int{"*": 1})(o); o.Shards = 8 },
	}, func(s env) {
		for _, place := range wild {
			key := func(line string) string { return fmt.Sprint(line, place) }
			s.exec("INSERT INTO shop_emails (job_type, job_key, shard) VALUES ('send', ?, ?)", key("new"), place)
			due := s.add(inRegionOf("due", key("due")))[0].ID
			later := s.add(job.Params{Type: "send", Key: key("later"), In: time.Hour})[0].ID
			s.exec("UPDATE shop_emails SET shard = ? WHERE id IN (?, ?)", place, due, later)
			s.exec("UPDATE shop_emails SET wake_time = create_time WHERE id = ?", later)
			held := s.add(inRegionOf("held", key("held")))[0].ID
			s.exec("UPDATE shop_emails SET shard = ?, status = 'throttled', throttle_group = 'data.to.region=held' WHERE id = ?", place, held)
		}
		for range 3 { // promoted jobs come last
			s.upkeep()
		}
		first, end := s.places8()
		for n := range 4 * len(wild) {
			id := s.nth(n + 1)
			at := s.place(id)
			ensure(s.t, at >= first && at < end, "job %s is at %d", s.get(id).Key, at)
		}
		all := 4 * len(wild)
		for done := 0; done < all; {
			jobs := s.start("w", 100)
			if len(jobs) == 0 {
				s.t.Fatalf("%d of %d are done: %+v", done, all, must[admin.Counts](s.t)(s.Counts(s.t.Context())))
			}
			s.settle("w", finished, jobs...)
			done += len(jobs)
		}
	})
}

func inRegionOf(region, key string) job.Params {
	j := inRegion(region, 1)
	j.Key = key
	return j
}

// places8 returns the queue's first place and the one after its last, according to its shards' rows.
func (s env) places8() (first, end int) {
	s.t.Helper()
	first = value[int](s, "SELECT MIN(shard) FROM shop_shards WHERE queue = 'emails'")
	return first, value[int](s, "SELECT MAX(shard) + 1 FROM shop_shards WHERE queue = 'emails'")
}

// A running or awaiting job counts against the limit wherever its row was put by hand, and is settled.
func TestMisplacedWhileItRuns(t *testing.T) {
	suites(t, map[string]func(*queue.Options){"2": inEight(2), "1": inEight(1)}, func(s env) {
		s.add(slices.Repeat([]job.Params{{Type: "send"}}, 6)...)
		running := s.start("w", 9)
		require(s.t, len(running) == s.ThrottleLimit, "started %d", len(running))
		s.exec("UPDATE shop_emails SET shard = 9999 WHERE status IN ('locked', 'running', 'answered', 'deciding')")
		s.exec("UPDATE shop_emails SET status = 'awaiting', wake_time = '2036-01-01 00:00:00' WHERE id = ?", running[0].ID)
		s.exec("UPDATE shop_shards SET awaiting_time = 0") // as 100 ms later
		s.upkeep()
		equal(s.t, len(s.start("w", 9)), 0, "started beside them")
		s.exec("UPDATE shop_emails SET status = 'running', wake_time = NULL WHERE id = ?", running[0].ID)
		s.settle("w", finished, running...)
		s.exec("UPDATE shop_shards SET awaiting_time = 0")
		equal(s.t, len(s.start("w", 9)), s.ThrottleLimit, "then started")
	})
}

// A misplaced job gets its retry decision, and one with new data moves to its new group's shard.
func TestMisplacedError(t *testing.T) {
	suiteWith(t, func(o *queue.Options) { byRegion(0, map[string]int{"*": 1})(o); o.Shards = 8 }, func(s env) {
		s.add(inRegion("east", 1), inRegion("west", 1))
		jobs := s.start("w", 9)
		data := inRegion("north", 1).Data
		resting := s.do(s.newRound("w", 0, store.Settled{Job: jobs[0], Outcome: job.Outcome{Verdict: job.TryAgain, Error: "e"}, Asks: true})).Resting
		require(t, len(resting) == 1, "%d rest", len(resting))
		resting[0].Decision = &job.Decision{Again: true, Data: &data}
		s.do(s.newRound("w", 0, resting...))
		got, want := s.place(jobs[0].ID), s.place(s.add(inRegion("north", 1))[0].ID)
		ensure(t, got == want, "with its new data it is at %d, want %d", got, want)
		s.fail(job.StatusUndecided, job.Outcome{Verdict: job.TryAgain, Error: "e"}, jobs[1])
		s.exec("UPDATE shop_emails SET shard = 3 WHERE id = ?", jobs[1].ID)
		s.upkeep()
		s.upkeep() // it has its place now
		s.wantState(jobs[1].ID, job.Retry, "scheduled", 1)
		got, want = s.place(jobs[1].ID), s.place(s.add(inRegion("west", 1))[0].ID)
		ensure(t, got == want, "after the decision it is at %d, want %d", got, want)
	})
}

// A key is taken in all shards, and a replacement moves the job to its own shard.
func TestKeysOverShards(t *testing.T) {
	suiteWith(t, inEight(3), func(s env) {
		shardOf := map[int]string{}
		for n := 0; len(shardOf) < 8; n++ {
			shardKey := fmt.Sprint("s", n)
			id := s.add(job.Params{Type: "send", Key: "k", ShardKey: shardKey, OnDuplicate: job.ReplaceDuplicate})[0].ID
			require(t, id == s.nth(1), "the key is taken twice, by %d", id)
			if place := s.place(id); shardOf[place] == "" {
				shardOf[place] = shardKey
			}
		}
		for place, shardKey := range shardOf {
			added := s.add(job.Params{Type: "send", Key: "k", ShardKey: shardKey, OnDuplicate: job.ReplaceDuplicate})[0]
			got := s.place(added.ID)
			ensure(t, got == place && (added.Replaced || !added.Duplicate), "%s is at %d, want %d: %+v", shardKey, got, place, added)
			jobs := s.start("w", 2)
			require(t, len(jobs) == 1, "%d started", len(jobs))
			s.settle("w", finished, jobs...) // the key is free, for another shard
		}
	})
}

// A division forgets that jobs waited in shards where none is left.
func TestWaitsAreForgotten(t *testing.T) {
	suiteWith(t, func(o *queue.Options) { o.Shards, o.ThrottleLimit = 4, 6 }, func(s env) {
		s.exec("UPDATE shop_shards SET wait_since = 1, wait_factor = 5 WHERE queue = 'emails'")
		s.upkeepOf(store.Poll{Dividing: true})
		equal(t, value[int](s, "SELECT COUNT(*) FROM shop_shards WHERE wait_since <> 0 OR wait_factor <> 0"), 0, "shards that wait")
	})
}

// StartNow starts nothing in a queue with another division.
func TestStartNowInShards(t *testing.T) {
	suiteWith(t, func(o *queue.Options) { o.ThrottleLimit, o.Shards = 1, 1 }, func(s env) {
		s.add(job.Params{Type: "send"}, job.Params{Type: "send"})
		s.start("w", 1)
		before := s.place(s.nth(2))
		must[int](t)(s.otherwise(8).core().Reshard(t.Context()))
		s.exec("UPDATE shop_emails SET shard = ? WHERE id = ?", before, s.nth(2)) // like a job that hasn't been moved yet
		fails(t, queue.ErrShards, "by who divides it otherwise")(s.core().StartNow(t.Context(), s.newRound("w", 0), s.nth(2)))
		s.wantState(s.nth(2), job.Initial, "available", 0)
	})
}

// A job that was read as due, and got other data since, isn't started there: its group is in another shard.
func TestReplacedSinceItWasRead(t *testing.T) {
	suiteWith(t, func(o *queue.Options) { byRegion(0, map[string]int{"*": 1})(o); o.Shards = 8 }, func(s env) {
		s.hire("w")
		first, next := inRegionOf("west", "first"), inRegionOf("west", "next")
		west := s.place(s.add(first)[0].ID) % 1000
		s.add(next)
		here := s.newRound("w", 1)
		here.Candidates = s.core().Candidates(west, []string{"send"})
		jobs := s.do(here).Started
		region, elsewhere := "", west
		for n := 0; elsewhere == west; n++ {
			region = fmt.Sprint("r", n)
			elsewhere = s.place(s.add(inRegion(region, 1))[0].ID) % 1000
		}
		running := len(s.doWith(s.core().Candidates(elsewhere, []string{"send"}), "w", 9).Started)
		require(t, running >= 1 && len(jobs) == 1, "%d and %d run", len(jobs), running)
		next = inRegionOf(region, "next")
		next.OnDuplicate = job.ReplaceDuplicate
		s.add(next)
		equal(t, len(s.doWith(here.Candidates, "w", 1, settled(finished, jobs...)...).Started), 0, "started beside another of its group")
	})
}

// A settlement, like an enqueuer, may know no shards. A job with new data still goes to its new group's shard.
func TestNewDataByWhoKnowsNoShards(t *testing.T) {
	suiteWith(t, func(o *queue.Options) { byRegion(0, map[string]int{"*": 1})(o); o.Shards = 8 }, func(s env) {
		s.add(inRegion("east", 1))
		jobs := s.start("w", 1)
		data := inRegion("north", 1).Data
		north := s.place(s.add(inRegion("north", 1))[0].ID)
		require(t, jobs[0].Place != north, "both regions are in one shard")
		by := must[*queue.Queue](t)(queue.New(s.db, queue.Options{Name: "emails", Types: s.Types}))
		again := store.Settled{Job: jobs[0], Outcome: job.Outcome{Verdict: job.TryAgain, Error: "e"}, Asks: true}
		r := s.newRound("w", 0, again)
		r.Candidates = nil
		resting := must[store.Done](t)((*store.Queue)(by).Round(t.Context(), r)).Resting
		resting[0].Decision = &job.Decision{Again: true, Data: &data}
		r = s.newRound("w", 0, resting...)
		r.Candidates = nil
		must[store.Done](t)((*store.Queue)(by).Round(t.Context(), r))
		s.exec("UPDATE shop_emails SET wake_time = create_time WHERE id = ?", jobs[0].ID)
		for range 3 { // promoted jobs come last
			s.upkeep()
		}
		equal(t, s.place(jobs[0].ID), north, "its place")
	})
}

// Registration repairs an invalid division number, which only manual edits can leave.
func TestRegisterWithNoDivision(t *testing.T) {
	suiteWith(t, inEight(3), func(s env) {
		for _, number := range []int{0, -5} {
			s.exec("UPDATE shop_queues SET division = ? WHERE queue = 'emails'", number)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			must[any](t)(nil, s.core().Register(ctx))
			cancel()
			d := must[admin.Division](t)(s.Division(t.Context()))
			ensure(t, d.Of == 8 && d.Otherwise == nil, "there are %d shards: %v", d.Of, d.Otherwise)
		}
	})
}
