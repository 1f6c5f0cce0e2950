package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
)

const minimal = "name: shop\nqueues: [{name: emails}]\n"

// write writes a config with that text into a file, and returns its path.
func write(t *testing.T, path, text string) string {
	t.Helper()
	do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// environment makes an environment of alternating names and values.
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
			dbtest.Ensure(t, config.File == at(c.want), "read %s, want %s", config.File, at(c.want))
		})
	}
}

// stranger is a user other than root and the one that runs the tests.
const stranger = 65534

// place makes a folder with a config in it.
func place(t *testing.T, text string) (dir, file string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "etc")
	return dir, write(t, filepath.Join(dir, "hipq.yaml"), text)
}

func do(t *testing.T, errs ...error) {
	t.Helper()
	dbtest.OK(t, errors.Join(errs...))
}

// TestConfigOfSomebodyElse: a config that another user could have written is refused, because it may name any program.
func TestConfigOfSomebodyElse(t *testing.T) {
	dbtest.SkipIf(t, os.Geteuid() != 0, "only root can give files away") // CI runs as root
	for name, c := range map[string]struct {
		give func(t *testing.T, dir, file string)
		want string // empty: it is trusted
	}{
		"ours":                {func(*testing.T, string, string) {}, ""},
		"another's":           {func(t *testing.T, _, file string) { do(t, os.Chown(file, stranger, 0)) }, "belongs to user 65534"},
		"in another's folder": {func(t *testing.T, dir, _ string) { do(t, os.Chown(dir, stranger, 0)) }, "its folder"},
		"for all to write":    {func(t *testing.T, _, file string) { do(t, os.Chmod(file, 0o666)) }, "every user can write"},
		"for a group":         {func(t *testing.T, _, file string) { do(t, os.Chown(file, 0, stranger), os.Chmod(file, 0o660)) }, "group 65534 may write"},
		"for our group":       {func(t *testing.T, _, file string) { do(t, os.Chmod(file, 0o660)) }, ""},
		"in a folder of all":  {func(t *testing.T, dir, _ string) { do(t, os.Chmod(dir, 0o777)) }, "every user can write its folder"},
		"in one like /tmp":    {func(t *testing.T, dir, _ string) { do(t, os.Chmod(dir, 0o777|fs.ModeSticky)) }, ""},
		"a link of another's": {func(t *testing.T, dir, file string) {
			target := write(t, filepath.Join(filepath.Dir(dir), "theirs", "real.yaml"), minimal)
			do(t, os.Remove(file), os.Symlink(target, file), os.Chown(filepath.Dir(target), stranger, 0))
		}, "its folder"},
		"another's link in a folder like /tmp": {func(t *testing.T, dir, file string) {
			target := write(t, filepath.Join(filepath.Dir(dir), "ours", "real.yaml"), minimal)
			do(t, os.Remove(file), os.Symlink(target, file), os.Lchown(file, stranger, 0), os.Chmod(dir, 0o777|fs.ModeSticky))
		}, "the link"},
		"a link by way of a folder of all": {func(t *testing.T, dir, file string) {
			target := write(t, filepath.Join(filepath.Dir(dir), "ours", "real.yaml"), minimal)
			way := write(t, filepath.Join(filepath.Dir(dir), "all", "way.yaml"), minimal)
			do(t, os.Remove(file), os.Remove(way), os.Symlink(target, way), os.Symlink("../all/way.yaml", file), os.Chmod(filepath.Dir(way), 0o777))
		}, "every user can write its folder"},
		"links of ours": {func(t *testing.T, dir, file string) {
			target := write(t, filepath.Join(filepath.Dir(dir), "ours", "real.yaml"), minimal)
			do(t, os.Remove(file), os.Symlink(target, file+".way"), os.Symlink("hipq.yaml.way", file))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir, file := place(t, minimal)
			c.give(t, dir, file)
			_, err := Load(LoadOptions{File: file, Env: noEnv})
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want: %s", err, c.want)
			}
		})
	}
}

const withDSN = "name: shop\nqueues: [{name: emails}]\ndatabase: {driver: mysql, "

// TestWarnings: secrets that others may read, and unverified servers, cause warnings.
func TestWarnings(t *testing.T) {
	dir, file := place(t, withDSN+"dsn: 'hipq:secret@tcp(127.0.0.1)/shop'}\n")
	secret := write(t, filepath.Join(dir, "dsn"), "hipq:secret@tcp(localhost)/shop\n")
	warnings := func(want ...string) {
		t.Helper()
		c := dbtest.Must(Load(LoadOptions{File: file, Env: noEnv}))(t)
		dbtest.Require(t, len(c.Warnings) == len(want), "%q, want %q", c.Warnings, want)
		for i, w := range c.Warnings {
			dbtest.Ensure(t, strings.Contains(w, want[i]) && !strings.Contains(w, "secret@"), "%q, want %q", w, want[i])
		}
	}
	warnings()
	do(t, os.Chmod(file, 0o644))
	warnings("others may read " + file)
	write(t, file, withDSN+"dsn_file: dsn}\n")
	warnings()
	do(t, os.Chmod(secret, 0o644))
	warnings("others may read " + secret)
	do(t, os.Chmod(secret, 0o600))
	const plain, anyone = "is not encrypted: see database.tls", "the server isn't verified: see database.tls"
	for way, want := range map[string][]string{
		"tcp(db)/shop?tls=skip-verify": {anyone}, "tcp(db)/shop?tls=Preferred": {anyone}, "tcp(db)/shop?tls=true&allowFallbackToPlaintext=true": {anyone},
		"tcp(db)/shop": {plain}, "tcp(10.0.0.7)/shop": {plain}, "tcp(127.0.0.1,db2)/shop": {plain}, "tcp(db)/shop?tls=false&allowFallbackToPlaintext=true": {plain},
		"tcp(db)/shop?sql_mode='tls=preferred'": {plain}, "tcp(db)/shop?tls=true": nil, "unix(/run/mysqld/mysqld.sock)/shop": nil,
		"tcp([::1]:3306)/shop": nil, "tcp(127.0.0.2:3306)/shop?tls=skip-verify": nil,
	} {
		write(t, secret, "hipq:secret@"+way)
		warnings(want...)
	}
	write(t, secret, "hipq:tls=preferred;secret@tcp(db)/shop")
	warnings(plain)
	do(t, os.Chmod(secret, 0o666))
	if _, err := Load(LoadOptions{File: file, Env: noEnv}); err == nil || !strings.Contains(err.Error(), "database.dsn_file (line 3): ") || !strings.Contains(err.Error(), "every user can write") {
		t.Errorf("a secret that everybody may write: %v", err)
	}
}

// TestFilesThatCantBe: endless, overlong and empty files are refused.
func TestFilesThatCantBe(t *testing.T) {
	long := write(t, filepath.Join(t.TempDir(), "long"), "")
	do(t, os.Truncate(long, 1<<20+1))
	empty := write(t, filepath.Join(t.TempDir(), "empty"), "\n")
	for path, want := range map[string]string{
		"/dev/zero": "can't be read: it is not a regular file", long: "can't be read: it is longer than 1048576 bytes", empty: "/empty\" is empty",
	} {
		_, file := place(t, withDSN+"dsn_file: "+path+"}\n")
		for _, o := range []LoadOptions{{File: path, Env: noEnv}, {File: file, Env: noEnv}} {
			if o.File == empty {
				continue // as a config it is a file without keys
			}
			_, err := Load(o)
			dbtest.Ensure(t, errors.Is(err, ErrInvalid) && strings.Contains(err.Error(), want), "%s: %v", o.File, err)
		}
	}
}

func TestModeAndTLS(t *testing.T) {
	c := mustLoad(t, "name: shop\nqueues: [{name: emails}]\ndatabase: {mode: 0660}\n")
	dbtest.Ensure(t, c.Database.Mode == 0o660, "mode %o", c.Database.Mode)
	for _, mode := range []string{"777", "0666", "0444", "rw", "0o600", "1600"} {
		_, err := load(t, "name: shop\nqueues: [{name: emails}]\ndatabase: {mode: "+mode+"}\n", noEnv, nil)
		dbtest.Ensure(t, errors.Is(err, ErrInvalid), "%s: %v", mode, err)
	}
	c, err := load(t, withDSN+"dsn: 'hipq@tcp(db)/shop'}\n", environment("HIPQ_DATABASE_TLS_SERVER_NAME", "db.example.org"), nil)
	dbtest.Ensure(t, err == nil && c.Database.TLS != nil && c.Database.TLS.ServerName == "db.example.org",
		"from the environment: %v, %v", c, err)
	c = mustLoad(t, withDSN+"dsn: 'hipq@tcp(db)/shop', tls: {ca: ca.pem, server_name: db.example.org}}\n")
	got := c.Database.TLS
	dbtest.Ensure(t, got != nil && got.CA == filepath.Join(filepath.Dir(c.File), "ca.pem") && got.ServerName == "db.example.org" && got.Key == "", "%+v", got)
}
