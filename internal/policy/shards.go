package policy

import (
	"hash/crc32"

	"github.com/hipq/hipq/queue/job"
)

// MaxShards is the highest number of shards in a queue.
const MaxShards = 100

// step is the distance between the places of consecutive division numbers.
const step = 1000

// Division says how a queue's jobs are divided into shards 0 to N-1: by throttle group if there are any, otherwise each by
// its key. A group thus stays in one shard.
type Division struct {
	N      int
	Groups *job.ThrottleGroups
}

// Number identifies a division in the tables by N and, if it matters, the groups' By. It distinguishes jobs placed by another
// division.
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
