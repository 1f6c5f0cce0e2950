package config

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/policy"
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

func (b builder) queue(path string, s queueSection, outer defaults) Queue {
	q := Queue{Handlers: map[string]Handler{}, RetryHandlers: map[string]Handler{}}
	b.inherits(path, "", "timeout", "retry", "retry_handler", "default_priority", "strict_types")
	q.Name = b.text(path+".name", s.Name, "")
	q.ThrottleLimit = b.integer(path+".throttle_limit", s.ThrottleLimit, 0, math.MinInt32, maxInt)
	q.ThrottleGroups = b.groups(path+".throttle_groups", s.ThrottleGroups)
	q.RefuseWeightless = !b.truth(path+".allow_weightless", s.AllowWeightless, true)
	q.Rate = b.rate(path+".rate", s.Rate)
	q.Shards = b.integer(path+".shards", s.Shards, 1, 1, policy.MaxShards)
	q.Concurrency = b.integer(path+".concurrency", s.Concurrency, 0, 1, 10000)
	q.Order = oneOf(b, path+".order", s.Order, job.ByPriority, job.BySchedule)
	q.PriorityOrder = oneOf(b, path+".priority_order", s.PriorityOrder, job.LowestFirst, job.HighestFirst)
	outer.Priority = b.integer(path+".default_priority", s.DefaultPriority, outer.Priority, -maxInt, maxInt)
	if outer.Priority != job.DefaultType("").Priority {
		q.DefaultPriority = &outer.Priority
	}
	q.StrictTypes = b.truth(path+".strict_types", s.StrictTypes, outer.strictTypes)
	q.KeepFinished = b.keep(path+".keep_finished", s.KeepFinished, queue.DefaultKeepFinished)
	q.KeepFailed = b.keep(path+".keep_failed", s.KeepFailed, queue.DefaultKeepFailed)
	outer.Timeout = b.timeout(path+".timeout", s.Timeout, outer.Timeout)
	outer.Retry = b.retry(path+".retry", s.Retry, outer.Retry)
	if outer.Timeout != job.DefaultType("").Timeout {
		q.DefaultTimeout = outer.Timeout
	}
	if outer.Retry != job.DefaultRetry {
		q.DefaultRetry = &outer.Retry
	}
	outer.retryHandler = b.retryHandler(path+".retry_handler", s.RetryHandler, outer.retryHandler)
	b.seen = map[string]bool{} // per queue
	for i, section := range s.JobTypes {
		at := element(path+".job_types", i, section.Name)
		b.ownName(path+".job_types", i, "job type", section.Name, job.CheckType)
		b.inherits(at, path, "timeout", "retry", "retry_handler")
		b.outer[at+".priority"] = path + ".default_priority"
		q.Types = append(q.Types, b.jobType(at, section, outer.Type))
		if weightless(section.ThrottleFactor) && q.RefuseWeightless {
			b.refuse(at+".throttle_factor", "0 would bypass the throttle limit and groups, which %s.allow_weightless: false refuses", path)
		}
		if section.Handler == nil {
			b.note(at+".handler", nil, "")
			if section.RetryHandler != nil {
				b.refuse(at+".retry_handler", "is for jobs that this config runs, but the type has no handler of its own; add one or leave the key out")
			}
			continue
		}
		h := b.handler(at+".handler", *section.Handler)
		q.Handlers[section.Name] = h
		if h.Stream != nil {
			q.Types[i].Concurrency = b.roomIn(h.Stream, q.Types[i].Concurrency)
			q.Types[i].StartTimeout = cmp.Or(h.Stream.StartTimeout, handler.DefaultStartTimeout)
		}
		if h := b.retryHandler(at+".retry_handler", section.RetryHandler, outer.retryHandler); h != nil {
			q.RetryHandlers[section.Name] = *h
			q.Types[i].RetryHandler = true
		}
	}
	if !q.HasAllTypes() {
		return q
	}
	if q.StrictTypes = false; s.StrictTypes != "" && b.truth(path+".strict_types", s.StrictTypes, false) {
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

// oneOf parses one of a few words; empty means the first.
func oneOf[T ~string](b builder, path, text string, words ...T) T {
	word := T(b.text(path, text, string(words[0])))
	if !slices.Contains(words, word) {
		list := texts.Map(words, func(w T) string { return string(w) })
		b.refuse(path, "%s is not one of %s", shown(text), strings.Join(list, ", "))
	}
	return word
}

// keep parses how long final jobs are kept; 0 means not at all.
func (b builder) keep(path, text string, otherwise time.Duration) time.Duration {
	if d := b.seconds(path, text, otherwise, 0); d > 0 {
		return d
	}
	return queue.DiscardAtOnce
}

func (b builder) groups(path string, s *groupsSection) *job.ThrottleGroups {
	if s == nil {
		b.note(path, nil, "")
		return nil
	}
	g := &job.ThrottleGroups{By: s.By, Limits: map[string]int{}}
	switch {
	case s.By == "":
		b.missing(path+".by", "; write %s, or %sNAME for a value inside job_data", job.GroupByType, job.GroupByData)
	case !job.IsGroupBy(s.By):
		b.refuse(path+".by", "%s is neither %s nor %sNAME, which is a value inside job_data", shown(s.By), job.GroupByType, job.GroupByData)
	case len(s.By) > 128:
		b.refuse(path+".by", "has %d bytes; the maximum is 128", len(s.By))
	}
	if len(s.Limits) == 0 {
		b.missing(path+".limits", "; give at least one limit, such as {east: 40, %q: 10}", job.OtherGroups)
	}
	for i, value := range slices.Sorted(maps.Keys(s.Limits)) {
		if value == "" {
			b.refuse(path+".limits", "has a limit for the value \"\", but a job with an empty value is in no group")
			continue
		}
		if most := g.MaxValueBytes(); len(value) > most {
			b.refuse(path+".limits", "has a limit for a value of %d bytes; the maximum for %s is %d", len(value), s.By, most)
		}
		g.Limits[value] = b.whole(element(path+".limits", i, value), s.Limits[value], 0, 1, maxInt)
	}
	b.text(path+".by", s.By, "")
	b.note(path+".limits", g.Limits, s.By)
	return g
}

var rateForm = texts.Pattern(`^([0-9]{1,9})/(.+)$`)

// rate parses starts per time: 100/1m.
func (b builder) rate(path, text string) job.Rate {
	if b.text(path, text, "") == "" {
		return job.Rate{}
	}
	m := rateForm().FindStringSubmatch(text)
	if m == nil {
		b.refuse(path, "%s is not a rate; write a number of starts and a time, such as 100/1m", shown(text))
		return job.Rate{}
	}
	return job.Rate{
		Starts: b.whole(path, m[1], 0, 1, maxInt),
		Per:    b.span(path, m[2], 0, time.Second),
	}
}

func (b builder) jobType(path string, s jobTypeSection, t job.Type) job.Type {
	t.Name = b.text(path+".name", s.Name, "")
	t.Timeout = b.timeout(path+".timeout", s.Timeout, t.Timeout)
	t.Retry = b.retry(path+".retry", s.Retry, t.Retry)
	t.Priority = b.integer(path+".priority", s.Priority, t.Priority, -maxInt, maxInt)
	t.ThrottleFactor = b.integer(path+".throttle_factor", s.ThrottleFactor, t.ThrottleFactor, 0, maxInt)
	windows, err := job.ParseWindows(s.TimeWindows)
	if err != nil {
		b.refuseName(path+".time_windows", strings.Join(s.TimeWindows, " "), err)
	}
	t.Windows = windows
	b.noteList(path+".time_windows", windows.Strings())
	t.Async = b.truth(path+".async", s.Async, false)
	t.Concurrency = b.integer(path+".concurrency", s.Concurrency, 0, 1, 10000)
	return t
}

// weightless reports whether a throttle factor is given as 0.
func weightless(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n == 0
}
