package monitor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/schema"
)

// Division is how a queue of several shards is divided, or one with jobs that are in none of its shards.
type Division struct {
	Queue  string
	Paused bool
	// Of is how many shards there are; Shards has them all if that is more than one.
	Of     int
	Shards []ShardState
	// Misplaced is how many due jobs are in none of the shards, for they were placed when the queue was divided otherwise:
	// MisplacedFor is for how long the first of them has been due. Workers move them; none is started before.
	Misplaced    int64
	MisplacedFor time.Duration
	// ThrottleLimit is the queue's, 0 if it has none; ThrottleParts the shares that the shards have of it, in all.
	ThrottleLimit, ThrottleParts int64
}

// ShardState is how one shard of a queue is.
type ShardState struct {
	// Shard is from 0 to one less than how many there are.
	Shard int
	// Backlog is how many jobs are due there, or locked by a dead worker. OldestDue is for how long the first of them has been due
	// that no full throttle group holds back.
	Backlog   int64
	OldestDue time.Duration
	// ThrottleUsed is what counts against the queue's limit there, ThrottlePart the shard's share of that.
	ThrottleUsed, ThrottlePart int64
}

// shardPart is what a shard holds of its queue's limit, as the tables have it; NULL of a queue without shards.
type shardPart struct {
	Queue    string
	Division int
	Limit    int64 `db:"throttle_limit"`
	Place    int   `db:"shard"`
	Share    int64
}

// parts are what the shards of each queue hold, in one moment.
func (m *Monitor) parts(ctx context.Context) (byQueue map[string][]shardPart, err error) {
	var found []shardPart
	err = m.db.SelectContext(ctx, &found, "SELECT q.queue, q.division, CAST(q.throttle_limit AS SIGNED INTEGER) AS throttle_limit,"+
		" COALESCE(s.shard, 0) AS shard, CAST(COALESCE(s.share, 0) AS SIGNED INTEGER) AS share FROM "+m.db.Queues()+
		" q LEFT JOIN "+m.db.Shards()+" s ON s.queue = q.queue")
	if err != nil {
		return nil, fmt.Errorf("read what the shards hold: %w", err)
	}
	byQueue = map[string][]shardPart{}
	for _, p := range found {
		byQueue[p.Queue] = append(byQueue[p.Queue], p)
	}
	return byQueue, nil
}

// division tells how a queue is divided, by what its shards hold and how its jobs stand; ok is false if there is nothing to tell.
func (m *Monitor) division(ctx context.Context, q schema.Queue, held []shardPart, due []standing, now time.Time) (d Division, ok bool, err error) {
	if len(held) == 0 {
		return d, false, nil
	}
	number := held[0].Division
	d = Division{Queue: q.Name, Of: policy.ShardsIn(number), ThrottleLimit: max(0, held[0].Limit)}
	if d.Of > 1 {
		d.Shards = make([]ShardState, d.Of)
		for i := range d.Shards {
			d.Shards[i].Shard = i
		}
		if err := m.usedByShard(ctx, q, number, d.Shards); err != nil {
			return d, false, err
		}
	}
	for _, p := range held {
		if i, ok := policy.ShardAt(number, p.Place); ok && d.Of > 1 {
			d.Shards[i].ThrottlePart = p.Share
			d.ThrottleParts += p.Share
		}
	}
	for _, s := range due {
		var age time.Duration
		if !s.Oldest.IsZero() {
			age = now.Sub(s.Oldest.Time)
		}
		switch i, ok := policy.ShardAt(number, s.Place); {
		case s.Status == "submitted": // nobody has found out its shard yet
		case ok && d.Of > 1:
			of := &d.Shards[i]
			if of.Backlog += s.N; s.Status != "throttled" {
				of.OldestDue = max(of.OldestDue, age)
			}
		case !ok && s.Status != "": // what is later, or a worker has, keeps its place
			d.Misplaced += s.N
			d.MisplacedFor = max(d.MisplacedFor, age)
		}
	}
	return d, d.Of > 1 || d.MisplacedFor > 0, nil
}

// usedByShard sums up what counts against the limit in each shard, as those who start jobs see it.
func (m *Monitor) usedByShard(ctx context.Context, q schema.Queue, number int, all []ShardState) error {
	table, err := m.db.CheckQueue(q.Name)
	if err != nil {
		return err
	}
	var used []standing
	err = m.db.SelectContext(ctx, &used, "SELECT shard, CAST(COALESCE(SUM(throttle_factor + 0.0), 0) AS SIGNED INTEGER) AS used FROM "+table+" "+
		m.db.Index(table, schema.ClaimIndex)+" WHERE "+schema.Counts+" GROUP BY shard")
	if err != nil {
		return fmt.Errorf("sum up the throttle factors of %s: %w", q.Name, err)
	}
	for _, u := range used {
		if i, ok := policy.ShardAt(number, u.Place); ok {
			all[i].ThrottleUsed = u.Used
		}
	}
	return nil
}

// A shard is behind if its oldest due job has been so for longer than behindFor, and behindTimes as long as half of the others' have:
// its workers are gone and nobody helps, or most of the queue's jobs have the same shard key.
const (
	behindFor   = 5 * time.Minute
	behindTimes = 10
	// misplacedFor is for how long a misplaced job may be due: where workers run it is moved at once, but there may be many.
	misplacedFor = 10 * time.Minute
)

// behind is the shard that is behind the others, and from when on it is; ok is false if none is.
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
			Text: fmt.Sprintf("a job has been due in shard %d of %d for %s, which is much longer than in the others: hipq status --shards, hipq jobs %s --shard %d --state due, hipq why",
				worst.Shard, d.Of, inWords(worst.OldestDue), d.Queue, worst.Shard),
		})
	}
	if d.MisplacedFor > misplacedFor && !d.Paused {
		warn(Finding{
			What: "misplaced", Value: d.MisplacedFor.Seconds(), Limit: misplacedFor.Seconds(), Unit: "ms",
			Text: fmt.Sprintf("%s due in none of its shards, one for %s, and nobody moves them: hipq work with the config that has this queue, or hipq init",
				areJobs(d.Misplaced, j.most), inWords(d.MisplacedFor)),
		})
	}
	if over := d.ThrottleParts - d.ThrottleLimit; over > 0 && d.Of > 1 {
		warn(Finding{
			What: "shard_parts", Value: float64(over), Unit: "slots",
			Text: fmt.Sprintf("its shards hold %d of the throttle limit %d: the next worker to begin divides it anew; does one whose config has the queue run?",
				d.ThrottleParts, d.ThrottleLimit),
		})
	}
}
