package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hipq/hipq/internal/texts"
)

// settings are the keys outside lists that the environment can also set: HIPQ_WORKER_RUN_FOR is worker.run_for. The
// list is closed, because handler programs find other HIPQ_ variables in their environment (HIPQ_QUEUE, HIPQ_JOB_KEY,
// …). These must not be settings for a hipq that they call.
func settings() []string {
	return []string{
		"name", "tables", "timezone",
		"database.driver", "database.path", "database.mode", "database.dsn", "database.dsn_file",
		"database.tls.ca", "database.tls.cert", "database.tls.key", "database.tls.server_name",
		"worker.concurrency", "worker.batch", "worker.run_for", "worker.linger", "worker.poll", "worker.lock_for", "worker.grace",
		"activity.keep", "metrics.keep", "monitor.ping_url", "purge.ping_url", "mail",
	}
}

const prefix = "HIPQ_"

func variable(key string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// ownVariables are no settings: the config's place, and what tells a handler about its job.
func ownVariables() []string {
	return []string{"HIPQ_ATTEMPT", "HIPQ_CONFIG", "HIPQ_JOB_ID", "HIPQ_JOB_KEY", "HIPQ_JOB_TYPE", "HIPQ_QUEUE", "HIPQ_TOKEN", "HIPQ_WORKER_ID"}
}

// serviceLink matches a variable that Kubernetes sets for a service named hipq-database or hipq-worker.
var serviceLink = texts.Pattern(`_(SERVICE_(HOST|PORT)(_.*)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_.*)?)=|_PORT=(tcp|udp|sctp)://`)

// beginning matches the printable beginning of a variable's name.
var beginning = texts.Pattern(`^[A-Za-z0-9_]{1,64}`)

// variables refuses variables that are meant for hipq but have no effect: those named like a key or section of the
// config (HIPQ_WORKER_…), and those that resemble a setting. Other HIPQ_ variables belong to other programs or are
// service links. Empty variables don't count.
func (c *checker) variables(env map[string]string) {
	known := append([]string{"HIPQ_CONFIG"}, texts.Map(settings(), variable)...)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		own, ours := strings.CutPrefix(name, prefix)
		if !ours || env[name] == "" || slices.Contains(known, name) || slices.Contains(ownVariables(), name) ||
			serviceLink().MatchString(name+"="+env[name]) {
			continue
		}
		at := beginning().FindString(name)
		if at != name {
			at += "…" // the rest may be the value
		}
		section, ofSection := sectionOf(name)
		near := Nearest(name, known)
		// in a short name outside all sections, two mistakes are too many: HIPQ_HOME is not HIPQ_NAME
		isNear := near != "" && (ofSection || 3*distance(strings.ToUpper(name), near) <= len(own))
		beside := slices.DeleteFunc(slices.Clone(known), func(name string) bool { return !strings.HasPrefix(name, variable(section)+"_") })
		var err error
		switch {
		case isNear:
			err = fmt.Errorf("unknown variable; did you mean %s?", near)
		case !ofSection:
			continue
		case len(beside) > 0:
			err = fmt.Errorf("unknown variable; the variables are %s", strings.Join(beside, ", "))
		default:
			err = errors.New("unknown variable; " + section + " can only be set in the file")
		}
		c.errs = append(c.errs, &Mistake{Key: at, Err: err})
	}
}

// sectionOf is the top-level key, other than a list, that a variable seems to belong to.
func sectionOf(name string) (key string, ok bool) {
	for _, f := range fieldsOf(reflect.TypeFor[shape]()) {
		key, isSection := f.Tag.Get("key"), f.Type.Kind() == reflect.Struct || f.Type.Kind() == reflect.Pointer
		if name == variable(key) && f.Type.Kind() != reflect.Slice || isSection && strings.HasPrefix(name, variable(key)+"_") {
			return key, true
		}
	}
	return "", false
}
