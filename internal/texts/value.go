package texts

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"
	"unicode"
	"unicode/utf16"
)

// EncodeJSON encodes a value as a text: a string as it is, null as None, all else as JSON.
func EncodeJSON[T any](v T) (string, error) {
	if text, ok := any(&v).(*string); ok { // not a string in an interface, which would be indistinguishable from JSON
		return *text, nil
	}
	line, err := JSON(v)
	if encoded := bytes.TrimSpace(line); string(encoded) != "null" {
		return string(encoded), err
	}
	return None, nil
}

// JSON encodes a value as one line of JSON, with its newline. It escapes nothing for pages, because other programs read it.
func JSON(v any) ([]byte, error) {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return line.Bytes(), err
}

// DecodeJSON decodes a text from EncodeJSON or another program. Its error says why the text is invalid. Unknown fields of
// objects are ignored.
func DecodeJSON[T any](text string) (v T, err error) {
	if s, ok := any(&v).(*string); ok {
		if text != None {
			*s = text
		}
		return v, nil
	}
	none := text == "" || text == None || string(bytes.TrimSpace([]byte(text))) == "null"
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface:
		if none {
			return v, nil
		}
	default:
		if none { // JSON would give any type its zero value
			return v, fmt.Errorf("there is no value, but a %s needs one", reflect.TypeFor[T]())
		}
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return *new(T), err // without the partial result
	}
	return v, nil
}

// FieldOf is the value at this path of names in a JSON object, without surrounding spaces; nil if there is none.
func FieldOf(data []byte, names ...string) json.RawMessage {
	for _, name := range names {
		var fields map[string]json.RawMessage
		if json.Unmarshal(data, &fields) != nil {
			return nil
		}
		data = fields[name]
	}
	return bytes.TrimSpace(data)
}

// LoneSurrogate finds the first escape in a JSON value, such as \ud800, that is half of a surrogate pair; empty if none. The
// json package reads each as U+FFFD, which makes different texts equal.
func LoneSurrogate(value []byte) string {
	unit := func(at int) rune { // the code unit of the escape at this index
		if at+6 > len(value) || value[at] != '\\' || value[at+1] != 'u' {
			return -1
		}
		n, err := strconv.ParseUint(string(value[at+2:at+6]), 16, 16)
		if err != nil {
			return -1
		}
		return rune(n)
	}
	for i := 0; i < len(value); i++ {
		switch first := unit(i); {
		case value[i] != '\\':
		case !utf16.IsSurrogate(first):
			i++ // the escaped character may be a backslash
		case utf16.DecodeRune(first, unit(i+6)) == unicode.ReplacementChar:
			return string(value[i : i+6])
		default:
			i += 11
		}
	}
	return ""
}

// ErrTooLong means that a duration exceeds the 292 years of a time.Duration.
var ErrTooLong = errors.New("too long")

var errNoDuration = errors.New("not a duration")

var weeksAndDays = Pattern(`^(?:([0-9]+)w)?(?:([0-9]+)d)?([0-9].*)?$`)

// ParseDuration parses a duration of 0 or more: 30s, 5m, 24h, 14d, 1w, or several in this order: 1w2d, 1h30m. Each number needs
// a unit. The error is ErrTooLong, or one that says nothing to people.
func ParseDuration(text string) (sum time.Duration, err error) {
	m := weeksAndDays().FindStringSubmatch(text)
	if text == "" || m == nil || m[3] == "0" {
		return 0, errNoDuration
	}
	if m[3] != "" {
		if sum, err = time.ParseDuration(m[3]); err != nil {
			return 0, err
		}
	}
	for i, unit := range []time.Duration{7 * 24 * time.Hour, 24 * time.Hour} {
		n, err := strconv.ParseInt(cmp.Or(m[1+i], "0"), 10, 64)
		if err != nil || n > int64((math.MaxInt64-sum)/unit) {
			return 0, ErrTooLong
		}
		sum += time.Duration(n) * unit
	}
	return sum, nil
}
