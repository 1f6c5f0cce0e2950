package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
)

const minimal = "name: shop\nqueues: [{name: emails}]\n"

// write puts a config of that text into a file and gives back its path.
func write(t *testing.T, path, text string) string {
	t.Helper()
	do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// environment is one of names and values, one after the other.
func environment(pairs ...string) (env []string) {
	for i := 0; i < len(pairs); i += 2 {
		env = append(env, pairs[i]+"="+pairs[i+1])
	}
	return env
}

func TestSearchOrder(t *testing.T) {
	root := t.TempDir()
	at := func(path string) string { return filepath.Join(root, path) }
	env := environment("HIPQ_CONFIG", "env/other.yaml", "XDG_CONFIG_HOME", at("xdg"), "HOME", at("home"))
	noVariable := environment("XDG_CONFIG_HOME", at("xdg"), "HOME", at("home"))
	noXDG := environment("HOME", at("home"))
	relativeXDG := environment("XDG_CONFIG_HOME", "xdg", "HOME", at("home"))
	for _, f := range []string{"flag/my.conf", "env/other.yaml", "work/hipq.yaml", "xdg/hipq/hipq.yaml", "home/.config/hipq/hipq.yaml", "work/env/other.yaml", "work/my.conf"} {
		write(t, at(f), minimal)
	}
	for _, c := range []struct {
		name string
		o    LoadOptions
		want string
	}{
		{"the flag wins", LoadOptions{File: at("flag/my.conf"), Env: env, Dir: at("work")}, "flag/my.conf"},
		{"a relative flag", LoadOptions{File: "my.conf", Env: env, Dir: at("work")}, "work/my.conf"},
		{"then the variable", LoadOptions{Env: env, Dir: at("work")}, "work/env/other.yaml"},
		{"then the working directory", LoadOptions{Env: noVariable, Dir: at("work")}, "work/hipq.yaml"},
		{"then XDG_CONFIG_HOME", LoadOptions{Env: noVariable, Dir: at("none")}, "xdg/hipq/hipq.yaml"},
		{"or its default", LoadOptions{Env: noXDG, Dir: at("none")}, "home/.config/hipq/hipq.yaml"},
		{"also where it is relative", LoadOptions{Env: relativeXDG, Dir: root}, "home/.config/hipq/hipq.yaml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := dbtest.Must(Load(c.o))(t)
			if config.File != at(c.want) {
				t.Errorf("read %s, want %s", config.File, at(c.want))
			}
		})
	}
}

func TestNotFound(t *testing.T) {
	root := t.TempDir()
	file := write(t, filepath.Join(root, "file"), "")
	for _, c := range []struct {
		name string
		o    LoadOptions
		want string
	}{
		{"by the flag", LoadOptions{File: "my.yaml", Dir: root, Env: noEnv}, "no configuration file: " + root + "/my.yaml does not exist"},
		{
			"by the variable, though others exist",
			LoadOptions{Dir: root, Env: environment("HIPQ_CONFIG", "/nowhere/my.yaml")},
			"no configuration file: /nowhere/my.yaml (named by HIPQ_CONFIG) does not exist",
		},
		{
			"by searching",
			LoadOptions{Dir: root, Env: environment("HOME", file)},
			"no configuration file: looked for " + root + "/hipq.yaml, " + file + "/.config/hipq/hipq.yaml, /etc/hipq/hipq.yaml; " +
				"write one there, or name it with --config or HIPQ_CONFIG",
		},
		{
			"without a home",
			LoadOptions{Dir: root, Env: noEnv},
			"no configuration file: looked for " + root + "/hipq.yaml, /etc/hipq/hipq.yaml; write one there, or name it with --config or HIPQ_CONFIG",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load(c.o)
			dbtest.Ensure(t, errors.Is(err, ErrNotFound) && err.Error() == c.want, "got %v\nwant %s", err, c.want)
		})
	}
}

// A file that is there but can't be read must not be passed over for the next.
func TestUnreadableEndsTheSearch(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "home/.config/hipq/hipq.yaml"), minimal)
	do(t, os.MkdirAll(filepath.Join(root, "hipq.yaml"), 0o755))
	_, err := Load(LoadOptions{Dir: root, Env: environment("HOME", filepath.Join(root, "home"))})
	dbtest.Ensure(t, errors.Is(err, ErrInvalid) && strings.Contains(err.Error(), root+"/hipq.yaml can't be read: is a directory"),
		"got %v", err)
}
