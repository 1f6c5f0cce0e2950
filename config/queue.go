package config

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/schema"
)

func (b builder) queueName(i int, name string, names schema.Names, seen map[string]bool) {
	at := fmt.Sprintf("queues[%d].name", i)
	switch {
	case name == "":
		b.refuse(at, "is missing; every queue needs a name")
	case seen[name]:
		b.refuse(at, "%s is the name of an earlier queue already", shown(name))
	default:
		if _, err := names.CheckQueue(name); err != nil {
			b.refuseName(at, name, err)
		}
	}
	seen[name] = true
}

func (b builder) queue(path string, s queueSection, outer queue.JobType) Queue {
	q := Queue{Handlers: map[string]Handler{}}
	q.Name = s.Name
	q.ThrottleLimit = b.integer(path+".throttle_limit", s.ThrottleLimit, 0, math.MinInt32, maxInt)
	q.KeepFinished = b.seconds(path+".keep_finished", s.KeepFinished, queue.DefaultKeepFinished, 0)
	q.KeepFailed = b.seconds(path+".keep_failed", s.KeepFailed, queue.DefaultKeepFailed, 0)
	outer.Timeout = b.timeout(path+".timeout", s.Timeout, outer.Timeout)
	outer.Retry = b.retry(path+".retry", s.Retry, outer.Retry)
	for i, section := range s.JobTypes {
		at := element(path+".job_types", i, section.Name)
		known := slices.ContainsFunc(q.Types, func(t queue.JobType) bool { return t.Name == section.Name })
		b.typeName(fmt.Sprintf("%s.job_types[%d].name", path, i), section.Name, known)
		q.Types = append(q.Types, b.jobType(at, section, outer))
		if section.Handler != nil {
			q.Handlers[section.Name] = b.handler(at+".handler", *section.Handler)
		}
	}
	return q
}

func (b builder) typeName(path, name string, known bool) {
	switch {
	case name == "":
		b.refuse(path, "is missing; every job type needs a name")
	case known:
		b.refuse(path, "%s is the name of an earlier job type of this queue already", shown(name))
	default:
		if err := queue.CheckType(name); err != nil {
			b.refuseName(path, name, err)
		}
	}
}

func (b builder) jobType(path string, s jobTypeSection, t queue.JobType) queue.JobType {
	t.Name = s.Name
	t.Timeout = b.timeout(path+".timeout", s.Timeout, t.Timeout)
	t.Priority = b.integer(path+".priority", s.Priority, t.Priority, math.MinInt32, maxInt)
	t.ThrottleFactor = b.integer(path+".throttle_factor", s.ThrottleFactor, t.ThrottleFactor, 0, maxInt)
	t.Retry = b.retry(path+".retry", s.Retry, t.Retry)
	windows, err := queue.ParseWindows(s.TimeWindows)
	if err != nil {
		b.refuseName(path+".time_windows", strings.Join(s.TimeWindows, " "), err)
	}
	t.Windows = windows
	return t
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ownVariables are those that tell a handler about its job.
func ownVariables() []string {
	return []string{"HIPQ_ATTEMPT", "HIPQ_CONFIG", "HIPQ_JOB_ID", "HIPQ_JOB_KEY", "HIPQ_JOB_TYPE", "HIPQ_QUEUE", "HIPQ_TOKEN", "HIPQ_WORKER_ID"}
}

// handler shows no arguments and no variables' values in an error, as they may be secrets.
func (b builder) handler(path string, s handlerSection) Handler {
	switch {
	case len(s.Exec) == 0:
		b.refuse(path+".exec", "is missing; write the program and its arguments as a list, such as [php, send.php]")
	case s.Exec[0] == "":
		b.refuse(path+".exec[0]", "is empty; it must be the program to run")
	}
	for i, arg := range s.Exec {
		if strings.ContainsRune(arg, 0) {
			b.refuse(fmt.Sprintf("%s.exec[%d]", path, i), "holds a NUL, which no argument can")
		}
	}
	seen := map[string]bool{}
	for i, entry := range s.Env {
		at := fmt.Sprintf("%s.env[%d]", path, i)
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case !variableName.MatchString(name):
			b.refuse(at, "%s is not the name of a variable; write NAME=value, or NAME for the worker's own value", shown(name))
		case slices.Contains(ownVariables(), name):
			b.refuse(at, "%s is set by hipq itself for each job", name)
		case seen[name]:
			b.refuse(at, "%s is given twice", name)
		case strings.ContainsRune(value, 0):
			b.refuse(at, "the value of %s holds a NUL, which no variable can", name)
		}
		seen[name] = true
	}
	return Handler{Exec: s.Exec, Dir: b.absolute(s.Dir), Env: s.Env}
}
