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

// flagged are the settings that a command's flag may give.
func flagged() map[string]string {
	return map[string]string{
		"worker.concurrency": "concurrency", "worker.batch": "batch", "worker.run_for": "run-for", "worker.linger": "linger",
	}
}

// Load finds, reads and checks the config. A flag outranks the environment, the environment the file, the file the
// default. The error wraps ErrNotFound or ErrInvalid; in the latter case it names every mistake, a line each, and never
// a secret, and beside it there is what could be read of the config, or nil. Mistakes takes the error apart.
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
	c := newChecker()
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

// layers lays the environment and the flags over the file. An empty variable is none.
func (c *checker) layers(content map[string]any, env map[string]string, flags *pflag.FlagSet) (*shape, error) {
	v := viper.New()
	for _, key := range settings() {
		if value := env[variable(key)]; value != "" {
			v.Set(key, value) // not bound in viper, which would not let a caller, or a test, give another environment
			c.origin[key] = variable(key)
		}
	}
	if database, ok := content["database"].(map[string]any); ok && (c.origin["database.dsn"] != "" || c.origin["database.dsn_file"] != "") {
		// two spellings of one setting: the environment's replaces the file's, whichever they are; and nodes are a part of it
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

// Everywhere is the config that a command uses when none is named, for every user and in every folder.
const Everywhere = "/etc/hipq/hipq.yaml"

// find reads the config file: the one that is named, else the first there is of the usual places. One that is there and
// can't be read ends the search, so that no other is taken for it in silence.
//
// shared says that others may read it.
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
	return "", nil, false, fmt.Errorf("%w: looked for %s; write one there, or name it with --config or HIPQ_CONFIG", ErrNotFound, strings.Join(places, ", "))
}

// Places are where hipq looks for a config without --config, in this environment; the first counts. A relative one is in
// the working directory.
func Places(env map[string]string) []string {
	places := []string{"hipq.yaml"}
	home := env["XDG_CONFIG_HOME"]
	if !filepath.IsAbs(home) { // so the XDG specification wants it
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
