package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/hipq/hipq/internal/files"
)

// flagged are the settings that a command's flag may set.
func flagged() map[string]string {
	return map[string]string{
		"worker.concurrency": "concurrency", "worker.batch": "batch", "worker.run_for": "run-for", "worker.linger": "linger",
		"worker.poll": "poll",
	}
}

// Load finds, reads and checks the config. A flag outranks the environment, the environment the file, the file the
// default. The error wraps ErrNotFound or ErrInvalid. An ErrInvalid lists each mistake on its own line, never with a
// secret; the config is then what could be read, or nil. Mistakes splits the error.
func Load(o LoadOptions) (*Config, error) {
	config, _, err := read(o)
	return config, err
}

func read(o LoadOptions) (*Config, *checker, error) {
	if o.Env == nil {
		o.Env = os.Environ()
	}
	env := map[string]string{}
	for _, entry := range o.Env {
		if name, value, is := strings.Cut(entry, "="); is { // an environment may hold anything
			env[name] = value
		}
	}
	c := &checker{origin: map[string]string{}, refused: map[string]bool{}, unsure: map[string]bool{}, words: map[string]bool{}, outer: map[string]string{}}
	c.variables(env)
	file, data, shared, err := find(o.File, o.Dir, env)
	if err != nil {
		return nil, nil, errors.Join(append(c.errs, err)...)
	}
	c.file = file
	var content map[string]any
	if content, c.lines, err = parseYAML(data); err != nil {
		return nil, nil, errors.Join(append(c.errs, fmt.Errorf("%w: %s: %w", ErrInvalid, file, err))...)
	}
	c.keys("", content, reflect.TypeFor[shape]())
	s, err := c.layers(content, env, o.Flags)
	if err != nil {
		return nil, nil, errors.Join(append(c.errs, fmt.Errorf("%w: %s: %w", ErrInvalid, file, err))...)
	}
	b := builder{checker: c, dir: filepath.Dir(file), shared: shared, seen: map[string]bool{}}
	config := b.config(s)
	config.lines = c.lines
	if f := changed(o.Flags, "max-jobs"); f != nil {
		config.Worker.MaxJobs = c.whole("--max-jobs", f.Value.String(), 0, 0, maxInt)
	}
	return config, c, errors.Join(c.errs...)
}

// layers applies the environment and the flags on top of the file. Empty variables don't count.
func (c *checker) layers(content map[string]any, env map[string]string, flags *pflag.FlagSet) (*shape, error) {
	v := viper.New()
	for _, key := range settings() {
		if value := env[variable(key)]; value != "" {
			v.Set(key, value) // set directly, because viper's binding would use only the process's environment
			c.origin[key] = variable(key)
		}
	}
	if database, ok := content["database"].(map[string]any); ok && (c.origin["database.dsn"] != "" || c.origin["database.dsn_file"] != "") {
		// dsn and dsn_file are one setting: the environment's replaces both of the file's, and the nodes with them
		delete(database, "dsn")
		delete(database, "dsn_file")
		delete(database, "nodes")
	}
	limits := setLimitsAside(content)
	if err := v.MergeConfigMap(content); err != nil {
		return nil, err
	}
	for key, name := range flagged() {
		if f := changed(flags, name); f != nil {
			v.Set(key, f.Value.String())
			c.origin[key] = "--" + name
			if f.Value.String() == "" {
				c.refuse(key, "is empty; leave the flag out for its default")
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

// setLimitsAside takes the throttle groups' limits out of the queues, and returns them by queue: viper would lower-case
// their keys, which are values of jobs.
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

// changed is the flag of that name, or nil if it doesn't exist or wasn't given.
func changed(flags *pflag.FlagSet, name string) *pflag.Flag {
	if flags == nil {
		return nil
	}
	if f := flags.Lookup(name); f != nil && f.Changed {
		return f
	}
	return nil
}

// Everywhere is the config for every user and folder if no other is named.
const Everywhere = "/etc/hipq/hipq.yaml"

// find reads the named config file, or the first that exists in the usual places. An unreadable file ends the search,
// because silently using another one would be wrong.
//
// shared means that others may read the file.
func find(file, dir string, env map[string]string) (path string, data []byte, shared bool, err error) {
	places, named := []string{file}, ""
	if file == "" && env["HIPQ_CONFIG"] != "" {
		places, named = []string{env["HIPQ_CONFIG"]}, " (named by HIPQ_CONFIG)"
	} else if file == "" {
		places = Places(env)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", nil, false, fmt.Errorf("find the working directory: %w", err)
	}
	for i, place := range places {
		if !filepath.IsAbs(place) {
			places[i] = filepath.Join(dir, place)
		}
		path = filepath.Clean(places[i])
		data, shared, err := files.ReadTrusted(path)
		switch {
		case err == nil:
			return path, data, shared, nil
		case errors.Is(err, files.ErrUntrusted):
			return "", nil, false, fmt.Errorf("%w: %s%s %w", ErrInvalid, path, named, err)
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			return "", nil, false, fmt.Errorf("%w: %s%s can't be read: %w", ErrInvalid, path, named, errors.Unwrap(err))
		}
	}
	if len(places) == 1 {
		return "", nil, false, fmt.Errorf("%w: %s%s does not exist", ErrNotFound, path, named)
	}
	return "", nil, false, fmt.Errorf("%w: looked for %s", ErrNotFound, strings.Join(places, ", "))
}

// Places are where Load searches for a config in this environment; the first that exists is used. Relative paths are in
// the working directory.
func Places(env map[string]string) []string {
	places := []string{"hipq.yaml"}
	home := env["XDG_CONFIG_HOME"]
	if !filepath.IsAbs(home) { // as the XDG specification requires
		home = ""
		if user := env["HOME"]; user != "" {
			home = filepath.Join(user, ".config")
		}
	}
	if home != "" {
		places = append(places, filepath.Join(home, "hipq", "hipq.yaml"))
	}
	return append(places, Everywhere)
}
