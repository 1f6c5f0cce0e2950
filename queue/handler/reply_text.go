package handler

import (
	"strings"
	"unicode/utf8"
)

const replacement = string(utf8.RuneError)

// clean makes of any bytes a text that every database takes: valid UTF-8 without NUL.
func clean(text string) string {
	return withoutNUL(strings.ToValidUTF8(text, replacement))
}

// withoutNUL makes a text fit for the environment, where a NUL would end it.
func withoutNUL(text string) string {
	return strings.ReplaceAll(text, "\x00", replacement)
}

// head is the beginning of a text: at most n bytes, no half rune at its end.
func head(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// lastLine is the last line of a text that isn't empty, without the spaces around it. A carriage return, with which
// programs draw over a line of progress, begins a line too.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndexAny(text, "\r\n")+1:])
}
