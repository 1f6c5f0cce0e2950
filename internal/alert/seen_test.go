package alert_test

import (
	"testing"
	"time"

	"github.com/hipq/hipq/internal/alert"
	"github.com/hipq/hipq/internal/dbtest"
)

func TestSeen(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("HOME", cache)
	t.Setenv("XDG_CACHE_HOME", cache)
	last := func(key string, want time.Time) {
		t.Helper()
		s := dbtest.Must(alert.SeenOf(key))(t)
		got, err := s.Last()
		dbtest.Ensure(t, err == nil && got.Equal(want), "%s was seen %s, %v; want %s", key, got, err, want)
	}
	last("a", time.Time{})
	for _, at := range []time.Time{time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC), time.Date(2026, 11, 22, 3, 1, 0, 0, time.UTC)} {
		s, err := alert.SeenOf("a")
		if err == nil {
			err = s.Note(at)
		}
		dbtest.OK(t, err)
		last("a", at)
		last("b", time.Time{})
	}
}
