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
	c := &checker{
		origin: map[string]string{}, refused: map[string]bool{}, unsure: map[string]bool{}, words: map[string]bool{}, from: map[string]string{},
	}
	c.variables(env)
	file, data, shared, err := find(o.File, o.Dir, env)
	if err != nil {
		return nil, nil, errors.Join(append(c.errs, err)...)
	}
	c.file, c.dir = file, filepath.Dir(file)
	var content map[string]any
	if content, c.lines, err = parseYAML(data); err != nil {
		return nil, nil, errors.Join(append(c.errs, fmt.Errorf("%w: %s: %w", ErrInvalid, file, err))...)
	}
	c.layers(content, env, o.Flags)
	b := builder{checker: c, shape: defaultShape(), shared: shared, seen: map[string]bool{}, deciders: map[*retryHandlerSection]*Handler{}}
	c.section(spot{content: content}, reflect.ValueOf(b.shape).Elem())
	config := b.config()
	config.lines = c.lines
	if f := changed(o.Flags, "max-jobs"); f != nil {
		if config.Worker.MaxJobs, err = readWhole(f.Value.String(), "", ""); err != nil {
			c.refuse("--max-jobs", "%w", err)
		}
	}
	return config, c, errors.Join(c.errs...)
}

// layers puts what the environment and the flags say over what the file says. Empty variables don't count.
func (c *checker) layers(content map[string]any, env map[string]string, flags *pflag.FlagSet) {
	v := viper.New()
	for _, key := range settings() {
		if value := env[variable(key)]; value != "" {
			v.SetDefault(key, value) // viper's binding would use only the process's environment
			c.origin[key] = variable(key)
		}
		if f := changed(flags, flagged()[key]); f != nil {
			_ = v.BindPFlag(key, f) // it fails only without a flag
			c.origin[key] = "--" + f.Name
			if f.Value.String() == "" {
				c.refuse(key, "is empty; leave the flag out for its default")
			}
		}
	}
	if database, ok := content["database"].(map[string]any); ok && (c.origin["database.dsn"] != "" || c.origin["database.dsn_file"] != "") {
		// dsn and dsn_file are one setting: the environment's replaces both of the file's, and the nodes with them
		delete(database, "dsn")
		delete(database, "dsn_file")
		delete(database, "nodes")
	}
	for key := range c.origin {
		if text := v.GetString(key); text != "" {
			put(content, key, text)
		}
	}
}

// put sets a setting in the file's content, unless that has something else than a section in its way.
func put(content map[string]any, key, text string) {
	section, rest, within := strings.Cut(key, ".")
	if !within {
		content[key] = text
		return
	}
	if content[section] == nil {
		content[section] = map[string]any{}
	}
	if inner, ok := content[section].(map[string]any); ok {
		put(inner, rest, text)
	}
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
