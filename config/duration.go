package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
)

const (
	day  = 24 * time.Hour
	week = 7 * day
)

var digits = texts.Pattern(`^[0-9]+$`)

// ParseDuration parses a duration of 0 or more: 30s, 5m, 24h, 14d, 1w, or several in this order: 1w2d, 1h30m. A number
// needs a unit; only 0 does without.
func ParseDuration(s string) (time.Duration, error) {
	if s == "0" {
		return 0, nil
	}
	if digits().MatchString(s) {
		return 0, fmt.Errorf("%s has no unit; write %[2]ss, %[2]sm, %[2]sh, %[2]sd or %[2]sw", shown(s), fmt.Sprintf("%.20s", s))
	}
	d, err := texts.ParseDuration(s)
	switch {
	case errors.Is(err, texts.ErrTooLong):
		return 0, fmt.Errorf("%s is too long", shown(s))
	case err != nil:
		return 0, notADuration(s)
	}
	return d, nil
}

func notADuration(s string) error {
	what := "not a duration"
	if length, minus := strings.CutPrefix(s, "-"); minus {
		if _, err := ParseDuration(length); err == nil {
			what = "negative"
		}
	}
	return fmt.Errorf("%s is %s; write a number with a unit: 30s, 5m, 24h, 14d, 1w, 1h30m", shown(s), what)
}

// formatDuration formats a duration for people, in one unit if that is exact.
func formatDuration(d time.Duration) string {
	for _, u := range []struct {
		size time.Duration
		name string
	}{{day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if d >= u.size && d%u.size == 0 {
			return fmt.Sprintf("%d%s", d/u.size, u.name)
		}
	}
	if d == 0 {
		return "0"
	}
	return d.String()
}
