package cmd

import (
	"slices"
	"strconv"
	"strings"

	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/queue/worker"
)

// parseShards reads numbers of shards, and ranges of them: 0-3,7. An empty text is none.
func parseShards(text string) (numbers []int, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, ranges := strings.Cut(strings.TrimSpace(part), "-")
		if !ranges {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 16)
		to, wrong := strconv.ParseUint(last, 10, 16)
		if err != nil || wrong != nil || to < from || to >= policy.MaxShards {
			return nil, usagef("--shards: %.40q is neither a shard (0 to %d) nor a range of them; write 3, or 0-3, or 0-3,7", part, policy.MaxShards-1)
		}
		for n := int(from); n <= int(to); n++ {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), nil
}

// checkShards refuses shards that none of the queues has.
func (i *instance) checkShards(queues []worker.Queue, numbers []int) error {
	most := 0
	for _, q := range queues {
		most = max(most, q.Shards)
	}
	if len(numbers) > 0 && numbers[len(numbers)-1] >= most {
		return usagef("--shards: no queue in %s that is to be worked has a shard %d: they have %d at most, from 0 on",
			i.File, numbers[len(numbers)-1], most)
	}
	return nil
}
