package cmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hipq/hipq/cmd"
	"github.com/hipq/hipq/internal/dbtest"
)

const mistakenConfig = `
name: shop
database: %s
queues:
  - name: files
    job_types: [{name: compress, handler: {exec: ["true"]}}]
  - name: emails
`

// foreign are words from messages of cobra, pflag and strconv, which are for programmers.
var foreign = []string{
	"arg(s)", "accepts", "requires at least", "received", "flags in the group", "none of the others", "unknown command", "unknown flag",
	"unknown shorthand", "flag needs an argument", "invalid argument", "bad flag syntax", "no such flag", "strconv", "parsing \"",
	"invalid syntax", "value out of range", "required flag", "for \"hipq", "Error:", "pflag", "cobra",
}

// TestMistakes compares what command lines say with testdata/mistakes.txt.
func TestMistakes(t *testing.T) {
	dbtest.Long(t, "one command after the other")
	script := string(dbtest.Must(os.ReadFile("testdata/mistakes.txt"))(t))
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		h := mistaken(t, driver, source)
		for _, m := range strings.Split(regexp.MustCompile(`(?m)^(#.*)?\n`).ReplaceAllString(script, ""), "$ hipq ")[1:] {
			line, want, _ := strings.Cut(m, "\n")
			dbtest.Same(t, h.tell(t, 64, words(line)...), want, "hipq %s says", line)
		}
	})
}

// Every command reports mistakes in its flags and arguments in hipq's words.
func TestMistakesOfEachCommand(t *testing.T) {
	dbtest.Long(t, "one command after the other")
	h := mistaken(t, "sqlite", dbtest.SQLite(t))
	seen := 0
	each(cmd.Root(), func(c *cobra.Command) {
		path := strings.Fields(c.CommandPath())[1:]
		with := func(args ...string) []string { return append(append([]string{}, path...), args...) }
		seen++
		h.tell(t, 64, with("--nonsense")...)
		if len(path) > 0 && path[0] != "work" { // work takes any number of queues, and no other arguments
			h.tell(t, 64, with("1", "2", "a", "b", "c", "d", "e")...)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.NoOptDefVal == "" {
				h.tell(t, 64, with("--"+f.Name)...)
			}
			switch f.Value.Type() {
			case "int", "int64", "bool":
				h.tell(t, 64, with("--"+f.Name+"=x1")...)
				if f.Value.Type() != "bool" {
					h.tell(t, 64, with("--"+f.Name, "99999999999999999999")...)
				}
			}
		})
	})
	dbtest.Ensure(t, seen >= 20, "commands found: %d", seen)
}

// each calls f for a command and its subcommands.
func each(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			each(sub, f)
		}
	}
}

// hand types command lines.
type hand struct{ config string }

func mistaken(t *testing.T, driver, source string) hand {
	t.Helper()
	h := hand{filepath.Join(t.TempDir(), "hipq.yaml")}
	dbtest.OK(t, os.WriteFile(h.config, fmt.Appendf(nil, mistakenConfig, dbtest.Section(driver, source)), 0o600))
	t.Setenv("HIPQ_CONFIG", h.config)
	h.tell(t, 0, "init")
	return h
}

// tell runs a command that must end with this code. A failed command prints only its error, in hipq's words.
func (h hand) tell(t *testing.T, want int, args ...string) string {
	t.Helper()
	code, out, errs := shown(args...)
	dbtest.Ensure(t, code == want && (code == 0 || out == ""),
		"hipq %s: exit code %d, want %d, and it prints %s\n%s", strings.Join(args, " "), code, want, out, errs)
	for _, words := range foreign {
		dbtest.Ensure(t, !strings.Contains(errs, words), "hipq %s speaks a foreign language: %s", strings.Join(args, " "), errs)
	}
	return errs
}

// words splits a command line. Quotes only enclose an empty or a whole word.
func words(line string) []string {
	args := strings.Fields(line)
	for i := range args {
		args[i] = strings.Trim(args[i], "'")
	}
	return args
}
