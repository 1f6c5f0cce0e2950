package cmd

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// lineBytes cuts prose, such as an error message. safeBytes cuts texts of many lines, such as a job's data, which is
// never longer. cellCharacters cuts a table's cell.
const (
	lineBytes      = 4 << 10
	safeBytes      = job.MaxDataBytes
	cellCharacters = 500
)

// escaped writes each hidden character of a JSON text as \uXXXX. The value stays the same.
func escaped(json string) string {
	return texts.ReplaceHidden(json, func(r rune) (text string) {
		for _, unit := range utf16.AppendRune(nil, r) {
			text += fmt.Sprintf(`\u%04x`, unit)
		}
		return text
	})
}

// safe cleans and cuts a text of several lines.
func safe(s string) string { return texts.Visible(texts.Clip(s, safeBytes)) }

// oneLine is safe without line ends, so that no part of a text can pass for another line of the output.
func oneLine(s string) string { return unfold(texts.Visible(texts.Clip(s, lineBytes))) }

// oneLines makes each text one line, so that a database's message in it can't start another.
func oneLines(all []string) []string { return texts.Map(all, oneLine) }

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

// hang indents all lines but the first, so that they don't look like lines of the command itself.
func hang(s string, by int) string {
	return strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n"+strings.Repeat(" ", by))
}

func indent(s string) string { return "    " + hang(s, 4) }

// json prints v on one line. All --json output uses this encoder.
func (o *output) json(v any) error {
	line, err := texts.JSON(v)
	if err == nil {
		_, err = io.WriteString(o, escaped(string(line)))
	}
	return err
}

// print prints an object with --json, else a line.
func (a *app) print(object any, format string, args ...any) error {
	if a.json {
		return a.out.json(object)
	}
	a.out.line(format, args...)
	return texts.Wrap(a.out.err, "print")
}

// local formats a time in the config's zone, with the zone's name.
func (i *instance) local(t time.Time) string { return zonedTime(t, i.Location) }

func zonedTime(t time.Time, zone *time.Location) string {
	return t.In(zone).Format("2006-01-02 15:04:05 MST")
}

// zoned is the heading of a column of times, with the config's zone. localCell formats the times below it.
func (i *instance) zoned(heading string) string { return heading + " (" + i.Location.String() + ")" }

func (i *instance) localCell(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.In(i.Location).Format("2006-01-02 15:04:05")
}

// or0 is the value that p points to, or the zero value.
func or0[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// dash replaces an absent value by –.
func dash(s string) string {
	if s == "" || s == "NONE" {
		return "–"
	}
	return s
}

func millis(ms int64) string {
	return (time.Duration(ms) * time.Millisecond).Round(time.Millisecond).String()
}

const (
	// timeUsage is what flags for a time accept.
	timeUsage = "2026-12-31T23:00:00Z; '2026-12-31 23:00', 23:00 or 'tomorrow 09:00' in the config's zone; +90s, -1h"
	// agoUsage is what flags for a past time accept.
	agoUsage = "90s, 2h, 1d ago; or a time as for --at of hipq enqueue"
)

// time parses a flag by the config's zone and the database's clock. Without a text it is zero.
func (i *instance) time(cmd *cobra.Command, flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := i.parseTime(cmd, text)
	if trouble, _ := schema.Diagnose(err); err == nil || trouble != schema.NoTrouble {
		return t, err
	}
	return t, usagef("%s: %w", flag, err)
}

func (i *instance) parseTime(cmd *cobra.Command, text string) (time.Time, error) {
	return config.ParseTime(text, i.Location, func() (time.Time, error) { return i.db.SQL.Clock(cmd.Context()) })
}

// ago parses a flag that may also be a duration before now.
func (i *instance) ago(cmd *cobra.Command, flag, text string) (time.Time, error) {
	switch _, err := config.ParseDuration(text); {
	case err == nil:
		text = "-" + text
	case strings.Trim(text, "0123456789") == "" && text != "":
		return time.Time{}, usagef("%s: %w", flag, err)
	}
	return i.time(cmd, flag, text)
}

// durationValue is the value of a flag; without a text it is 0. checkFlag reports its error.
type durationValue struct {
	to   *time.Duration
	text string
	// positive refuses 0.
	positive bool
	err      error
}

func durationVar(f *pflag.FlagSet, to *time.Duration, name, value, usage string) *durationValue {
	d := &durationValue{to: to}
	_ = d.Set(value)
	f.Var(d, name, usage)
	return d
}

func (d *durationValue) String() string { return d.text }

func (d *durationValue) Type() string { return "string" }

// Set leaves the error to checkFlag, because the flags' parser would reword it.
func (d *durationValue) Set(text string) error {
	d.text = text
	*d.to, d.err = config.ParseDuration(text)
	return nil
}
