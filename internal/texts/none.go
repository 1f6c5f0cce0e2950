package texts

import (
	"bytes"
	"encoding/json"
	"strings"
)

// None stands in the tables for a text that isn't there.
const None = "NONE"

// Nullable is nil if a value isn't there.
func Nullable[T any](absent bool, v T) *T {
	if absent {
		return nil
	}
	return &v
}

// NullText is a text for JSON: nil, which is null there, for None.
func NullText(s string) *string { return Nullable(s == None, s) }

// NullJSON gives a text that is a JSON object or array as it is, None as null, and all else as a JSON string. What isn't UTF-8
// is replaced.
func NullJSON(text string) json.RawMessage {
	if text == None {
		return json.RawMessage("null")
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	trimmed := bytes.TrimSpace([]byte(text))
	if len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid(trimmed) {
		return trimmed
	}
	var quoted bytes.Buffer
	e := json.NewEncoder(&quoted)
	e.SetEscapeHTML(false) // this goes into no page
	if err := e.Encode(text); err != nil {
		panic(err) // a string can always be encoded
	}
	return bytes.TrimSpace(quoted.Bytes())
}
