package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/hipq/hipq/queue/job"
)

// Lane names the lane of a queue, or of one of its job types, that has a concurrency of its own.
func Lane(queue, jobType string) string {
	if jobType == "" {
		return queue
	}
	return queue + "/" + jobType
}

// Slots are what live workers hold of a host's concurrency: in all, and of the lanes that have one of their own.
type Slots struct {
	Host  string
	Slots int
	Lanes string
}

// ByLane gives them by lane; "" is that of all jobs.
func (s Slots) ByLane() (map[string]int, error) {
	byLane := map[string]int{}
	if s.Lanes != job.None {
		if err := json.Unmarshal([]byte(s.Lanes), &byLane); err != nil {
			return nil, fmt.Errorf("read the lanes of a worker: %w", err)
		}
	}
	byLane[""] = s.Slots
	return byLane, nil
}

// EncodeLanes is how a worker's row has its slots by lane.
func EncodeLanes(slots map[string]int) (string, error) {
	lanes := maps.Clone(slots)
	delete(lanes, "")
	if len(lanes) == 0 {
		return job.None, nil
	}
	text, err := json.Marshal(lanes)
	return string(text), err
}

// fullLanes tells on which hosts live workers hold all slots of a lane that jobs of a type are in.
func (q *Queue) fullLanes(ctx context.Context, jobType string) ([]string, error) {
	limits := map[string]int{Lane(q.Name, ""): q.Concurrency, Lane(q.Name, jobType): q.configured[jobType].Concurrency}
	maps.DeleteFunc(limits, func(_ string, limit int) bool { return limit < 1 })
	if len(limits) == 0 {
		return nil, nil
	}
	var rows []Slots
	query := "SELECT host, slots, lanes FROM " + q.db.Workers() + " " + q.db.Index(q.db.Workers(), "state") +
		" WHERE state = 'working' AND lock_until > (SELECT " + q.db.Now + ") ORDER BY host"
	if err := q.db.SelectContext(ctx, &rows, query); err != nil {
		return nil, fmt.Errorf("read the slots of live workers: %w", err)
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
