package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// settings are the keys outside of the lists, which the environment can give as well: HIPQ_WORKER_RUN_FOR is
// worker.run_for. The list is closed because handler programs find other HIPQ_ variables in their environment
// (HIPQ_QUEUE, HIPQ_JOB_KEY, …), which must not be settings to a hipq that they call.
func settings() []string {
	return []string{
		"name", "tables", "timezone",
		"database.driver", "database.path", "database.mode", "database.dsn", "database.dsn_file",
		"database.tls.ca", "database.tls.cert", "database.tls.key", "database.tls.server_name",
		"worker.concurrency", "worker.batch", "worker.run_for", "worker.linger", "worker.lock_for", "worker.grace",
		"activity.keep",
	}
}

// flagged are the settings that a command's flag may give.
func flagged() map[string]string {
	return map[string]string{
		"worker.concurrency": "concurrency", "worker.batch": "batch", "worker.run_for": "run-for", "worker.linger": "linger",
	}
}

func variable(key string) string {
	return "HIPQ_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// handed are the variables that are no settings, and mean something all the same: where the config is, what handlers find in
// their environment, and what hipq's own tests go by.
func handed() []string {
	return []string{
		"HIPQ_CONFIG", "HIPQ_WORKER_ID", "HIPQ_JOB_ID", "HIPQ_QUEUE", "HIPQ_JOB_TYPE", "HIPQ_JOB_KEY", "HIPQ_ATTEMPT", "HIPQ_TOKEN",
		"HIPQ_TEST_MYSQL_DSN", "HIPQ_TEST_REQUIRE_MYSQL",
	}
}

// Misspelt gives a warning for each variable of an environment, as os.Environ gives it, that begins like hipq's and is none.
func Misspelt(environ []string) (warnings []string) {
	known := handed()
	for _, key := range settings() {
		known = append(known, variable(key))
	}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "HIPQ_") || value == "" || slices.Contains(known, name) {
			continue
		}
		warning := fmt.Sprintf("the variable %.80q means nothing to hipq", name)
		if near := nearest(name, lowered(known)); near != "" {
			warning += "; did you mean " + strings.ToUpper(near) + "?"
		}
		warnings = append(warnings, warning)
	}
	return warnings
}

func lowered(names []string) []string {
	low := make([]string, len(names))
	for i, name := range names {
		low[i] = strings.ToLower(name)
	}
	return low
}

// Load finds, reads and checks the config. A flag outranks the environment, the environment the file, the file the
// default. The error wraps ErrNotFound or ErrInvalid; in the latter case it names every mistake, a line each, and never
// a secret.
func Load(o LoadOptions) (*Config, error) {
	if o.Env == nil {
		o.Env = os.Getenv
	}
	file, data, shared, err := find(o.File, o.Dir, o.Env)
	if err != nil {
		return nil, err
	}
	content, err := parseYAML(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, file, err)
	}
	c := &checker{file: file, origin: map[string]string{}}
	c.keys("", content, reflect.TypeFor[shape]())
	if c.errs != nil {
		return nil, errors.Join(c.errs...)
	}
	s, err := c.layers(content, o)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, file, err)
	}
	b := builder{checker: c, dir: filepath.Dir(file), shared: shared}
	config := b.config(s)
	if f := changed(o.Flags, "max-jobs"); f != nil {
		config.Worker.MaxJobs = c.integer("--max-jobs", f.Value.String(), 0, 0, maxInt)
	}
	if c.errs != nil {
		return nil, errors.Join(c.errs...)
	}
	return config, nil
}

// layers lays the environment and the flags over the file.
func (c *checker) layers(content map[string]any, o LoadOptions) (*shape, error) {
	v := viper.New()
	overlay := c.environment(o.Env)
	if database, ok := content["database"].(map[string]any); ok && (c.origin["database.dsn"] != "" || c.origin["database.dsn_file"] != "") {
		// two spellings of one setting: the environment's replaces the file's, whichever they are
		delete(database, "dsn")
		delete(database, "dsn_file")
	}
	limits := setLimitsAside(content)
	for _, layer := range []map[string]any{content, overlay} {
		if err := v.MergeConfigMap(layer); err != nil {
			return nil, err
		}
	}
	for key, name := range flagged() {
		if f := changed(o.Flags, name); f != nil {
			if err := v.BindPFlag(key, f); err != nil {
				return nil, err
			}
			c.origin[key] = "--" + name
			if f.Value.String() == "" {
				c.refuse(key, "is empty; leave the flag out for what holds without it")
			}
		}
	}
	var s shape
	if err := v.UnmarshalExact(&s); err != nil {
		return nil, err
	}
	for i, values := range limits {
		s.Queues[i].ThrottleGroups.Limits = values
	}
	return &s, nil
}

// setLimitsAside takes the limits of throttle groups out of the queues, and gives them by queue: their keys are values of
// the jobs, and viper would make lower case of them.
func setLimitsAside(content map[string]any) map[int]map[string]string {
	aside := map[int]map[string]string{}
	queues, _ := content["queues"].([]any)
	for i, q := range queues {
		q, _ := q.(map[string]any)
		groups, _ := q["throttle_groups"].(map[string]any)
		limits, ok := groups["limits"].(map[string]any)
		if !ok {
			continue
		}
		delete(groups, "limits")
		aside[i] = map[string]string{}
		for value, limit := range limits {
			aside[i][value], _ = limit.(string) // the keys were checked
		}
	}
	return aside
}

// environment collects the settings that are in the environment. It is laid over the file as a layer rather than bound
// in viper, which would not let a caller, or a test, give another environment. An empty variable is none.
func (c *checker) environment(env func(string) string) map[string]any {
	overlay := map[string]any{}
	for _, key := range settings() {
		value := env(variable(key))
		if value == "" {
			continue
		}
		c.origin[key] = variable(key)
		path := strings.Split(key, ".")
		section := overlay
		for _, name := range path[:len(path)-1] {
			inner, _ := section[name].(map[string]any)
			if inner == nil {
				inner = map[string]any{}
				section[name] = inner
			}
			section = inner
		}
		section[path[len(path)-1]] = value
	}
	return overlay
}

// changed is the flag of that name if there is one and it was given.
func changed(flags *pflag.FlagSet, name string) *pflag.Flag {
	if flags == nil {
		return nil
	}
	if f := flags.Lookup(name); f != nil && f.Changed {
		return f
	}
	return nil
}
