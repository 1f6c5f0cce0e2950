package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/queue/job"
)

// Where the limit of a queue, or its rate, is divided among its shards, one that has too little borrows from others: in a transaction of
// its own, that takes the turns of all.

// askEvery is how long a shard that is to get more doesn't ask for it again, whoever would; renewEvery the same of one that has all it is
// to have, keeps its demand from lapsing, and sees what others have left that never asked.
const (
	askEvery   = 250 * time.Millisecond
	renewEvery = 3 * askEvery
)

// heldFor is how long a process doesn't ask any more, when another transaction has held the turn of a shard for as long as it would wait:
// all turns that were taken before waited too.
const heldFor = 5 * time.Second

// rateEvery is how long a shard that has used up its part of the rate waits, at most, before it asks the others again.
const rateEvery = 500 * time.Millisecond

// waitFor is how long a tick waits for what is to come from other shards, when it has nothing else to do. What jobs have that run for long
// may be long in coming; then a later tick finds it.
const waitFor = 5 * time.Second

// noJob stands for the first job that waits where nobody has looked which that is.
const noJob = -1

// ask is what a round asks the other shards for, whose limit or rate had no room for more: nothing if that was done just now. It is
// noted at once, so that the rounds behind this one don't ask for the same.
func (q *Queue) ask(ctx context.Context, tx *engine.Tx, r *room, want demand, done *rounds.Done) (demand, error) {
	done.Short = r.divided && r.first != nil
	if !r.divided || want.Job == 0 {
		return want, nil
	}
	every := askEvery
	if !r.row.lacks() && want.Starts == 0 && want.First <= r.row.demand.First && want.Weight <= r.row.demand.Weight {
		every = renewEvery
	}
	if held := q.turnsHeld(); held > 0 {
		if done.Wait == 0 || done.Wait > held {
			done.Wait = held
		}
		return demand{}, nil
	}
	if since := time.Duration(tx.Now.UnixMicro()-r.row.demand.At) * time.Microsecond; since >= 0 && since < every {
		if again := every - since; done.Wait == 0 || done.Wait > again {
			done.Wait = again // or nobody might
		}
		return demand{}, nil
	}
	want = r.row.renewed(want, tx.Now)
	return want, tx.Write(ctx, "UPDATE "+q.db.Shards()+" SET demand = ? WHERE queue = ? AND shard = ?", want.encode(), q.Name, q.place(r.shard))
}

// renewed is a demand as of now: of the same job it is as old as when it was made first.
func (s shardRow) renewed(want demand, at time.Time) demand {
	now := at.UnixMicro()
	want.Since, want.At = now, now
	if s.demand.Job == want.Job && (want.Job != noJob || !s.startedSince(s.demand.Since)) {
		want.Since = min(now, s.demand.Since) // also if that has not counted any more meanwhile
	}
	return want
}

// withdraw takes back what the shard has asked the others for, if nothing waits there any more for want of room: else what it isn't going to
// use would lie there until the demand lapses. It says whether there was anything to take back. What has been asked for a job that still
// waits, and isn't one of those that start now, is another's: of a worker of other types, or of a lane of its own.
func (q *Queue) withdraw(ctx context.Context, tx *engine.Tx, r *room, want demand, starting []*job.Job) (bool, error) {
	asked := r.row.demand.Job
	if !r.divided || want.Job != 0 || asked == 0 {
		return false, nil
	}
	if asked > 0 && !slices.ContainsFunc(starting, func(j *job.Job) bool { return j.ID == asked }) {
		var waits bool
		err := tx.GetContext(ctx, &waits, "SELECT EXISTS (SELECT 1 FROM "+q.table+" WHERE id = ? AND line = 'due' AND shard = ?)", asked, q.place(r.shard))
		if err != nil {
			return false, fmt.Errorf("look whether job %d of %s still waits: %w", asked, q.Name, err)
		}
		if waits {
			return false, nil
		}
	}
	return true, tx.Write(ctx, "UPDATE "+q.db.Shards()+" SET demand = 'NONE' WHERE queue = ? AND shard = ?", q.Name, q.place(r.shard))
}

// leave gives what a shard has no use for any more to those that ask for it, if there are any.
func (q *Queue) leave(ctx context.Context) error {
	if q.turnsHeld() > 0 {
		return nil
	}
	var asks bool
	err := q.db.GetContext(ctx, &asks, "SELECT EXISTS (SELECT 1 FROM "+q.db.Shards()+" WHERE queue = ? AND demand <> 'NONE')", q.Name)
	if err != nil || !asks {
		return err
	}
	return q.grant(ctx)
}

// borrow asks the other shards for what a round would have needed to start more. If the shard has more now, the round should be followed
// by another; if it is to get more when jobs of others have ended, after a while.
func (q *Queue) borrow(ctx context.Context, shard int, want demand, done *rounds.Done) error {
	var gained, coming bool
	err := q.db.TxInParts(ctx, nil, func(tx *engine.Tx) error {
		gained, coming = false, false
		rows, err := q.lockShards(ctx, tx)
		if err != nil {
			return err
		}
		if shard >= len(rows) || len(rows) != q.division().N {
			return nil // it is being divided otherwise
		}
		s := &rows[shard]
		before := slices.Clone(rows)
		s.demand = s.renewed(want, tx.Now)
		if err := q.rebalance(ctx, tx, rows, before); err != nil {
			return err
		}
		gained = s.has() != before[shard].has()
		coming = s.lacks() && s.demand.At-s.demand.Since < waitFor.Microseconds()
		return nil
	})
	q.noteHeld(err)
	if err != nil {
		return fmt.Errorf("borrow for shard %d of %s: %w", shard, q.Name, err)
	}
	if gained {
		done.More, done.Wait = true, 0
	} else if coming && (done.Wait == 0 || done.Wait > askEvery) {
		done.Wait = askEvery
	}
	return nil
}

// turnsHeld is for how long nobody is to ask for the turns of all shards, for another transaction holds one of them.
func (q *Queue) turnsHeld() time.Duration { return time.Until(time.Unix(0, q.borrowAt.Load())) }

// noteHeld takes note of an error of what takes the turns of all shards.
func (q *Queue) noteHeld(err error) {
	if engine.IsLockTimeout(err) {
		q.borrowAt.Store(time.Now().Add(heldFor).UnixNano())
	}
}

// rebalance divides the limit and the rate among the shards by their demands, and writes down what that has changed.
func (q *Queue) rebalance(ctx context.Context, tx *engine.Tx, rows, before []shardRow) error {
	if err := q.balance(ctx, tx, rows); err != nil {
		return err
	}
	for i, r := range rows {
		r.demand.Open = false // where it was, the row is written
		if r.same(before[i]) {
			continue
		}
		err := tx.Write(ctx, "UPDATE "+q.db.Shards()+" SET capacity = ?, target = ?, rate_capacity = ?, rate_target = ?, demand = ?"+
			" WHERE queue = ? AND shard = ?", r.limit.Capacity, r.limit.Target, r.rate.Capacity, r.rate.Target, r.demand.encode(),
			q.Name, q.place(r.shard))
		if err != nil {
			return err
		}
	}
	return nil
}

// asking is whether a worker in SQL asks for more of the limit or the rate for a shard, as an expression; its parameter is the
// queue's name.
func (q *Queue) asking() string {
	if !q.isDivided() || q.db.Name != engine.MySQL.Name {
		return "? IS NULL" // nobody does
	}
	return "EXISTS (SELECT 1 FROM " + q.db.Shards() + " WHERE queue = ? AND demand LIKE '%" + openDemand + "%')"
}

// grant divides the limit and the rate by what is asked for.
func (q *Queue) grant(ctx context.Context) error {
	err := q.db.TxInParts(ctx, nil, func(tx *engine.Tx) error {
		rows, err := q.lockShards(ctx, tx)
		if err != nil || len(rows) != q.division().N {
			return err
		}
		return q.rebalance(ctx, tx, rows, slices.Clone(rows))
	})
	q.noteHeld(err)
	if err != nil {
		return fmt.Errorf("divide the limits of %s by what is asked for: %w", q.Name, err)
	}
	return nil
}

// startedSince says whether jobs were started there at a time, in microseconds, or later.
func (s shardRow) startedSince(since int64) bool {
	for at, n := range s.starts {
		if n > 0 && at >= since {
			return true
		}
	}
	return false
}

// has is what may be used of the limit and of the rate.
func (s shardRow) has() [2]int {
	return [2]int{min(s.limit.Capacity, s.limit.Target), min(s.rate.Capacity, s.rate.Target)}
}

// lacks says that the shard is to get more of the limit or the rate than it has.
func (s shardRow) lacks() bool {
	return s.limit.Target > s.limit.Capacity || s.rate.Target > s.rate.Capacity
}

// same says whether two rows say the same of what a shard has, and asks for.
func (s shardRow) same(t shardRow) bool {
	return s.limit.Capacity == t.limit.Capacity && s.limit.Target == t.limit.Target && s.rate.Capacity == t.rate.Capacity &&
		s.rate.Target == t.rate.Target && s.demand == t.demand
}
