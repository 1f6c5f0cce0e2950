package texts

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode"
	"unicode/utf16"
)

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
