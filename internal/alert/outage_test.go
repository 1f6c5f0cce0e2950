package alert_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/alert"
	"github.com/hipq/hipq/internal/dbtest"
)

func TestOutage(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("HOME", cache)
	t.Setenv("XDG_CACHE_HOME", cache)
	o := dbtest.Must(alert.OutageOf("a config\x00emails"))(t)
	begin := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	goes := func(after time.Duration, wantSay bool, wantSince time.Time) {
		t.Helper()
		since, say, err := o.Goes(begin.Add(after), begin.Add(after), "", 15*time.Minute)
		dbtest.Ensure(t, err == nil && say == wantSay && since.Equal(wantSince), "after %s: %s, %t, %v", after, since, say, err)
	}
	ends := func(after time.Duration, wantSince, wantOver time.Time) {
		t.Helper()
		if since, over, _, err := o.Ends(begin.Add(after)); err != nil || !since.Equal(wantSince) || !over.Equal(wantOver) {
			t.Errorf("after %s it was so from %s to %s, %v", after, since, over, err)
		}
	}
	never := time.Time{}
	ends(0, never, never)
	goes(0, true, begin)
	goes(time.Minute, false, begin)
	goes(14*time.Minute, false, begin)
	goes(15*time.Minute, true, begin)
	goes(16*time.Minute, false, begin)
	if other, err := alert.OutageOf("a config\x00files"); err != nil {
		t.Error(err)
	} else if since, _, _, err := other.Ends(begin); err != nil || !since.IsZero() {
		t.Errorf("another's: %s, %v", since, err)
	}
	// An intermittent outage isn't said each time.
	ends(17*time.Minute, never, never)
	ends(18*time.Minute, never, never)
	goes(18*time.Minute, false, begin)
	ends(19*time.Minute, never, never)
	goes(20*time.Minute, false, begin)
	ends(21*time.Minute, never, never)
	ends(22*time.Minute, never, never)
	ends(23*time.Minute, begin, begin.Add(21*time.Minute))
	ends(24*time.Minute, never, never)
	later := begin.Add(time.Hour)
	goes(time.Hour, true, later)
	goes(time.Minute, true, begin.Add(time.Minute)) // the clock was set back
	files, _ := filepath.Glob(filepath.Join(cache, "hipq", "*"))
	if len(files) != 1 {
		t.Fatalf("%q", files)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	// A file damaged by hand is ignored.
	dbtest.OK(t, os.WriteFile(files[0], []byte("{"), 0o600))
	ends(time.Hour, never, never)
	goes(time.Hour, true, later)
	ends(time.Hour, never, never)
	ends(time.Hour+2*time.Minute, later, later)
	// A tick that was interrupted midway knows that the outage began before.
	if since, say, err := o.Goes(begin, later, "", 15*time.Minute); err != nil || !say || !since.Equal(begin) {
		t.Errorf("since %s, %t, %v", since, say, err)
	}
}

// A new reason is news.
func TestOutageReason(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("HOME", cache)
	t.Setenv("XDG_CACHE_HOME", cache)
	o, now := dbtest.Must(alert.OutageOf("a config"))(t), time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	for n, want := range []struct {
		why string
		say bool
	}{{"typo", true}, {"typo", false}, {"password", true}, {"password", false}, {"typo", true}} {
		_, say, err := o.Goes(now, now, want.why, time.Hour)
		dbtest.Ensure(t, err == nil && say == want.say, "%d: %t, %v", n, say, err)
	}
}

// If HOME is another user's, as under sudo, nothing is written: that user could have a link there that leads anywhere.
func TestCacheOfSomebodyElse(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away") // CI runs as root
	}
	const other = 65534
	for name, give := range map[string]func(home string) error{
		"ours":           func(string) error { return nil },
		"another's home": func(home string) error { return os.Chown(home, other, other) },
		"another's cache": func(home string) error {
			return errors.Join(os.Mkdir(filepath.Join(home, "cache"), 0o700), os.Chown(filepath.Join(home, "cache"), other, other))
		},
		"another's link": func(home string) error {
			link := filepath.Join(home, "cache")
			return errors.Join(os.Mkdir(filepath.Join(home, "etc"), 0o700), os.Symlink("etc", link), os.Lchown(link, other, other))
		},
		"a folder of all": func(home string) error { return os.Chmod(home, 0o777) }, //nolint:gosec // it must not be used
	} {
		t.Run(name, func(t *testing.T) {
			home := filepath.Join(t.TempDir(), "alice")
			cache := filepath.Join(home, "cache")
			t.Setenv("HOME", home)
			t.Setenv("XDG_CACHE_HOME", cache)
			dbtest.OK(t, errors.Join(os.Mkdir(home, 0o700), give(home)))
			seen, err := alert.SeenOf("a database")
			if err == nil {
				err = seen.Note(time.Now())
			}
			_, none := alert.OutageOf("a config")
			dbtest.Ensure(t, (none == nil) == (err == nil) && (err == nil) == (name == "ours"), "%v, %v", err, none)
			if _, err := os.Stat(filepath.Join(cache, "hipq")); (err == nil) != (name == "ours") {
				t.Errorf("written: %v", err)
			}
		})
	}
}
