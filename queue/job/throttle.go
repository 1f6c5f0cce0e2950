package job

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hipq/hipq/internal/texts"
)

// ThrottleGroups limit groups of jobs within a queue; a full group holds back only its own jobs.
type ThrottleGroups struct {
	// By is GroupByType, or GroupByData and the path to a value in data that are a JSON object: data.customer.region. A job
	// without the value is in no group.
	By string `json:"by" key:"by"`
	// Limits bound the sum of throttle factors of a group's locked and running jobs, by the group's value. OtherGroups is for
	// all other values. Missing or below 1 means no limit.
	Limits map[string]int `json:"limits" key:"limits" from:"1"`
}

// Values of By, and the key of the limit for groups without their own.
const (
	GroupByType = "job_type"
	GroupByData = "data."
	OtherGroups = "*"
)

// IsGroupBy says whether By may have this value.
func IsGroupBy(by string) bool {
	path, ofData := strings.CutPrefix(by, GroupByData)
	return by == GroupByType || ofData && !slices.Contains(strings.Split(path, "."), "")
}

const maxGroupBytes = 255

// Of returns a job's group, prefixed by g.By, so that groups from before a config change are recognized, and cut to the length
// of its column. For a job without a value it is only the prefix.
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

// MaxValueBytes is the length of the longest value that can have a limit of its own: longer ones share groups, see Of.
func (g *ThrottleGroups) MaxValueBytes() int { return maxGroupBytes - len(g.By+"=") }

// Knows says whether the group was determined under this config.
func (g *ThrottleGroups) Knows(group string) bool { return strings.HasPrefix(group, g.By+"=") }

// Limit returns a group's limit; 0 means none.
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

// valueAt returns the text, number or boolean at a path in a JSON object, or "".
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

// Rate limits how many of a queue's jobs start in any period Per, over all workers. The zero Rate is no limit.
type Rate struct {
	Starts int           `json:"starts"`
	Per    time.Duration `json:"per"`
}
