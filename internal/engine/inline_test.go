package engine

import (
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestInline(t *testing.T) {
	text := func(query string, args ...any) (string, error) {
		got, err := inline(nil, query, args)
		return string(got), err
	}
	got, err := text("SET a = ?, b = ?, c = ?, d = ?, e = ?, f = ?, g = ?",
		nil, int64(-1), uint64(1<<63), 1.5, true, "a'?\\\x00\n\r\x1a\"é", []byte("'"))
	want := `SET a = NULL, b = -1, c = 9223372036854775808, d = 1.5, e = TRUE, f = 'a\'?\\\0\n\r\Z\"é', g = _binary'\''`
	if got != want || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	if got, _ := text("?", []byte(nil)); got != "NULL" {
		t.Error(got)
	}
	for query, args := range map[string][]any{"SELECT '?', ?": {"x"}, "SELECT ?": {"x", "y"}, "?": {time.Time{}}} {
		if got, err := text(query, args...); !errors.Is(err, driver.ErrSkip) {
			t.Errorf("%s: %s, %v", query, got, err)
		}
	}
	if got := Quote("it's"); got != `'it\'s'` || strings.Contains(Quote("\x00"), "\x00") {
		t.Error(got)
	}
}
