package queuetest

import (
	"cmp"
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

// field is a field that a wanted job gives, as text. left says that the job gets its own from its type later.
type field struct {
	name, want, is string
	left           bool
}

// fields returns the fields that a wanted job gives, beside those of a job.
func (q *Queue) fields(want job.Params, j *job.Job) (list []field) {
	add := func(given bool, name string, want, is any, left bool) {
		if given {
			list = append(list, field{name, fmt.Sprint(want), fmt.Sprint(is), left})
		}
	}
	due, windows := q.due(want), value(want.Windows)
	add(want.Type != "", "type", want.Type, j.Type, false)
	add(want.Key != "", "key", want.Key, j.Key, false)
	add(want.Data != "", "data", want.Data, j.Data, false)
	add(!due.IsZero(), "due", stamp(due), stamp(j.ScheduledRunTime), false)
	add(want.Priority != nil, "priority", value(want.Priority), j.Priority, j.Left.Priority)
	add(want.Timeout != 0, "timeout", want.Timeout, j.Timeout, j.Left.Timeout)
	add(want.ThrottleFactor != nil, "throttle_factor", value(want.ThrottleFactor), j.ThrottleFactor, j.Left.ThrottleFactor)
	add(want.Windows != nil, "time_windows", windows.Strings(), j.Windows.Strings(), j.Left.Windows)
	add(want.ShardKey != "", "shard_key", want.ShardKey, j.ShardKey, false)
	return list
}

// differences lists how a job differs from the wanted one, a line each.
func (q *Queue) differences(want job.Params, j *job.Job) (list []string) {
	for _, f := range q.fields(want, j) {
		switch due := q.due(want); {
		case f.left:
			list = append(list, f.name+" comes from its type when a worker takes the row in")
		case f.name == "data":
			list = append(list, dataDiffers(f.want, f.is)...)
		case f.name == "due" && !due.Equal(j.ScheduledRunTime):
			list = append(list, fmt.Sprintf("due is %s, not %s: %s", f.is, f.want, apart(j.ScheduledRunTime.Sub(due))))
		case f.want != f.is:
			list = append(list, fmt.Sprintf("%s is %s, not %s", f.name, f.is, f.want))
		}
	}
	return list
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
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
	for _, f := range q.fields(want, new(job.Job)) {
		words = append(words, f.name+" "+brief(f.want))
	}
	return cmp.Or(strings.Join(words, ", "), "any")
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
