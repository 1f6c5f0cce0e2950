package handler

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// parseRetryAfter reads a retry_after. A number is seconds, as in the question to a retry handler, and 0 is no wish, as
// there; a string is a duration with units, and "0s" is at once. No wish gives 0, all else more.
func parseRetryAfter(raw json.RawMessage) (time.Duration, error) {
	text := jsonText(raw)
	if text == "" {
		return 0, nil
	}
	var seconds float64
	if json.Unmarshal(raw, &seconds) != nil {
		delay, err := parseDelay(text)
		return max(delay, 1), err
	}
	switch {
	case seconds < 0:
		return 0, fmt.Errorf("%.40s is negative", text)
	case seconds >= math.MaxInt64/float64(time.Second):
		return 0, fmt.Errorf("%.40s is too long", text)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// parseDelay reads whole numbers with a unit each: "30s", "5m", "1h30m", "2d", "1w".
func parseDelay(text string) (time.Duration, error) {
	var sum time.Duration
	rest := text
	for rest != "" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		if err != nil || digits == len(rest) {
			return 0, fmt.Errorf("%.40q is no duration, want a number and a unit (s, m, h, d, w), or a plain number of seconds", text)
		}
		unit := delayUnits[rest[digits]]
		if unit == 0 {
			return 0, fmt.Errorf("%.40q has an unknown unit, want s, m, h, d or w", text)
		}
		if n > int64((math.MaxInt64-sum)/unit) {
			return 0, fmt.Errorf("%.40q is too long", text)
		}
		sum += time.Duration(n) * unit
		rest = rest[digits+1:]
	}
	return sum, nil
}

var delayUnits = map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}
