// Package texts shows texts safely, quotes them for shells, encodes jobs' values, finds the reason in a program's output, and
// groups errors of one kind.
package texts

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// IndexHidden finds the first character that isn't plainly visible: invalid UTF-8, or one that moves the cursor, recolours
// the screen, or changes the direction of the text. Line ends and tabs don't count. Without any, it returns the text's
// length.
func IndexHidden(text string) int {
	for i := 0; i < len(text); {
		if b := text[i]; ' ' <= b && b <= '~' || b == '\n' || b == '\t' {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r) || r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(text)
}

// Visible replaces each hidden character by U+FFFD.
func Visible(text string) string {
	return ReplaceHidden(strings.ReplaceAll(text, "\r\n", "\n"), func(rune) string { return "\uFFFD" })
}

// ReplaceHidden replaces each hidden character: see IndexHidden.
func ReplaceHidden(text string, by func(rune) string) string {
	n := IndexHidden(text)
	if n == len(text) {
		return text
	}
	var b strings.Builder
	for ; n < len(text); n = IndexHidden(text) {
		r, size := utf8.DecodeRuneInString(text[n:])
		b.WriteString(text[:n] + by(r))
		text = text[n+size:]
	}
	return b.String() + text
}

// Clip cuts the middle out of a text longer than most bytes: the start says what it is about, the end often what to do.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	head, tail := strings.ToValidUTF8(s[:most/2], ""), strings.ToValidUTF8(s[len(s)-most/4:], "")
	return fmt.Sprintf("%s… (%d bytes are left out) …%s", head, len(s)-len(head)-len(tail), tail)
}

// Bytes formats a number of bytes with the largest unit that divides it: 512MiB.
func Bytes(bytes int64) string {
	for _, unit := range []struct {
		name  string
		bytes int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if bytes%unit.bytes == 0 {
			return fmt.Sprint(bytes/unit.bytes, unit.name)
		}
	}
	return fmt.Sprint(bytes, " bytes")
}

// Size formats a number of bytes, rounded: 1.5 MB.
func Size(n int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB"}
	f := float64(n)
	for f >= 1000 && len(units) > 1 {
		f, units = f/1000, units[1:]
	}
	if units[0] == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[0])
}

// Count formats a number of things: 1 job, 1,150 jobs.
func Count[T int | int64](n T, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Thousands(n) + " " + thing + "s"
}

// Thousands formats a number with commas between the thousands.
func Thousands[T int | int64](n T) string {
	text := strconv.FormatInt(int64(n), 10)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// Duration formats a duration with two units at most: 120 ms, 1.5 s, 10 s, 5 min, 1 h 30 min, 2 d 4 h.
func Duration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == 0:
		return "0 s"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 9_950*time.Millisecond:
		return fmt.Sprintf("%g s", math.Round(10*d.Seconds())/10)
	case d < 59_500*time.Millisecond:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < time.Hour-500*time.Millisecond:
		return twoUnits(d.Round(time.Second), time.Minute, "min", time.Second, "s")
	case d < day-30*time.Second:
		return twoUnits(d.Round(time.Minute), time.Hour, "h", time.Minute, "min")
	}
	return twoUnits(d.Round(time.Hour), day, "d", time.Hour, "h")
}

func twoUnits(d, large time.Duration, nameLarge string, small time.Duration, nameSmall string) string {
	text := fmt.Sprintf("%d %s", d/large, nameLarge)
	if rest := d % large / small; rest > 0 {
		text += fmt.Sprintf(" %d %s", rest, nameSmall)
	}
	return text
}
