package texts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"unicode"
	"unicode/utf16"
)

// EncodeJSON makes a text of a value: a string is itself, and all else JSON; what is null there is None.
func EncodeJSON[T any](v T) (string, error) {
	if text, ok := any(&v).(*string); ok { // and not what an interface holds, which could not be told from JSON
		return *text, nil
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // others read it too
	if err := e.Encode(v); err != nil {
		return "", err
	}
	if encoded := bytes.TrimSpace(text.Bytes()); string(encoded) != "null" {
		return string(encoded), nil
	}
	return None, nil
}

// errNone is the error of a text that isn't there, for a value that can't be nothing.
var errNone = errors.New("there are none")

// DecodeJSON makes a value of a text, as Encode has made it, or another program: its error says why that can't be. Unknown fields
// of an object are passed over.
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
		if none { // which for JSON would be any value's zero
			return v, fmt.Errorf("%w, and they can't be a %s", errNone, reflect.TypeFor[T]())
		}
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return *new(T), err // and not what it has come to
	}
	return v, nil
}

// FieldOf is the value that these names lead to inside data that are a JSON object, without the spaces around it; nil is none.
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

// LoneSurrogate finds the first escape in a JSON value, such as \ud800, that stands for half of a character. Empty is none. The
// json package reads U+FFFD for each of them, and so makes one text of two.
func LoneSurrogate(value []byte) string {
	unit := func(at int) rune { // that of the escape there
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
			i++ // what is escaped may be a backslash
		case utf16.DecodeRune(first, unit(i+6)) == unicode.ReplacementChar:
			return string(value[i : i+6])
		default:
			i += 11
		}
	}
	return ""
}
