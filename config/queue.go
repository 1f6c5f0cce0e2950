package config

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

func (b builder) queueName(i int, name string, names schema.Names, seen map[string]bool) {
	at := fmt.Sprintf("queues[%d].name", i)
	switch {
	case name == "":
		b.missing(at, "; every queue needs a name")
	case seen[name]:
		b.refuse(at, "%s is the name of an earlier queue already", shown(name))
	default:
		if _, err := names.CheckQueue(name); err != nil {
			b.refuseName(at, name, err)
		}
	}
	seen[name] = true
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
	for i, section := range s.JobTypes {
		at := element(path+".job_types", i, section.Name)
		known := slices.ContainsFunc(q.Types, func(t job.Type) bool { return t.Name == section.Name })
		b.typeName(fmt.Sprintf("%s.job_types[%d].name", path, i), section.Name, known)
		b.inherits(at, path, "timeout", "retry", "retry_handler")
		b.outer[at+".priority"] = path + ".default_priority"
		q.Types = append(q.Types, b.jobType(at, section, outer.Type))
		if weightless(section.ThrottleFactor) && q.RefuseWeightless {
			b.refuse(at+".throttle_factor", "0 would pass the limits by, which %s.allow_weightless: false refuses", path)
		}
		if section.Handler == nil {
			b.note(at+".handler", nil, "")
			if section.RetryHandler != nil {
				b.refuse(at+".retry_handler", "is for the jobs that this config runs, but the type has no handler; add one or leave the key out")
			}
			continue
		}
		h := b.handler(at+".handler", *section.Handler)
		q.Handlers[section.Name] = h
		q.Types[i].Concurrency = b.roomIn(h, q.Types[i].Concurrency)
		if h := b.retryHandler(at+".retry_handler", section.RetryHandler, outer.retryHandler); h != nil {
			q.RetryHandlers[section.Name] = *h
			q.Types[i].RetryHandler = true
		}
	}
	return q
}

// roomIn is how many jobs of a type may run at once on this host, so that none waits for a program of its stream: the fewer of
// those and what the config says, where 0 is as many as the worker has slots.
func (b builder) roomIn(h Handler, concurrency int) int {
	room := h.Processes * h.InFlight
	if h.Stream == nil || room >= b.slots || concurrency > 0 && room >= concurrency {
		return concurrency
	}
	return room
}

// oneOf reads one of a few words; an empty text is the first.
func oneOf[T ~string](b builder, path, text string, words ...T) T {
	word := T(b.text(path, text, string(words[0])))
	if !slices.Contains(words, word) {
		list := make([]string, len(words))
		for i, w := range words {
			list[i] = string(w)
		}
		b.refuse(path, "%s is none of %s", shown(text), strings.Join(list, ", "))
	}
	return word
}

// keep reads how long final jobs are kept; 0 is not at all.
func (b builder) keep(path, text string, otherwise time.Duration) time.Duration {
	if d := b.seconds(path, text, otherwise, 0); d > 0 {
		return d
	}
	return queue.DiscardAtOnce
}

// groups reads the limits of throttle groups.
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
		b.refuse(path+".by", "has %d bytes, allowed are 128", len(s.By))
	}
	if len(s.Limits) == 0 {
		b.missing(path+".limits", "; give at least one limit, such as {east: 40, %q: 10}", job.OtherGroups)
	}
	for i, value := range slices.Sorted(maps.Keys(s.Limits)) {
		if value == "" {
			b.refuse(path+".limits", "has a limit for the value \"\", but a job with that is in no group")
			continue
		}
		g.Limits[value] = b.whole(element(path+".limits", i, value), s.Limits[value], 0, 1, maxInt)
	}
	b.text(path+".by", s.By, "")
	b.note(path+".limits", g.Limits, s.By)
	return g
}

var rateForm = regexp.MustCompile(`^([0-9]{1,9})/(.+)$`)

// rate reads starts per time: 100/1m.
func (b builder) rate(path, text string) job.Rate {
	if b.text(path, text, "") == "" {
		return job.Rate{}
	}
	m := rateForm.FindStringSubmatch(text)
	if m == nil {
		b.refuse(path, "%s is not a rate; write a number of starts and a time, such as 100/1m", shown(text))
		return job.Rate{}
	}
	return job.Rate{
		Starts: b.whole(path, m[1], 0, 1, maxInt),
		Per:    b.span(path, m[2], 0, time.Second),
	}
}

// retryHandler reads a retry handler; without one that of the level outside holds.
func (b builder) retryHandler(path string, s *retryHandlerSection, outer *Handler) *Handler {
	switch {
	case s != nil:
		if len(s.Exec) == 0 {
			b.missing(path+".exec", "; write the program and its arguments as a list, such as [php, send.php]")
		}
		return new(b.program(path, "exec", handler.CheckNoPlaceholder, handlerSection{
			Exec: s.Exec, Dir: s.Dir, Env: s.Env, User: s.User, NoNewPrivs: s.NoNewPrivs, Limits: s.Limits, Nice: s.Nice, Umask: s.Umask,
		}))
	case outer != nil:
		b.noteHandler(path, *outer, handlerSection{})
	default:
		b.note(path, nil, "")
	}
	return outer
}

func (b builder) typeName(path, name string, known bool) {
	switch {
	case name == "":
		b.missing(path, "; every job type needs a name")
	case known:
		b.refuse(path, "%s is the name of an earlier job type of this queue already", shown(name))
	default:
		if err := job.CheckType(name); err != nil {
			b.refuseName(path, name, err)
		}
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
	b.noteList(path+".time_windows", windows.Strings(), strings.Join(s.TimeWindows, " "))
	t.Async = b.truth(path+".async", s.Async, false)
	t.Concurrency = b.integer(path+".concurrency", s.Concurrency, 0, 1, 10000)
	return t
}

// weightless says whether a throttle factor is given, and 0.
func weightless(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n == 0
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// handler reads what runs for the jobs of a type.
func (b builder) handler(path string, s handlerSection) Handler {
	kind := ""
	for _, k := range []struct {
		name  string
		given bool
	}{{"exec", len(s.Exec) > 0}, {"stream", len(s.Stream) > 0}, {"http", s.HTTP != nil}} {
		switch {
		case k.given && kind != "":
			b.refuse(path+"."+k.name, "stands beside %s; a handler is one of them", kind)
		case k.given, kind == "" && b.refused[path+"."+k.name]: // then that is said, and what it was to be is known
			kind = k.name
		case k.name != "http": // a section, whose keys are noted if it is there
			b.note(path+"."+k.name, nil, "")
		}
	}
	if kind == "" {
		kind = "exec"
		b.missing(path+".exec", "; write the program and its arguments as a list, such as [php, send.php]")
	}
	for _, k := range []struct {
		name, text string
		of         []string
	}{
		{"processes", s.Processes, []string{"stream"}},
		{"in_flight", s.InFlight, []string{"stream"}},
		{"dir", s.Dir, []string{"exec", "stream"}},
		{"env", strings.Join(s.Env, " "), []string{"exec", "stream"}},
		{"dash_arguments", s.DashArguments, []string{"exec"}},
		{"user", s.User, []string{"exec", "stream"}},
		{"no_new_privs", s.NoNewPrivs, []string{"exec", "stream"}},
		{"limits.memory", s.Limits.Memory, []string{"exec", "stream"}},
		{"limits.open_files", s.Limits.OpenFiles, []string{"exec", "stream"}},
		{"limits.cpu", s.Limits.CPU, []string{"exec", "stream"}},
		{"limits.file_size", s.Limits.FileSize, []string{"exec", "stream"}},
		{"nice", s.Nice, []string{"exec", "stream"}},
		{"umask", s.Umask, []string{"exec", "stream"}},
	} {
		if slices.Contains(k.of, kind) {
			continue
		}
		if k.text != "" {
			b.refuse(path+"."+k.name, "is for %s, and this is %s", strings.Join(k.of, " and "), kind)
		}
		b.note(path+"."+k.name, nil, "")
	}
	if kind == "http" {
		if s.HTTP == nil {
			return Handler{Key: path + ".http"}
		}
		return Handler{Key: path + ".http", HTTP: b.http(path+".http", s.HTTP)}
	}
	if kind == "exec" {
		h := b.program(path, kind, handler.CheckArgument, s)
		h.DashArguments = b.truth(path+".dash_arguments", s.DashArguments, false)
		return h
	}
	h := b.program(path, kind, handler.CheckNoPlaceholder, s)
	h.Processes = b.integer(path+".processes", s.Processes, b.slots, 1, 10000)
	h.InFlight = b.integer(path+".in_flight", s.InFlight, 1, 1, 10000)
	return h
}

// program reads which program runs, and how; check says what is wrong with an argument. It shows no arguments and no variables'
// values in an error, as they may be secrets.
func (b builder) program(path, key string, check func(argv []string, at int) error, s handlerSection) Handler {
	h := Handler{Key: path, Exec: s.Exec, Stream: s.Stream, Dir: b.absolute(s.Dir), Env: s.Env, User: s.User}
	argv := h.Program()
	if len(argv) > 0 && argv[0] == "" {
		b.refuse(path+"."+key+"[0]", "is empty; it must be the program to run")
	}
	for i, arg := range argv {
		at := fmt.Sprintf("%s.%s[%d]", path, key, i)
		if strings.ContainsRune(arg, 0) {
			b.refuse(at, "holds a NUL, which no argument can")
		} else if err := check(argv, i); err != nil {
			b.refuse(at, "%w", err)
		}
	}
	seen := map[string]bool{}
	for i, entry := range s.Env {
		at := fmt.Sprintf("%s.env[%d]", path, i)
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case !variableName.MatchString(name):
			// not even its first word is shown, for it may be the value
			b.refuse(at, "does not begin with the name of a variable; write NAME=value, or NAME for the worker's own value")
		case slices.Contains(ownVariables(), name):
			b.refuse(at, "%s is set by hipq itself for each job", name)
		case seen[name]:
			b.refuse(at, "%s is given twice", name)
		case strings.ContainsRune(value, 0):
			b.refuse(at, "the value of %s holds a NUL, which no variable can", name)
		}
		seen[name] = true
	}
	b.surroundings(path, s, &h)
	b.noteHandler(path, h, s)
	return h
}
