package engine

import (
	"database/sql/driver"
	"fmt"
	"time"
)

// layout is how both engines hold a time: UTC, microseconds, always the same width. MySQL takes and gives it for a
// DATETIME(6); in SQLite, where it is text, a fixed width is what makes text order the order of time.
const layout = "2006-01-02 15:04:05.000000"

// Time is a time.Time as the tables hold it. The zero Time is NULL.
type Time struct{ time.Time }

// At wraps t for binding.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Microsecond)} }

// Text is t as the tables hold it.
func Text(t time.Time) string { return t.UTC().Format(layout) }

// Value implements driver.Valuer.
func (t Time) Value() (driver.Value, error) {
	if t.IsZero() {
		return nil, nil
	}
	return Text(t.Time), nil
}

// Scan implements sql.Scanner. What can't be read is the zero Time, as NULL is: one row that somebody has spoilt must not
// hide the others.
func (t *Time) Scan(src any) error {
	t.Time = time.Time{}
	switch v := src.(type) {
	case []byte:
		t.Time, _ = ParseTime(string(v))
	case string:
		t.Time, _ = ParseTime(v)
	}
	return nil
}

// ParseTime reads a time as the tables hold it, with any fraction: a row inserted by plain SQL may have none.
func ParseTime(text string) (time.Time, error) {
	t, err := time.Parse("2006-01-02 15:04:05.999999999", text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a time", text)
	}
	return t, nil
}
