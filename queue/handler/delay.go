package handler

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// parseDelay reads whole numbers with a unit each: "30s", "5m", "1h30m", "2d", "1w".
func parseDelay(text string) (time.Duration, error) {
	if text == "" {
		return 0, errors.New("it is empty")
	}
	var sum time.Duration
	rest := text
	for rest != "" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		if err != nil || digits == len(rest) {
			return 0, fmt.Errorf("%.40q is no duration, want a number and a unit (s, m, h, d, w)", text)
		}
		unit, known := delayUnit(rest[digits])
		if !known {
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

func delayUnit(letter byte) (time.Duration, bool) {
	const day = 24 * time.Hour
	switch letter {
	case 's':
		return time.Second, true
	case 'm':
		return time.Minute, true
	case 'h':
		return time.Hour, true
	case 'd':
		return day, true
	case 'w':
		return 7 * day, true
	}
	return 0, false
}
