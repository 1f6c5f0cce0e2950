package policy

import (
	"cmp"
	"hash/crc32"
	"math"
	"slices"

	"github.com/hipq/hipq/queue/job"
)

// MaxShards is the highest number of shards in a queue.
const MaxShards = 100

// step is the distance between the places of consecutive division numbers.
const step = 1000

// Division says how a queue's jobs are divided into shards 0 to N-1: by throttle group if there are any, otherwise each by
// its key. So a group stays in one shard.
type Division struct {
	N      int
	Groups *job.ThrottleGroups
}

// Number identifies a division in the tables by N and, if it matters, the groups' By. So jobs placed by another one can be told.
func (d Division) Number() int {
	switch {
	case d.N <= 1:
		return 1
	case d.Groups == nil:
		return d.N
	}
	return step*(1+Hash(d.Groups.By, step-1)) + d.N
}

// ShardsIn is the number of shards in the division with this number.
func ShardsIn(number int) int { return number % step }

// ShardPlace is a shard's number in the tables: the division's number followed by the shard. 8003 is shard 3 of 8.
func ShardPlace(number, shard int) int { return step*number + shard }

// ShardAt returns the shard of a place in the division with this number; ok is false if the place isn't in it.
func ShardAt(number, place int) (shard int, ok bool) {
	shard = place - ShardPlace(number, 0)
	return shard, shard >= 0 && shard < ShardsIn(number)
}

// PlaceOf is the place of a job.
func (d Division) PlaceOf(jobType, key, shardKey string, data []byte) int {
	if shardKey != job.None && shardKey != "" {
		key = shardKey
	}
	if d.Groups != nil && d.N > 1 {
		if group := d.Groups.Of(jobType, data); group != d.Groups.By+"=" { // otherwise it has no group
			key = group
		}
	}
	return ShardPlace(d.Number(), Hash(key, max(1, d.N)))
}

// Hash is a number from 0 to n-1 that depends only on the text: the CRC-32 that SQL also has.
func Hash(text string, n int) int { return int(crc32.ChecksumIEEE([]byte(text))) % n }

// Demand is what one shard uses of a limit, or of a rate's starts, that a queue's shards share, and what waits there.
type Demand struct {
	// Used counts against the limit now.
	Used int
	// Wants is the additional weight that waits; 0 is none. First is the weight of the first waiting job.
	Wants, First int
	// Since orders the shards with waiting jobs: the lowest comes first, then the lower shard number.
	Since int64
}

// Divide returns each shard's share of a limit. A share may be smaller than what its shard uses, to make room for others: the
// shard then starts nothing until enough of its jobs have ended. Others get that room only then, so shares and excess use
// never exceed the limit. If the shards use more than the limit, nothing starts until they use less.
func Divide(limit int, demands []Demand) []int {
	line, left := neediestFirst(limit, demands), limit
	// The first in line gets room for its first job on top of its running jobs, which may run for days. The others' first
	// jobs replace running ones: otherwise the last in line would get nothing while all are busy.
	for i, p := range line {
		n := p.first
		if i == 0 && n > 0 {
			n = min(p.used+n, limit)
		}
		if n <= left {
			p.target, left = n, left-n
		}
	}
	left = level(line, left)
	for _, p := range line { // unwanted room goes to the next jobs, in any shard
		p.want, p.first = limit, 1
	}
	level(line, left)
	free := limit
	for _, p := range line {
		free -= p.used
	}
	shares := make([]int, len(demands))
	for _, p := range line {
		share := min(p.target, max(p.used+free, 0))
		free -= max(share-p.used, 0)
		shares[p.shard] = share
	}
	return shares
}

// Part is what a shard has of the queue's limit and of the rate.
type Part struct {
	// Share is of the limit, of which Used counts now. RateShare is of the rate, of which Lately counts.
	Share, Used, RateShare, Lately int
	// First is the weight of the first job that waits for either; 0 if none does.
	First int
}

// HaveIdle says that a shard's first job waits for what no other shard can use now: one where nothing waits, or where the first
// job waits for the other limit. A limit or rate of 0 is none.
func HaveIdle(limit, rate int, parts []Part) bool {
	type lack struct{ limit, rate bool }
	waits, left, starts := map[lack]bool{}, limit, rate
	for _, p := range parts {
		left, starts = left-p.Used, starts-p.Lately
		if p.First == 0 {
			continue
		}
		lacks := lack{limit > 0 && p.Share-p.Used < min(p.First, limit), rate > 0 && p.RateShare <= p.Lately}
		if waits[lacks] = true; !lacks.rate {
			left -= max(0, p.Share-p.Used)
		}
		if !lacks.limit {
			starts -= max(0, p.RateShare-p.Lately)
		}
	}
	return waits[lack{limit: true}] && left > 0 || waits[lack{rate: true}] && starts > 0 || waits[lack{true, true}] && min(left, starts) > 0
}

// portion is a demand with numbers clamped to 0 and the limit. target is what the shard should use.
type portion struct {
	shard, used, target int
	// want is what it would use in total. first is what its first job takes; 0 if none waits.
	want, first int
	since       int64
}

// neediestFirst orders the shards: those with waiting jobs first, by how long they have waited.
func neediestFirst(limit int, demands []Demand) (line []*portion) {
	sound := func(n int) int { return min(max(n, 0), limit) }
	for i, of := range demands {
		p := &portion{shard: i, used: sound(of.Used), since: math.MaxInt64}
		if p.want = p.used; of.Wants > 0 {
			p.first, p.since = max(sound(of.First), 1), of.Since
			p.want = min(p.used+max(sound(of.Wants), p.first), limit)
		}
		line = append(line, p)
	}
	slices.SortStableFunc(line, func(a, b *portion) int { return cmp.Compare(a.since, b.since) })
	return line
}

// level raises the targets evenly, lowest first, up to each shard's want. It returns what is left of n.
func level(line []*portion, n int) (left int) {
	for left = n; ; {
		var next *portion
		for _, p := range line {
			if least := p.piece(1); least > 0 && least <= left && (next == nil || p.target < next.target) {
				next = p
			}
		}
		if next == nil {
			return left
		}
		more := next.piece(left / len(line) / 2)
		next.target, left = next.target+more, left-more
	}
}

// piece is about n more, but at least the first job's weight: no job fits into less.
func (p *portion) piece(n int) int {
	first := max(p.first, 1)
	return min(max(n-n%first, first), p.want-p.target)
}
