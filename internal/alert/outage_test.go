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
		since, say, err := o.Goes(begin.Add(after), begin.Add(after), alert.Cause{Word: "away"}, 15*time.Minute)
		dbtest.Ensure(t, err == nil && say == wantSay && since.Equal(wantSince), "after %s: %s, %t, %v", after, since, say, err)
	}
	ends := func(after time.Duration, wantSince, wantOver time.Time) {
		t.Helper()
		since, over, _, err := o.Ends(begin.Add(after))
		dbtest.Ensure(t, err == nil && since.Equal(wantSince) && over.Equal(wantOver), "after %s it was so from %s to %s, %v", after, since, over, err)
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
	dbtest.Require(t, len(files) == 1, "%q", files)
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
	if since, say, err := o.Goes(begin, later, alert.Cause{Word: "away"}, 15*time.Minute); err != nil || !say || !since.Equal(begin) {
		t.Errorf("since %s, %t, %v", since, say, err)
	}
}

// A new cause is news, with a time of its own. One that comes back is news if another was there for two minutes, or has ended.
func TestOutageCauses(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("HOME", cache)
	t.Setenv("XDG_CACHE_HOME", cache)
	o, begin := dbtest.Must(alert.OutageOf("a config"))(t), time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		minute, since int
		word          string
		say           bool
	}{
		{0, 0, "typo", true},
		{1, 0, "typo", false},
		{2, 2, "password", true},
		{3, 0, "typo", false},
		{4, 2, "password", false},
		{6, 2, "password", false},
		{7, 7, "typo", true},
		{8, 2, "password", false},
	} {
		now := begin.Add(time.Duration(c.minute) * time.Minute)
		since, say, err := o.Goes(now, now, alert.Cause{Word: c.word, Text: "the " + c.word}, time.Hour)
		got := int(since.Sub(begin).Minutes())
		dbtest.Ensure(t, err == nil && say == c.say && got == c.since, "%+v: since %d, %t, %v", c, got, say, err)
	}
	for _, minute := range []int{9, 11} {
		since, over, why, err := o.Ends(begin.Add(time.Duration(minute) * time.Minute))
		ended := minute == 11
		dbtest.Ensure(t, err == nil && ended == (why == "the password") && ended == since.Equal(begin.Add(2*time.Minute)) && ended == over.Equal(begin.Add(9*time.Minute)),
			"after %d min: %q from %s to %s, %v", minute, why, since, over, err)
	}
}

// If HOME is another user's, as under sudo, nothing is written: that user could have a link there that leads anywhere.
func TestCacheOfSomebodyElse(t *testing.T) {
	dbtest.SkipIf(t, os.Geteuid() != 0, "only root can give files away") // CI runs as root
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
			err := alert.Note("a database", time.Now())
			_, none := alert.OutageOf("a config")
			dbtest.Ensure(t, (none == nil) == (err == nil) && (err == nil) == (name == "ours"), "%v, %v", err, none)
			_, err = os.Stat(filepath.Join(cache, "hipq"))
			dbtest.Ensure(t, (err == nil) == (name == "ours"), "written: %v", err)
		})
	}
}

func TestSeen(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("HOME", cache)
	t.Setenv("XDG_CACHE_HOME", cache)
	last := func(key string, want time.Time) {
		t.Helper()
		got, err := alert.Seen(key)
		dbtest.Ensure(t, err == nil && got.Equal(want), "%s was seen %s, %v; want %s", key, got, err, want)
	}
	last("a", time.Time{})
	for _, at := range []time.Time{time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC), time.Date(2026, 11, 22, 3, 1, 0, 0, time.UTC)} {
		dbtest.OK(t, alert.Note("a", at))
		last("a", at)
		last("b", time.Time{})
	}
}
