package queuetest

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hipq/hipq/queue/job"
)

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
