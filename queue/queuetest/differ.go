package queuetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/queue/job"
)

// differences lists how a job differs from the wanted one, a line each.
func (q *Queue) differences(want job.Params, j *job.Job) (list []string) {
	differ := func(field string, wanted bool, want, is any) {
		if wanted && want != is {
			list = append(list, fmt.Sprintf("%s is %v, not %v", field, is, want))
		}
	}
	left := func(field string, wanted, left bool, want, is any) {
		if wanted && left {
			list = append(list, field+" comes from its type when a worker takes the row in")
			return
		}
		differ(field, wanted, want, is)
	}
	differ("type", want.Type != "", want.Type, j.Type)
	differ("key", want.Key != "", want.Key, j.Key)
	if want.Data != "" {
		list = append(list, dataDiffers(want.Data, j.Data)...)
	}
	if due := q.due(want); !due.IsZero() && !due.Equal(j.ScheduledRunTime) {
		is := j.ScheduledRunTime
		list = append(list, fmt.Sprintf("due is %s, not %s: %s", stamp(is), stamp(due), apart(is.Sub(due))))
	}
	left("priority", want.Priority != nil, j.Left.Priority, value(want.Priority), j.Priority)
	left("timeout", want.Timeout != 0, j.Left.Timeout, want.Timeout, j.Timeout)
	left("throttle_factor", want.ThrottleFactor != nil, j.Left.ThrottleFactor, value(want.ThrottleFactor), j.ThrottleFactor)
	if want.Windows != nil {
		left("time_windows", true, j.Left.Windows, fmt.Sprint(want.Windows.Strings()), fmt.Sprint(j.Windows.Strings()))
	}
	differ("shard_key", want.ShardKey != "", want.ShardKey, j.ShardKey)
	return list
}

func value(p *int) int {
	if p == nil {
		return 0
	}
	return *p
}

// due returns when a job should be due; zero means any time.
func (q *Queue) due(want job.Params) time.Time {
	switch {
	case !want.At.IsZero():
		return want.At.UTC().Truncate(time.Microsecond)
	case want.In != 0:
		return q.in.Clock.Now().Add(want.In).Truncate(time.Microsecond)
	}
	return time.Time{}
}

func apart(d time.Duration) string {
	if d < 0 {
		return "too early by " + (-d).String()
	}
	return "too late by " + d.String()
}

// dataDiffers describes differences in data, for JSON by their paths.
func dataDiffers(want, is string) []string {
	if want == is {
		return nil
	}
	wanted, err := decode(want)
	found, alsoErr := decode(is)
	if err != nil || alsoErr != nil {
		return []string{fmt.Sprintf("data is %s, not %s", brief(is), brief(want))}
	}
	return jsonDiffers("data", wanted, found)
}

// decode reads JSON and keeps numbers as written.
func decode(text string) (v any, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err = d.Decode(&v); err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more after it")
		}
	}
	return v, err
}

func jsonDiffers(path string, want, is any) (list []string) {
	wanted, isObject := want.(map[string]any)
	found, alsoObject := is.(map[string]any)
	if !isObject || !alsoObject {
		if !reflect.DeepEqual(want, is) {
			list = append(list, fmt.Sprintf("%s is %s, not %s", path, encode(is), encode(want)))
		}
		return list
	}
	names := slices.Collect(maps.Keys(wanted))
	for name := range found {
		if _, known := wanted[name]; !known {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		w, isWanted := wanted[name]
		f, isThere := found[name]
		switch at := path + "." + name; {
		case !isThere:
			list = append(list, fmt.Sprintf("%s is missing, and should be %s", at, encode(w)))
		case !isWanted:
			list = append(list, fmt.Sprintf("%s is %s, and should not be there", at, encode(f)))
		default:
			list = append(list, jsonDiffers(at, w, f)...)
		}
	}
	return list
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return brief(string(text))
}
