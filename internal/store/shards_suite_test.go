package store_test

import (
	"cmp"
	"context"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
)

// startIn starts jobs of one shard with a round.
func (s env) startIn(worker string, shard, n int) []*job.Job {
	s.t.Helper()
	s.hire(worker)
	return s.doWith(s.core().Candidates(shard, []string{"send", "report"}), worker, n).Started
}

// candidates returns those of these types in all the queue's shards.
func (s env) candidates(types ...string) *store.Candidates {
	if s.Shards <= 1 {
		return s.core().Candidates(0, types)
	}
	all := make([]*store.Candidates, s.Shards)
	for shard := range all {
		all[shard] = s.core().Candidates(shard, types)
	}
	everywhere.Store(all[0], all)
	return all[0]
}

// everywhere has each shard's candidates, by those of the first.
var everywhere sync.Map

func inAll(c *store.Candidates) []*store.Candidates {
	all, _ := everywhere.Load(c)
	list, _ := all.([]*store.Candidates)
	return list
}

// divided redivides the limit and the rate, as if the last division was a second ago.
func (s env) divided() {
	s.t.Helper()
	if s.Shards > 1 {
		s.exec("UPDATE shop_shards SET divide_time = 0 WHERE queue = 'emails'")
		s.upkeepOf(store.Poll{Dividing: true})
	}
}

// upkeepOf does the upkeep for a poll.
func (s env) upkeepOf(l store.Poll) {
	s.t.Helper()
	must[bool](s.t)(s.core().Upkeep(s.t.Context(), workers.Worker{ID: "keeper", Host: "h", PID: 1}, l, nil, nil))
}

// round does a round, in a divided queue one for each shard, and again after a new division of what each lacks. It returns
// started jobs in the queue's order.
func (s env) round(ctx context.Context, r store.Round) (store.Done, error) {
	all := inAll(r.Candidates)
	switch {
	case all == nil:
		return s.core().Round(ctx, r)
	case r.Slots == 0:
		r.Candidates = all[0]
		return s.core().Round(ctx, r)
	}
	var done store.Done
	slots := r.Slots
	for idle := 0; idle < 2; idle++ {
		done.More, done.RateFor = false, 0
		for _, one := range all {
			for more := true; more; {
				r.Candidates, r.Slots = one, slots-len(done.Started)
				got, err := s.core().Round(ctx, r)
				if err != nil {
					return store.Done{}, err
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

func joined(a, b store.Done) store.Done {
	for _, j := range b.Started {
		// a repeated round finds what the others started under the same token
		if !slices.ContainsFunc(a.Started, func(one *job.Job) bool { return one.ID == j.ID }) {
			a.Started = append(a.Started, j)
		}
	}
	a.Resting = append(a.Resting, b.Resting...)
	a.Unsettled = append(a.Unsettled, b.Unsettled...)
	a.Lost = append(a.Lost, b.Lost...)
	a.More = a.More || b.More
	if b.RateFor > 0 && (a.RateFor == 0 || b.RateFor < a.RateFor) {
		a.RateFor = b.RateFor
	}
	return a
}

func (s env) inOrder(done store.Done) store.Done {
	if s.Order != "" || s.PriorityOrder != "" {
		return done // one shard's jobs are in order already
	}
	slices.SortStableFunc(done.Started, func(a, b *job.Job) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.ScheduledRunTime.Compare(b.ScheduledRunTime), cmp.Compare(a.ID, b.ID))
	})
	return done
}

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m, "emails")) }
