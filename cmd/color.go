package cmd

import (
	"cmp"
	"os"
	"strings"
)

const (
	colorAuto   = "auto"
	colorAlways = "always"
	colorNever  = "never"
)

var colors = []string{colorAuto, colorAlways, colorNever}

// setColor applies --color.
func (a *app) setColor() error {
	switch a.color {
	case colorAuto:
		wanted := os.Getenv("NO_COLOR") == "" && canRewrite()
		a.out.color, a.err.color = wanted && a.out.isTerminal(), wanted && a.err.isTerminal()
	case colorAlways:
		a.out.color, a.err.color = true, true
	case colorNever:
	default:
		return noneOf("--color", a.color, colors)
	}
	return nil
}

// paint colours a state or a severity. Print the result with put, because Write removes the colours.
func (o *output) paint(word string) string {
	if !o.color {
		return word
	}
	first, _, _ := strings.Cut(word, " ")
	switch strings.TrimRight(first, ":") {
	case "error", "failed", "wrong":
		return "\x1b[31m" + word + "\x1b[0m"
	case "retry", "cancelled", "released", "warning", "unknown":
		return "\x1b[33m" + word + "\x1b[0m"
	case "finished", "ok":
		return "\x1b[32m" + word + "\x1b[0m"
	}
	return word
}

// painted prints one line that begins with a state or a severity.
func (o *output) painted(word, rest string) {
	_ = o.put(o.paint(oneLine(word)) + oneLine(rest) + "\n") // put remembers the error
}

// plain replaces hipq's typographic signs with ASCII on a terminal whose locale isn't UTF-8.
func (o *output) plain(s string) string {
	if locale := cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")); isUTF8(locale) || !o.isTerminal() {
		return s
	}
	return strings.NewReplacer("…", "...", "–", "-", "·", "|", "→", "->", "‘", "'", "’", "'", "“", `"`, "”", `"`, "«", `"`, "»", `"`).Replace(s)
}

func isUTF8(locale string) bool {
	locale = strings.ToLower(locale)
	return strings.HasSuffix(locale, "utf-8") || strings.HasSuffix(locale, "utf8")
}
