package policy

import (
	"hash/crc32"

	"github.com/hipq/hipq/queue/job"
)

// MaxShards is how many shards a queue has, at most.
const MaxShards = 100

// step is how far the places of one division lie from those of the next.
const step = 1000

// Division is how the jobs of a queue are divided: into N shards, 0 to N-1, by their throttle groups where there are any, so
// that a group is in one shard, or else each by itself.
type Division struct {
	N      int
	Groups *job.ThrottleGroups
}

// Number is that by which the tables know a division: N and, where that matters, what the groups are by. So what was placed by
// another division is told apart from what wasn't.
func (d Division) Number() int {
	switch {
	case d.N <= 1:
		return 1
	case d.Groups == nil:
		return d.N
	}
	return step*(1+Hash(d.Groups.By, step-1)) + d.N
}

// ShardsIn is how many shards the division of a number has.
func ShardsIn(number int) int { return number % step }

// ShardPlace is the number of a shard in the tables: that of its division, and behind it the shard. 8003 is shard 3 of 8.
func ShardPlace(number, shard int) int { return step*number + shard }

// ShardAt says which shard of the division of a number a place is; ok is false if it is in another division, or can't be.
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
		if group := d.Groups.Of(jobType, data); group != d.Groups.By+"=" { // else it is in none
			key = group
		}
	}
	return ShardPlace(d.Number(), Hash(key, max(1, d.N)))
}

// Hash is a number from 0 to n-1 that depends on a text alone: the CRC-32 that SQL has too.
func Hash(text string, n int) int { return int(crc32.ChecksumIEEE([]byte(text))) % n }
