package notice_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/notice"
)

func TestOutage(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("HOME", cache)
	t.Setenv("XDG_CACHE_HOME", cache)
	o, err := notice.OutageOf("a config\x00emails")
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	goes := func(after time.Duration, wantSay bool, wantSince time.Time) {
		t.Helper()
		since, say, err := o.Goes(begin.Add(after))
		if err != nil || say != wantSay || !since.Equal(wantSince) {
			t.Errorf("after %s: %s, %t, %v", after, since, say, err)
		}
	}
	ends := func(want time.Time) {
		t.Helper()
		if since, err := o.Ends(); err != nil || !since.Equal(want) {
			t.Errorf("it ends: %s, %v", since, err)
		}
	}
	ends(time.Time{})
	goes(0, true, begin)
	goes(time.Minute, false, begin)
	goes(14*time.Minute, false, begin)
	goes(15*time.Minute, true, begin)
	goes(16*time.Minute, false, begin)
	if other, err := notice.OutageOf("a config\x00files"); err != nil {
		t.Error(err)
	} else if since, err := other.Ends(); err != nil || !since.IsZero() {
		t.Errorf("another's: %s, %v", since, err)
	}
	ends(begin)
	ends(time.Time{})
	later := begin.Add(time.Hour)
	goes(time.Hour, true, later)
	goes(time.Minute, true, begin.Add(time.Minute)) // the clock was put back
	files, _ := filepath.Glob(filepath.Join(cache, "hipq", "*"))
	if len(files) != 1 {
		t.Fatalf("%q", files)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	// what a hand has left there counts for nothing
	if err := os.WriteFile(files[0], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	ends(time.Time{})
	goes(time.Hour, true, later)
	ends(later)
}
