package handler

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/hipq/hipq/internal/guard"
	"github.com/hipq/hipq/queue/job"
)

// environment returns the program's environment for job j, or for many if j is nil.
func (p *Program) environment(j *job.Job) []string {
	p.once.Do(func() { p.constant = p.constantEnvironment() })
	if j == nil {
		return p.constant
	}
	return append(slices.Grow(slices.Clip(p.constant), 6),
		"HIPQ_JOB_ID="+strconv.FormatInt(j.ID, 10),
		"HIPQ_QUEUE="+withoutNUL(j.Queue),
		"HIPQ_JOB_TYPE="+withoutNUL(j.Type),
		"HIPQ_JOB_KEY="+withoutNUL(j.Key),
		"HIPQ_ATTEMPT="+strconv.Itoa(j.Attempt),
		"HIPQ_TOKEN="+withoutNUL(j.AttemptToken),
	)
}

// constantEnvironment returns the part that all jobs share. Names are unique, because languages differ in which duplicate
// they use.
func (p *Program) constantEnvironment() []string {
	values := map[string]string{}
	set := func(name, value string) { values[name] = name + "=" + value }
	user := p.other()
	for _, entry := range os.Environ() {
		name, value, is := strings.Cut(entry, "=")
		if is && (slices.Contains(shared, name) || strings.HasPrefix(name, "LC_") || user == nil && slices.Contains(personal, name)) {
			set(name, value)
		}
	}
	if user != nil {
		set("HOME", user.home)
		set("USER", user.name)
		set("LOGNAME", user.name)
		set("SHELL", "/bin/sh") // like cron, because service users may have no usable shell
	}
	for _, entry := range p.Env {
		name, value, has := strings.Cut(entry, "=")
		if prefix, is := strings.CutSuffix(name, "*"); is && !has {
			for _, theirs := range os.Environ() {
				name, value, _ := strings.Cut(theirs, "=")
				own := strings.HasPrefix(name, "HIPQ_") && !strings.HasPrefix(prefix, "HIPQ_") || user != nil && slices.Contains(personal, name)
				if strings.HasPrefix(name, prefix) && name != "" && !own && !slices.Contains(perJob, name) {
					set(name, value)
				}
			}
			continue
		}
		if !has {
			value, has = os.LookupEnv(name)
		}
		if has && !slices.Contains(perJob, name) {
			set(name, value)
		}
	}
	set(guard.WorkerVariable, p.WorkerID)
	if p.ConfigFile != "" {
		set("HIPQ_CONFIG", p.ConfigFile)
	}
	return slices.Sorted(maps.Values(values))
}

// The worker's variables that handlers inherit: what programs need for paths and language. None may hold secrets, or depend
// on who started the worker.
var (
	shared = []string{"PATH", "LANG", "TZ"} // and LC_*
	// personal variables apply only to programs of the same user.
	personal = []string{"HOME", "USER", "LOGNAME", "SHELL", "TMPDIR"}
)

var perJob = []string{"HIPQ_JOB_ID", "HIPQ_QUEUE", "HIPQ_JOB_TYPE", "HIPQ_JOB_KEY", "HIPQ_ATTEMPT", "HIPQ_TOKEN"}
