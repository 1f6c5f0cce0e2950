package cmd

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/hipq/hipq/queue/job"
)

// How much people see of a text that others have written, in bytes: of a line of prose, such as an error message, and of
// what may have many lines, such as a job's data, which has no more itself. A table's cell has so many characters.
const (
	lineBytes      = 4 << 10
	safeBytes      = job.MaxDataBytes
	cellCharacters = 80
)

// indexHidden finds the first character that does more than to be seen where it stands, or that is none: one that would
// move the cursor, recolour the screen, or turn the direction of the text around it. Ends of lines and tabs are none of
// them. Where there is none, it gives the text's length.
func indexHidden[T string | []byte](text T) int {
	for i := 0; i < len(text); {
		if b := text[i]; ' ' <= b && b <= '~' || b == '\n' || b == '\t' {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(string(text[i:min(len(text), i+utf8.UTFMax)]))
		if !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r) || r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(text)
}

// cleaned has U+FFFD in the place of each hidden character.
func cleaned(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	n := indexHidden(text)
	if n == len(text) {
		return text
	}
	var b strings.Builder
	for ; n < len(text); n = indexHidden(text) {
		_, size := utf8.DecodeRuneInString(text[n:])
		b.WriteString(text[:n])
		b.WriteRune(unicode.ReplacementChar)
		text = text[n+size:]
	}
	return b.String() + text
}

// escaped writes each hidden character of a JSON text as \uXXXX: its value stays the same.
func escaped(json []byte) []byte {
	n := indexHidden(json)
	if n == len(json) {
		return json
	}
	var b []byte
	for ; n < len(json); n = indexHidden(json) {
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
func safe(s string) string { return cleaned(clip(s, safeBytes)) }

// oneLine is safe without ends of lines: what a text holds can't pass for another line of what a command prints.
func oneLine(s string) string { return unfold(cleaned(clip(s, lineBytes))) }

// cell is oneLine for a table.
func cell(s string) string {
	s = unfold(cleaned(s[:min(len(s), utf8.UTFMax*(cellCharacters+1))]))
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

// clip leaves out the middle of a text that has more bytes than most: its beginning says what it is about, its end often
// what to do.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	head, tail := strings.ToValidUTF8(s[:most/2], ""), strings.ToValidUTF8(s[len(s)-most/4:], "")
	return fmt.Sprintf("%s… (%d bytes are left out) …%s", head, len(s)-len(head)-len(tail), tail)
}

// hang sets the lines of a text behind the first as far to the right as the first begins: none of them stands where the
// lines of a command begin.
func hang(s string, by int) string {
	return strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n"+strings.Repeat(" ", by))
}

// indent sets a text of several lines apart.
func indent(s string) string { return "    " + hang(s, 4) }
