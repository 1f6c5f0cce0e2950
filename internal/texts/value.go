package texts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
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
