package job

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hipq/hipq/internal/texts"
)

// ThrottleGroups are limits beside the queue's own, one for each group of jobs: a full group holds back only its own.
type ThrottleGroups struct {
	// By says what makes a group: GroupByType, or GroupByData and the names of the fields that lead to a value inside a
	// job's data that is a JSON object: data.customer.region. A job without such a value is in no group.
	By string `json:"by"`
	// Limits are what the throttle factors of a group's locked and running jobs may sum to, by the group's value; that of
	// OtherGroups is for each other value. Below 1, or missing, is no limit.
	Limits map[string]int `json:"limits"`
}

// What ThrottleGroups may be by, and the limit of all groups that have none of their own.
const (
	GroupByType = "job_type"
	GroupByData = "data."
	OtherGroups = "*"
)

// IsGroupBy says whether throttle groups may be by this.
func IsGroupBy(by string) bool {
	path, ofData := strings.CutPrefix(by, GroupByData)
	return by == GroupByType || ofData && !slices.Contains(strings.Split(path, "."), "")
}

const maxGroupBytes = 255

// Of names a job's group, with what it is by: so a job that was told its group before the config was changed is known to
// be of another kind of group. Without a value it is that alone.
func (g *ThrottleGroups) Of(jobType string, data []byte) string {
	value := jobType
	if path, ok := strings.CutPrefix(g.By, GroupByData); ok {
		value = valueAt(data, strings.Split(path, "."))
	}
	name := g.By + "=" + value
	if len(name) > maxGroupBytes {
		name = name[:maxGroupBytes]
		for !utf8.ValidString(name) {
			name = name[:len(name)-1]
		}
	}
	return name
}

// Knows says whether a job was told its group.
func (g *ThrottleGroups) Knows(group string) bool { return strings.HasPrefix(group, g.By+"=") }

// Limit is a group's; 0 is none.
func (g *ThrottleGroups) Limit(group string) int {
	value, ok := strings.CutPrefix(group, g.By+"=")
	if !ok || value == "" {
		return 0
	}
	limit, ok := g.Limits[value]
	if !ok {
		limit = g.Limits[OtherGroups]
	}
	return max(0, limit)
}

// valueAt is the text, number or truth at a path into a JSON object, as text; empty if there is none.
func valueAt(data []byte, path []string) string {
	data = texts.FieldOf(data, path...)
	var text string
	switch {
	case len(data) == 0, data[0] == '{', data[0] == '[', string(data) == "null":
		return ""
	case json.Unmarshal(data, &text) == nil:
		return text
	}
	return string(data)
}

// Rate bounds how many jobs of a queue are started in any stretch of time, over all workers. The zero Rate doesn't.
type Rate struct {
	Starts int           `json:"starts"`
	Per    time.Duration `json:"per"`
}
