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
	"text/tabwriter"
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

// brief returns a text on one line, shortened if long.
func brief(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.999") }

func (q *Queue) describe(want job.Params) string {
	var words []string
	add := func(is bool, format string, args ...any) {
		if is {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	due := q.due(want)
	add(want.Type != "", "type %s", want.Type)
	add(want.Key != "", "key %s", want.Key)
	add(want.Data != "", "data %s", brief(want.Data))
	add(!due.IsZero(), "due %s", stamp(due))
	add(want.Priority != nil, "priority %d", value(want.Priority))
	add(want.Timeout != 0, "timeout %s", want.Timeout)
	add(want.ThrottleFactor != nil, "throttle_factor %d", value(want.ThrottleFactor))
	if want.Windows != nil {
		add(true, "time_windows %s", want.Windows.Strings())
	}
	add(want.ShardKey != "", "shard_key %s", want.ShardKey)
	if len(words) == 0 {
		return "any"
	}
	return strings.Join(words, ", ")
}

// nearest describes the differences of the most similar job.
func (q *Queue) nearest(want job.Params, among []*job.Job) string {
	var least *job.Job
	var differs []string
	for _, j := range among {
		list := q.differences(want, j)
		if want.Type == "" || j.Type == want.Type {
			if least == nil || len(list) < len(differs) {
				least, differs = j, list
			}
		}
	}
	if least == nil {
		return ""
	}
	return fmt.Sprintf("job %d is the closest:\n    %s\n", least.ID, strings.Join(differs, "\n    "))
}

func (q *Queue) list(all []*job.Job) string {
	now := stamp(q.in.Clock.Now())
	if len(all) == 0 {
		return fmt.Sprintf("at %s UTC there is no job in %s", now, q.Name)
	}
	const most = 50
	var text strings.Builder
	fmt.Fprintf(&text, "at %s UTC %s has:\n", now, q.Name)
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "    ID\tTYPE\tKEY\tSTATE\tATTEMPT\tDUE\tPRIORITY\tDATA\tERROR")
	for _, j := range all[max(0, len(all)-most):] {
		fmt.Fprintf(table, "    %d\t%s\t%s\t%s\t%d\t%s\t%d\t%s\t%s\n",
			j.ID, j.Type, j.Key, j.State(), j.Attempt, stamp(j.ScheduledRunTime), j.Priority, brief(j.Data), brief(j.Error))
	}
	_ = table.Flush()
	if left := len(all) - most; left > 0 {
		fmt.Fprintf(&text, "    and %d jobs before these\n", left)
	}
	return text.String()
}
