package config

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
)

const (
	// maxInt is the maximum of the databases' columns.
	maxInt = math.MaxInt32
	// longest exceeds any sensible time. It keeps sums of times within what the databases can store.
	longest = 3650 * day
	// maxSize exceeds any sensible size.
	maxSize = 1 << 50
)

// read parses a value of a type. With an error about its bounds it returns the value too.
func (c *checker) read(text string, t reflect.Type, tag reflect.StructTag) (v any, err error) {
	from, to := tag.Get("from"), tag.Get("to")
	switch limit := tag.Get("limit"); {
	case limit != "":
		return c.readLimit(text, limit)
	case t == reflect.TypeFor[time.Duration]():
		return readSpan(text, from, to, tag.Get("whole"))
	case t.Kind() == reflect.Int64:
		return readSize(text, from)
	case t.Kind() == reflect.Int:
		return readWhole(text, from, to)
	case t.Kind() == reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || !(f >= 0 && f <= 1) { // this form refuses NaN too
			return f, fmt.Errorf("%s is not a number from 0 to 1", shown(text))
		}
		return f, nil
	case t.Kind() == reflect.Bool:
		return readTruth(text)
	case tag.Get("file") != "":
		return c.absolute(text), nil
	}
	if words := strings.Fields(tag.Get("words")); len(words) > 0 && !slices.Contains(words, text) {
		return text, fmt.Errorf("%s is not one of %s", shown(text), strings.Join(words, ", "))
	}
	return text, nil
}

// readTruth takes the spellings of YAML files and environments.
func readTruth(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	}
	return false, fmt.Errorf("%s is neither true nor false", shown(text))
}

func readWhole(text, from, to string) (int, error) {
	low, _ := strconv.Atoi(cmp.Or(from, "0"))
	high, _ := strconv.Atoi(cmp.Or(to, strconv.Itoa(maxInt)))
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		err = fmt.Errorf("%s is not a whole number (%d to %d)", shown(text), low, high)
	case n < low || n > high:
		err = fmt.Errorf("%d is out of range (%d to %d)", n, low, high)
	}
	return n, err
}

// readSpan parses a duration with bounds, which must be in whole seconds or hours if there is such a unit.
func readSpan(text, from, to, whole string) (time.Duration, error) {
	low, _ := ParseDuration(cmp.Or(from, "0"))
	high, _ := ParseDuration(cmp.Or(to, formatDuration(longest)))
	d, err := ParseDuration(text)
	unit, _ := ParseDuration(cmp.Or(whole, "1ns"))
	switch {
	case err != nil:
	case d < low || d > high:
		err = fmt.Errorf("%s is out of range (%s to %s)", shown(text), formatDuration(low), formatDuration(high))
	case d%unit != 0:
		err = fmt.Errorf("%s is not in whole %s", shown(text), map[string]string{"1s": "seconds", "1h": "hours"}[whole])
	}
	return d, err
}

var sizeForm = texts.Pattern(`^([0-9]{1,9})(KiB|MiB|GiB)$`)

// readSize parses a number of bytes with its unit.
func readSize(text, from string) (int64, error) {
	m := sizeForm().FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("%s is not a size; write a whole number and a unit, KiB, MiB or GiB, such as 512MiB", shown(text))
	}
	bytes, _ := strconv.ParseInt(m[1], 10, 64) // few digits
	bytes *= map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[m[2]]
	if from != "" {
		if low, _ := readSize(from, ""); bytes < low || bytes > maxSize {
			return bytes, fmt.Errorf("%s is out of range (%s to %s)", shown(text), texts.Bytes(low), texts.Bytes(maxSize))
		}
	}
	return bytes, nil
}

// shownValue is how config show shows a single value; nil if there is none.
func shownValue(v reflect.Value, tag reflect.StructTag) any {
	limit, hide, from := tag.Get("limit"), hiding[tag.Get("hide")], tag.Get("from")
	switch {
	case limit != "":
		return showLimit(v.Float(), limit)
	case v.Kind() == reflect.String && v.String() == "":
		return nil
	case v.Kind() == reflect.String:
		return hide(v.String())
	case v.Type() == reflect.TypeFor[time.Duration]():
		d := time.Duration(v.Int())
		if low, _ := ParseDuration(from); d < low {
			return nil
		}
		return formatDuration(d)
	case v.Kind() == reflect.Int64 && v.Int() == 0:
		return nil
	case v.Kind() == reflect.Int64:
		return texts.Bytes(v.Int())
	case v.Kind() == reflect.Int:
		n := int(v.Int())
		if low, _ := strconv.Atoi(from); n < low {
			return nil
		}
		return n
	}
	return v.Interface()
}

func (c *checker) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(c.dir, path)
}
