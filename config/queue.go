package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// ownName checks the name of the i-th thing in a list, which must be unique.
func (b builder) ownName(list string, i int, thing, name string, check func(name string) error) {
	at, seen := fmt.Sprintf("%s[%d].name", list, i), list+"\x00"+name
	switch err := check(name); {
	case name == "":
		b.missing(at, "; every %s needs a name", thing)
	case b.seen[seen]:
		b.refuse(at, "%s is already the name of an earlier %s", shown(name), thing)
	case err != nil:
		b.refuseName(at, name, err)
	}
	b.seen[seen] = true
}

func (b builder) queue(path string, s queueSection) Queue {
	q := Queue{Options: s.Options, Handlers: map[string]Handler{}, RetryHandlers: map[string]Handler{}}
	q.RefuseWeightless, q.Rate = !s.AllowWeightless, b.rate(path+".rate", s.Rate)
	q.KeepFinished, q.KeepFailed = cmp.Or(s.KeepFinished, queue.DiscardAtOnce), cmp.Or(s.KeepFailed, queue.DiscardAtOnce)
	if s.Priority != job.DefaultType("").Priority {
		q.DefaultPriority = &s.Priority
	}
	if s.Timeout != job.DefaultType("").Timeout {
		q.DefaultTimeout = s.Timeout
	}
	if s.Retry != job.DefaultRetry {
		q.DefaultRetry = &s.Retry
	}
	b.groups(path+".throttle_groups", s.ThrottleGroups)
	b.retryHandler(path+".retry_handler", s.RetryHandler)
	b.seen = map[string]bool{} // per queue
	for i, section := range s.JobTypes {
		at := element(path+".job_types", i, section.Name)
		b.ownName(path+".job_types", i, "job type", section.Name, job.CheckType)
		q.Types = append(q.Types, b.jobType(at, section))
		if section.ThrottleFactor == 0 && q.RefuseWeightless {
			b.refuse(at+".throttle_factor", "0 would bypass the throttle limit and groups, which %s.allow_weightless: false refuses", path)
		}
		if section.Handler == nil {
			if section.RetryHandler != s.RetryHandler {
				b.refuse(at+".retry_handler", "is for jobs that this config runs, but the type has no handler of its own; add one or leave the key out")
			}
			b.forget(at + ".retry_handler")
			continue
		}
		h := b.handler(at+".handler", *section.Handler)
		q.Handlers[section.Name] = h
		if h.Stream != nil {
			q.Types[i].Concurrency = b.roomIn(h.Stream, q.Types[i].Concurrency)
			q.Types[i].StartTimeout = cmp.Or(h.Stream.StartTimeout, handler.DefaultStartTimeout)
		}
		if h := b.retryHandler(at+".retry_handler", section.RetryHandler); h != nil {
			q.RetryHandlers[section.Name] = *h
			q.Types[i].RetryHandler = true
		}
	}
	if !q.HasAllTypes() {
		return q
	}
	if q.StrictTypes = false; s.StrictTypes && b.from[path+".strict_types"] != b.from["strict_types"] {
		b.refuse(path+".strict_types", "is true, but the job type %s stands for all types, so the queue refuses none", job.AllTypes)
	}
	_, asks := q.RetryHandlers[job.AllTypes]
	for i, t := range q.Types {
		if _, own := q.Handlers[t.Name]; asks && !own {
			q.Types[i].RetryHandler = true
		}
	}
	return q
}

func (b builder) groups(path string, g *job.ThrottleGroups) {
	if g == nil {
		return
	}
	switch {
	case g.By == "":
		b.missing(path+".by", "; write %s, or %sNAME for a value inside job_data", job.GroupByType, job.GroupByData)
	case !job.IsGroupBy(g.By):
		b.refuse(path+".by", "%s is neither %s nor %sNAME, which is a value inside job_data", shown(g.By), job.GroupByType, job.GroupByData)
	case len(g.By) > 128:
		b.refuse(path+".by", "has %d bytes; the maximum is 128", len(g.By))
	}
	if len(g.Limits) == 0 {
		b.missing(path+".limits", "; give at least one limit, such as {east: 40, %q: 10}", job.OtherGroups)
	}
	for _, value := range slices.Sorted(maps.Keys(g.Limits)) {
		if most := g.MaxValueBytes(); value == "" {
			b.refuse(path+".limits", "has a limit for the value \"\", but a job with an empty value is in no group")
		} else if len(value) > most {
			b.refuse(path+".limits", "has a limit for a value of %d bytes; the maximum for %s is %d", len(value), g.By, most)
		}
	}
}

var rateForm = texts.Pattern(`^([0-9]{1,9})/(.+)$`)

// rate parses starts per time: 100/1m.
func (b builder) rate(path, text string) (r job.Rate) {
	m := rateForm().FindStringSubmatch(text)
	switch {
	case text == "":
		return r
	case m == nil:
		b.refuse(path, "%s is not a rate; write a number of starts and a time, such as 100/1m", shown(text))
		return r
	}
	starts, err := readWhole(m[1], "1", "")
	per, invalid := readSpan(m[2], "1s", "", "")
	if err := cmp.Or(err, invalid); err != nil {
		b.refuse(path, "%w", err)
	}
	return job.Rate{Starts: starts, Per: per}
}

func (b builder) jobType(path string, s jobTypeSection) job.Type {
	windows, err := job.ParseWindows(s.TimeWindows)
	if err != nil {
		b.refuseName(path+".time_windows", strings.Join(s.TimeWindows, " "), err)
	}
	return job.Type{
		Name: s.Name, Timeout: s.Timeout, Retry: s.Retry, Priority: s.Priority, ThrottleFactor: s.ThrottleFactor,
		Windows: windows, Async: s.Async, Concurrency: s.Concurrency,
	}
}
