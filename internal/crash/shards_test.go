package crash

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestShards is TestThrottle with shards, a rate and stopped workers. Meanwhile hipq init changes the number of shards.
// The limit and the rate are checked over all shards.
func TestShards(t *testing.T) {
	each(t, plan{
		size:    wanted(size{kills: 40, stops: 4}, size{kills: 5, stops: 1}),
		workers: 8, backlog: 400, limit: throttleLimit, shards: 8, reshard: []int{3, 8, 1, 5}, rate: 60, invent: (*book).inventWeighted,
		invariants: slices.Concat(limited, invariants, []invariant{
			{"rate", "no second has more starts than the rate", startsKeepRate},
			{"shards", "the shares of the shards are within the limit, and the rate", shardsAreWhole},
		}),
	}, (*run).run)
}

// divide changes the number of shards like an operator: a new config for new workers, and hipq init while the others go
// on.
func (r *run) divide(ctx context.Context) {
	for _, n := range r.reshard {
		for left := 20; left > 0 && ctx.Err() == nil; left-- {
			time.Sleep(100 * time.Millisecond)
		}
		p := r.plan
		p.shards = n
		before, err := os.ReadFile(r.hipq.config)
		head, _, found := strings.Cut(string(before), "worker: ")
		if err == nil && found {
			next := r.hipq.config + ".next"
			if err = os.WriteFile(next, []byte(head+r.hipq.settingsOf(p)), 0o600); err == nil {
				err = os.Rename(next, r.hipq.config)
			}
		}
		if err != nil || !found {
			r.t.Errorf("another config: %v", err)
			return
		}
		for tries := 3; ctx.Err() == nil; tries-- {
			if _, err = r.hipq.run(ctx, "init"); err == nil {
				break
			}
			if tries == 0 {
				r.t.Errorf("divide into %d shards: %v", n, err)
				return
			}
		}
	}
}

// startsKeepRate checks the activity, whose times are those of the turns that started the jobs.
func startsKeepRate(c *record) (bad []string, checked string) {
	starts := map[string][]event{}
	for id, history := range c.history {
		for _, e := range history {
			if e.state == "starting" {
				starts[id.queue] = append(starts[id.queue], e)
			}
		}
	}
	most := 0
	for queue, list := range starts {
		slices.SortFunc(list, func(a, b event) int { return a.at.Compare(b.at) })
		first := 0
		for i, e := range list {
			for !list[first].at.Add(time.Second).After(e.at) {
				first++
			}
			n := i - first + 1
			if most = max(most, n); n > c.plan.rate {
				bad = append(bad, fmt.Sprintf("%s had %d starts in the second before %s", queue, n, e.at))
				break
			}
		}
	}
	return bad, fmt.Sprintf("%d starts in a second, of %d", most, c.plan.rate)
}

// shardsAreWhole checks the shards after the run.
func shardsAreWhole(c *record) (bad []string, checked string) {
	n := 0
	for queue, parts := range c.parts {
		n += parts.shards
		if want := c.plan.reshard[len(c.plan.reshard)-1]; parts.shards != want || parts.share > c.plan.limit || parts.rate > c.plan.rate {
			bad = append(bad, fmt.Sprintf("%s has %d shards with %d of the limit and %d of the rate", queue, parts.shards, parts.share, parts.rate))
		}
	}
	return bad, fmt.Sprintf("%d shards", n)
}

// parts sums up the shards of a queue.
type parts struct{ shards, share, rate int }

func (d *database) parts(queue string) (p parts, err error) {
	err = d.QueryRow("SELECT COUNT(*), COALESCE(SUM(share), 0), COALESCE(SUM(rate_share), 0) FROM "+shardsTable+" WHERE queue = ?", queue).
		Scan(&p.shards, &p.share, &p.rate)
	return p, err
}
