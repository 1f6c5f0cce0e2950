package cmd

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// printJSON prints v on one line.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// table prints rows under a header, without lines: easy to read, and to cut by a script that must.
func table(out io.Writer, header []string, rows [][]string) error {
	var drawn bytes.Buffer
	t := tablewriter.NewTable(&drawn,
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders:  tw.BorderNone,
			Settings: tw.Settings{Lines: tw.LinesNone, Separators: tw.SeparatorsNone},
		})),
		tablewriter.WithConfig(tablewriter.Config{
			Header: tw.CellConfig{
				Alignment:  tw.CellAlignment{Global: tw.AlignLeft},
				Formatting: tw.CellFormatting{AutoFormat: tw.Off},
				Padding:    tw.CellPadding{Global: tw.Padding{Right: "  "}},
			},
			Row: tw.CellConfig{
				Alignment:  tw.CellAlignment{Global: tw.AlignLeft},
				Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone},
				Padding:    tw.CellPadding{Global: tw.Padding{Right: "  "}},
			},
		}))
	t.Header(header)
	for _, r := range rows {
		for i := range r {
			r[i] = cell(r[i])
		}
		if err := t.Append(r); err != nil {
			return err
		}
	}
	if err := t.Render(); err != nil {
		return err
	}
	var trimmed strings.Builder // the last cell of a line is padded like the others
	for line := range strings.Lines(drawn.String()) {
		trimmed.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	_, err := io.WriteString(out, trimmed.String())
	return err
}

// safe makes a text safe for a terminal: what a job's data or a handler's output holds must not move the cursor or
// recolour the screen.
func safe(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) || unicode.IsSpace(r) && !unicode.IsControl(r) {
			return r
		}
		return unicode.ReplacementChar
	}, strings.ReplaceAll(s, "\r\n", "\n"))
}

// cell is safe, and fits one line of a table.
func cell(s string) string {
	const most = 80
	s = strings.NewReplacer("\n", " ", "\t", " ").Replace(safe(s))
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}

// indent sets a text of several lines apart.
func indent(s string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n    ")
}

// local is a time for people, in the config's zone, which it names.
func (i *instance) local(t time.Time) string {
	return t.In(i.Location).Format("2006-01-02 15:04:05 MST")
}

// zoned is the heading of a column of times, which names the config's zone; localCell is a time below it.
func (i *instance) zoned(heading string) string { return heading + " (" + i.Location.String() + ")" }

func (i *instance) localCell(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.In(i.Location).Format("2006-01-02 15:04:05")
}

// maybe is local for a time that may be missing.
func (i *instance) maybe(t *time.Time) string {
	if t == nil {
		return i.local(time.Time{})
	}
	return i.local(*t)
}

// dash is how people see what isn't there.
func dash(s string) string {
	if s == "" || s == "NONE" {
		return "–"
	}
	return s
}

// utc is a time for programs; the zero time is null.
func utc(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// millis is a duration for people.
func millis(ms int64) string {
	return (time.Duration(ms) * time.Millisecond).Round(time.Millisecond).String()
}
