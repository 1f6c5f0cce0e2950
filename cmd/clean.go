package cmd

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

// How much people see of a text that others have written, in bytes: of a line of prose, such as an error message, and of
// what may have many lines, such as a job's data, which has no more itself. A table's cell has so many characters.
const (
	lineBytes      = 4 << 10
	safeBytes      = job.MaxDataBytes
	cellCharacters = 80
)

// escaped writes each hidden character of a JSON text as \uXXXX: its value stays the same.
func escaped(json []byte) []byte {
	n := texts.IndexHidden(json)
	if n == len(json) {
		return json
	}
	var b []byte
	for ; n < len(json); n = texts.IndexHidden(json) {
		r, size := utf8.DecodeRune(json[n:])
		b = append(b, json[:n]...)
		for _, unit := range utf16.AppendRune(nil, r) {
			b = fmt.Appendf(b, `\u%04x`, unit)
		}
		json = json[n+size:]
	}
	return append(b, json...)
}

// safe is a text of any number of lines as people see it.
func safe(s string) string { return texts.Visible(texts.Clip(s, safeBytes)) }

// oneLine is safe without ends of lines: what a text holds can't pass for another line of what a command prints.
func oneLine(s string) string { return unfold(texts.Visible(texts.Clip(s, lineBytes))) }

// oneLines has each text as one line of what a command prints: with what a database says in it, it can't begin a further one.
func oneLines(texts []string) []string {
	for n := range texts {
		texts[n] = oneLine(texts[n])
	}
	return texts
}

// cell is oneLine for a table.
func cell(s string) string {
	s = unfold(texts.Visible(s[:min(len(s), utf8.UTFMax*(cellCharacters+1))]))
	if characters := []rune(s); len(characters) > cellCharacters {
		return string(characters[:cellCharacters-1]) + "…"
	}
	return s
}

func unfold(s string) string {
	if strings.ContainsAny(s, "\n\t") {
		return strings.NewReplacer("\n", " ", "\t", " ").Replace(s)
	}
	return s
}

// hang sets the lines of a text behind the first as far to the right as the first begins: none of them stands where the
// lines of a command begin.
func hang(s string, by int) string {
	return strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n"+strings.Repeat(" ", by))
}

// indent sets a text of several lines apart.
func indent(s string) string { return "    " + hang(s, 4) }
