package handler

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/hipq/hipq/internal/guard"
	"github.com/hipq/hipq/queue/job"
)

// environment is what the program finds in its environment for one job, or for many, where j is nil.
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

// constantEnvironment is the part that is the same for all jobs. A name occurs once: which of two the program would see
// is up to its language.
func (p *Program) constantEnvironment() []string {
	var env []string
	set := func(name, value string) {
		env = slices.DeleteFunc(env, func(entry string) bool { return strings.HasPrefix(entry, name+"=") })
		env = append(env, name+"="+value)
	}
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
		set("SHELL", "/bin/sh") // as cron has it: a user of services may have none that runs anything
	}
	for _, entry := range p.Env {
		name, value, has := strings.Cut(entry, "=")
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
	return env
}

// What a handler gets of the worker's variables unasked: what programs need to find their way and to talk the operator's language,
// nothing that may hold a secret or that depends on who started the worker.
var (
	shared = []string{"PATH", "LANG", "TZ"} // and LC_*
	// personal are one user's: what another has there is nothing for a program that runs as somebody else.
	personal = []string{"HOME", "USER", "LOGNAME", "SHELL", "TMPDIR"}
)

var perJob = []string{"HIPQ_JOB_ID", "HIPQ_QUEUE", "HIPQ_JOB_TYPE", "HIPQ_JOB_KEY", "HIPQ_ATTEMPT", "HIPQ_TOKEN"}
