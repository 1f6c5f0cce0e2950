package queue

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/hipq/hipq/queue/roster"
)

// fullLanes tells on which hosts live workers hold all slots of a lane that jobs of a type are in.
func (q *Queue) fullLanes(ctx context.Context, jobType string) ([]string, error) {
	limits := map[string]int{roster.Lane(q.Name, ""): q.Concurrency, roster.Lane(q.Name, jobType): q.configured[jobType].Concurrency}
	maps.DeleteFunc(limits, func(_ string, limit int) bool { return limit < 1 })
	if len(limits) == 0 {
		return nil, nil
	}
	rows, err := q.workers.LiveSlots(ctx)
	if err != nil {
		return nil, err
	}
	taken := map[[2]string]int{}
	for _, r := range rows {
		byLane, err := r.ByLane()
		if err != nil {
			return nil, err
		}
		for lane, n := range byLane {
			taken[[2]string{r.Host, lane}] += n
		}
	}
	var full []string
	for at, n := range taken {
		if limit := limits[at[1]]; limit > 0 && n >= limit {
			full = append(full, fmt.Sprintf("on %s, the concurrency %d of %s is used up", at[0], limit, at[1]))
		}
	}
	slices.Sort(full)
	return full, nil
}
