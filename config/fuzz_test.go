package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hipq/hipq/internal/dbtest"
)

// FuzzConfig: whatever a file holds, it is a config, or its mistakes are said in UTF-8.
func FuzzConfig(f *testing.F) {
	files, _ := filepath.Glob("testdata/bad/*.yaml")
	for _, file := range append(files, "../hipq.example.yaml") {
		text := dbtest.Must(os.ReadFile(file))(f)
		f.Add(text)
	}
	path := filepath.Join(f.TempDir(), "hipq.yaml")
	f.Fuzz(func(t *testing.T, text []byte) {
		dbtest.OK(t, os.WriteFile(path, text, 0o600))
		c, err := Load(LoadOptions{File: path, Env: []string{"HOME=/nowhere"}})
		dbtest.Ensure(t, err != nil || c != nil, "neither a config nor an error")
		dbtest.Ensure(t, err == nil || errors.Is(err, ErrInvalid) && utf8.ValidString(err.Error()), "%v", err)
	})
}

// FuzzDuration: a duration is never negative, and is the same when it was formatted.
func FuzzDuration(f *testing.F) {
	for _, text := range []string{"0", "30s", "1w2d3h", "1h30m", "-5m", "5", "0.5h", "15250w1d", "9223372036854775807ns", "1d1w", "1µs", "106751d23h47m16s854ms775µs807ns", "1500ms", "90m"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil {
			dbtest.Ensure(t, d == 0 && utf8.ValidString(err.Error()), "%s, %q", d, err)
			return
		}
		again, err := ParseDuration(formatDuration(d))
		dbtest.Ensure(t, d >= 0 && err == nil && again == d, "%d ns, formatted %s: %d ns, %v", d, formatDuration(d), again, err)
	})
}

// FuzzTime: a time is within the limits, and the same when it was written as RFC 3339.
func FuzzTime(f *testing.F) {
	for _, text := range []string{
		"2026-12-31T23:00:00Z", "2026-12-31T23:00:00.5+14:00", "2026-03-29 02:30", "2026-10-25 02:30", "2026-12-31",
		"tomorrow 09:00", "yesterday", "09:00", "now", "-1h", "+90s", "+1w2d", "9998-12-31 23:59:59", "1970-01-01", "0000-01-01T00:00:00Z",
	} {
		f.Add(text)
	}
	berlin := dbtest.Must(time.LoadLocation("Europe/Berlin"))(f)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseTime(text, berlin, at("2026-06-01T12:00:00Z"))
		if err != nil {
			dbtest.Ensure(t, utf8.ValidString(err.Error()) && !strings.Contains(err.Error(), "\n"), "%q", err)
			return
		}
		dbtest.Ensure(t, got.UTC().Year() >= 1970 && got.UTC().Year() <= 9998, "%s", got)
		again, err := ParseTime(got.UTC().Format(time.RFC3339Nano), berlin, nil)
		dbtest.Ensure(t, err == nil && again.Equal(got), "%s, and again %s, %v", got, again, err)
	})
}
