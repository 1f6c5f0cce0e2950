package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/hipq/hipq/internal/files"
)

// Everywhere is the config that is found by whoever names none, whichever user and folder that is.
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

// Places are where a config is looked for that nobody names, in this environment: the first there is. One that is not absolute is in
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
