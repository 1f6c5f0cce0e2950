package monitor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/texts"
)

// Division is the state of a queue with several shards or with misplaced jobs.
type Division struct {
	Queue  string
	Paused bool
	// Of is the number of shards.
	Of int
	// Shards has all shards, or none if there is only one.
	Shards []ShardState
	// Misplaced is how many due jobs belong to no shard of the current division. Workers move them before they start
	// them.
	Misplaced int64
	// MisplacedFor is how long the first misplaced job has been due.
	MisplacedFor time.Duration
	// ThrottleLimit is the queue's limit; 0 is none.
	ThrottleLimit int64
	// ThrottleParts is the sum of the shards' shares of the limit.
	ThrottleParts int64
}

// ShardState is the state of one shard.
type ShardState struct {
	// Shard counts from 0.
	Shard int
	// Backlog is how many jobs are due or locked by a dead worker.
	Backlog int64
	// OldestDue is how long the first job of the backlog has been due, not counting held jobs.
	OldestDue time.Duration
	// ThrottleUsed is how much the shard uses of the queue's limit.
	ThrottleUsed int64
	// ThrottlePart is the shard's share of the limit.
	ThrottlePart int64
}

// division returns how a queue is divided, or nil if it has one shard and no misplaced jobs.
func (m *Monitor) division(ctx context.Context, q jobs, due []jobCount, now time.Time) (*Division, error) {
	number := q.shards[0].Division
	d := Division{Queue: q.queue, Paused: q.shards[0].Paused, Of: policy.ShardsIn(number), ThrottleLimit: max(0, q.shards[0].Limit)}
	if d.Of > 1 {
		d.Shards = make([]ShardState, d.Of)
		used, err := m.used(ctx, q, "shard")
		if err != nil {
			return nil, err
		}
		for _, u := range used {
			if i, ok := policy.ShardAt(number, u.Place); ok {
				d.Shards[i].ThrottleUsed = u.Used
			}
		}
	}
	for i := range d.Shards {
		d.Shards[i].Shard = i
	}
	for _, s := range q.shards {
		if i, ok := policy.ShardAt(number, s.Place); ok && d.Of > 1 {
			d.Shards[i].ThrottlePart = s.Share
			d.ThrottleParts += s.Share
		}
	}
	for _, c := range due {
		var age time.Duration
		if !c.Oldest.IsZero() {
			age = now.Sub(c.Oldest.Time)
		}
		switch i, ok := policy.ShardAt(number, c.Place); {
		case c.Status == "submitted": // its shard is decided when it is ingested
		case ok && d.Of > 1:
			of := &d.Shards[i]
			if of.Backlog += c.N; c.Status != "throttled" {
				of.OldestDue = max(of.OldestDue, age)
			}
		case !ok && c.Status != "": // scheduled jobs and jobs with a worker keep their place
			d.Misplaced += c.N
			d.MisplacedFor = max(d.MisplacedFor, age)
		}
	}
	if d.Of == 1 && d.MisplacedFor == 0 {
		return nil, nil
	}
	return &d, nil
}

// A shard is behind if its oldest due job is older than behindFor, and behindTimes as old as the median of the shards.
// Its workers may be gone, or most jobs of the queue have the same shard key.
const (
	behindFor   = 5 * time.Minute
	behindTimes = 10
	// misplacedFor is how long a misplaced job may be due. Workers move such jobs at once, but there may be many.
	misplacedFor = 10 * time.Minute
)

// behind returns the shard that is furthest behind, and its limit. ok is false if no shard is behind.
func (d Division) behind() (worst ShardState, limit time.Duration, ok bool) {
	if len(d.Shards) < 2 {
		return worst, 0, false
	}
	byAge := slices.SortedFunc(slices.Values(d.Shards), func(a, b ShardState) int { return cmp.Compare(a.OldestDue, b.OldestDue) })
	worst = byAge[len(byAge)-1]
	limit = max(behindFor, behindTimes*byAge[(len(byAge)-1)/2].OldestDue)
	return worst, limit, worst.OldestDue > limit
}

// division judges how a queue is divided.
func (j *judgement) division(d Division) {
	warn := func(f Finding) {
		f.Severity, f.Queue = Warning, &d.Queue
		f.Text = d.Queue + ": " + f.Text
		j.find(finding(f))
	}
	if worst, limit, ok := d.behind(); ok && !d.Paused {
		warn(Finding{
			What: "shard_oldest_due", Value: worst.OldestDue.Seconds(), Limit: limit.Seconds(), Unit: "ms",
			Text: fmt.Sprintf("a job has been due in shard %d of %d for %s, which is much longer than in the others: hipq status --shards, hipq jobs %s --shard %d --state due, hipq why %[4]s ID",
				worst.Shard, d.Of, texts.Duration(worst.OldestDue), d.Queue, worst.Shard),
		})
	}
	if d.MisplacedFor > misplacedFor && !d.Paused {
		warn(Finding{
			What: "misplaced", Value: d.MisplacedFor.Seconds(), Limit: misplacedFor.Seconds(), Unit: "ms",
			Text: fmt.Sprintf("%s due in none of its shards, one for %s, and no worker moves them: run hipq work with the config that has this queue, or hipq init",
				areJobs(d.Misplaced, j.most), texts.Duration(d.MisplacedFor)),
		})
	}
	if over := d.ThrottleParts - d.ThrottleLimit; over > 0 && d.Of > 1 {
		warn(Finding{
			What: "shard_parts", Value: float64(over), Unit: "slots",
			Text: fmt.Sprintf("its shards hold %d of the throttle limit %d: the next worker redistributes it; does hipq work run with a config that has the queue?",
				d.ThrottleParts, d.ThrottleLimit),
		})
	}
}
