package queue_test

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
)

// shardsVar, if it is set, divides the queues of the suite into so many shards: whatever is tested with one can be tried with more. What
// the suite adds goes to one of them, but for what throttle groups are by, for order holds within a shard alone: so that has to get
// all that it needs of the limit. What plain SQL inserts is everywhere.
const shardsVar = "HIPQ_TEST_SHARDS"

func defaultShards(t testing.TB) int {
	text := os.Getenv(shardsVar)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", shardsVar, err)
	}
	return n
}

// inOneShard has jobs go to one shard.
func inOneShard(jobs []job.New) []job.New {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		jobs[i].ShardKey = cmp.Or(jobs[i].ShardKey, "one")
	}
	return jobs
}

// startIn starts jobs of one shard by a round.
func (s store) startIn(worker string, shard, n int) []*job.Job {
	s.t.Helper()
	s.hire(worker)
	r := rounds.New(workers.Worker{ID: worker, Host: "h", PID: 1})
	r.Slots, r.Candidates = n, s.Candidates(shard, []string{"send", "report"})
	return s.do(r).Started
}

// candidates are those of these types in all of the queue's shards.
func (s store) candidates(types ...string) rounds.Candidates {
	if s.Shards <= 1 {
		return s.Candidates(0, types)
	}
	all := make(everywhere, s.Shards)
	for shard := range all {
		all[shard] = s.Candidates(shard, types)
	}
	return all
}

// everywhere are candidates in each shard.
type everywhere []rounds.Candidates

func (e everywhere) Forget() {
	for _, one := range e {
		one.Forget()
	}
}

// divided has the limit and the rate divided anew, as if that had last been done a second ago.
func (s store) divided() {
	s.t.Helper()
	if s.Shards > 1 {
		s.exec("UPDATE shop_shards SET divide_time = 0 WHERE queue = 'emails'")
		s.upkeepOf(rounds.Look{Dividing: true})
	}
}

// upkeepOf does the upkeep for what a look has found.
func (s store) upkeepOf(l rounds.Look) {
	s.t.Helper()
	must[bool](s.t)(s.Upkeep(s.t.Context(), workers.Worker{ID: "keeper", Host: "h", PID: 1}, l, nil, nil))
}

// round does a round, in a divided queue one in each shard; and once more when what each lacks has been divided anew. What has been
// started is in the queue's order.
func (s store) round(ctx context.Context, r rounds.Round) (rounds.Done, error) {
	all, ok := r.Candidates.(everywhere)
	switch {
	case !ok:
		return s.Round(ctx, r)
	case r.Slots == 0:
		r.Candidates = all[0]
		return s.Round(ctx, r)
	}
	var done rounds.Done
	slots := r.Slots
	for idle := 0; idle < 2; idle++ {
		done.More, done.Wait = false, 0
		for _, one := range all {
			for more := true; more; {
				r.Candidates, r.Slots = one, slots-len(done.Started)
				got, err := s.Round(ctx, r)
				if err != nil {
					return rounds.Done{}, err
				}
				done = joined(done, got)
				r.Settle, r.Again = nil, false
				if len(got.Started) > 0 {
					idle = 0
				}
				if len(done.Started) == slots {
					done.More = true
					return s.inOrder(done), nil
				}
				more = got.More
			}
		}
		if s.ThrottleLimit < 1 && s.Rate.Starts < 1 {
			break
		}
		s.divided()
	}
	done.More = false
	return s.inOrder(done), ctx.Err()
}

func joined(a, b rounds.Done) rounds.Done {
	for _, j := range b.Started {
		// a round that was refused something, and is repeated, finds what the others have started under the same token
		if !slices.ContainsFunc(a.Started, func(one *job.Job) bool { return one.ID == j.ID }) {
			a.Started = append(a.Started, j)
		}
	}
	a.Resting = append(a.Resting, b.Resting...)
	a.Unsettled = append(a.Unsettled, b.Unsettled...)
	a.Lost = append(a.Lost, b.Lost...)
	a.More = a.More || b.More
	if b.Wait > 0 && (a.Wait == 0 || b.Wait < a.Wait) {
		a.Wait = b.Wait
	}
	return a
}

func (s store) inOrder(done rounds.Done) rounds.Done {
	if s.Order != "" || s.PriorityOrder != "" {
		return done // what one shard has is in order already
	}
	slices.SortStableFunc(done.Started, func(a, b *job.Job) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.ScheduledRunTime.Compare(b.ScheduledRunTime), cmp.Compare(a.ID, b.ID))
	})
	return done
}

// placed gives the rows that a test has inserted itself their places, where they don't have them.
func (s store) placed() {
	s.t.Helper()
	if s.Shards > 1 {
		s.upkeepOf(rounds.Look{Misplaced: true})
	}
}

// undivided skips a test of what holds with one shard alone: an order over all jobs, or how many statements a round costs.
func undivided(t *testing.T) {
	t.Helper()
	if defaultShards(t) > 0 {
		t.Skip("with one shard alone")
	}
}
