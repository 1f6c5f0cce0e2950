package texts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// EncodeJSON makes a text of a value: a string is itself, and all else JSON; what is null there is None.
func EncodeJSON[T any](v T) (string, error) {
	if text, ok := any(&v).(*string); ok { // and not what an interface holds, which nobody could tell from JSON
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
