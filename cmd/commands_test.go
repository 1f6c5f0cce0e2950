package cmd

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hipq/hipq/internal/dbtest"
)

var update = flag.Bool("update", false, "write docs/reference/commands.md and json.md")

// allCommands is the first generated heading. The text above it is written by hand.
const allCommands = "\n## All commands\n"

// TestCommandReference checks that docs/reference/commands.md shows what --help prints. After a change, run:
//
//	go test ./cmd -run TestCommandReference -update
func TestCommandReference(t *testing.T) {
	isUpToDate(t, "../docs/reference/commands.md", allCommands, commandReference(Root()))
}

// isUpToDate compares a page from a heading on with what it should be, or writes it.
func isUpToDate(t *testing.T, path, heading, generated string) {
	t.Helper()
	page := string(dbtest.Must(os.ReadFile(path))(t))
	head, _, ok := strings.Cut(page, heading)
	dbtest.Require(t, ok, "%s has no heading %q", path, heading)
	want := head + generated
	if *update {
		dbtest.OK(t, os.WriteFile(path, []byte(want), 0o644)) //nolint:gosec // everyone may read a page of the docs
	} else if page != want {
		t.Errorf("%s is stale; run go test ./cmd -run %s -update:\n%s", path, t.Name(), diff.Diff("page", []byte(page), "generated", []byte(want)))
	}
}

func commandReference(root *cobra.Command) string {
	var index, sections strings.Builder
	_ = eachCommand(root, func(c *cobra.Command) error {
		if c != root {
			fmt.Fprintf(&index, "| %s | %s |\n", linkTo(c.CommandPath()), asMarkdown(c.Short))
			sections.WriteString(commandSection(c))
		}
		return nil
	})
	return allCommands + "\n| command | what it does |\n|---|---|\n" + index.String() +
		"\n### Flags of every command\n\n" + flagTable(root.PersistentFlags()) + sections.String()
}

func commandSection(c *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## `%s`\n\n", c.CommandPath())
	says, codes, _ := strings.Cut(c.Long, "Exit codes: ")
	if says == "" || says == c.Parent().Long {
		says = c.Short + "."
	}
	fmt.Fprintf(&b, "%s\n\nUsage: `%s`\n", asMarkdown(says), c.UseLine())
	if flags := flagTable(c.LocalNonPersistentFlags()); flags != "" {
		b.WriteString("\n" + flags)
	}
	if c.Example != "" {
		fmt.Fprintf(&b, "\n```text\n%s\n```\n", regexp.MustCompile(`(?m)^  `).ReplaceAllString(c.Example, ""))
	}
	if codes = otherCodes(codes); codes != "" {
		fmt.Fprintf(&b, "\n%s\n", asMarkdown("Exit codes that differ: "+codes+"."))
	}
	return strings.ReplaceAll(b.String(), linkTo(c.CommandPath()), "`"+c.CommandPath()+"`") // no link to itself
}

// otherCodes omits the exit codes that mean the same for every command.
func otherCodes(text string) string {
	var others []string
	for _, code := range strings.Split(strings.TrimSuffix(strings.Join(strings.Fields(text), " "), "."), " · ") {
		switch code {
		case "", "0 done", "64 usage", "75 the database is unreachable or busy", "78 configuration", "130 interrupted",
			"130 interrupted by SIGINT", "129 or 143 by SIGHUP or SIGTERM":
		default:
			others = append(others, code)
		}
	}
	return strings.Join(others, " · ")
}

var defaultSays = regexp.MustCompile(` \(default: (.*)\)$`)

func flagTable(flags *pflag.FlagSet) string {
	var rows strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || f.Name == "version" {
			return
		}
		kind, says := pflag.UnquoteUsage(f)
		name, value := "--"+f.Name, f.DefValue
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if m := defaultSays.FindStringSubmatch(says); m != nil {
			value, says = m[1], strings.TrimSuffix(says, m[0])
		} else if value == "false" || value == "0" || value == "[]" {
			value = ""
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", strings.TrimSpace(name+" "+kind), inCell(value), inCell(says))
	})
	if rows.Len() == 0 {
		return ""
	}
	return "| flag | default | what it does |\n|---|---|---|\n" + rows.String()
}

func inCell(text string) string { return markCode(strings.ReplaceAll(text, "|", `\|`)) }

var (
	// codeLike matches what a reader types: commands, flags, settings, variables and durations.
	codeLike      = regexp.MustCompile(`(?:PATH=\S+ )?\bhipq [a-z]+(?: check| show)?\b(?: --[a-z]+[a-z-]*)*|--[a-z]+[a-z-]*(?:=\w+)?|\b[a-z]+(?:[._][a-z]+)+\b|\b[A-Z]+_[A-Z_]+\b|[+-]?\b[0-9]+(?:ms|s|m|h|d|w)\b`)
	shownCommands = map[string]bool{}
)

// asMarkdown marks code in a text of --help, and keeps indented lines.
func asMarkdown(text string) string {
	var done []string
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if strings.HasPrefix(paragraph, "  ") {
			done = append(done, "```text\n"+regexp.MustCompile(`(?m)^  `).ReplaceAllString(paragraph, "")+"\n```")
			continue
		}
		done = append(done, wrap(markCode(paragraph), 118))
	}
	return strings.Join(done, "\n\n")
}

func markCode(text string) string {
	return codeLike.ReplaceAllStringFunc(text, func(code string) string {
		path, flags, _ := strings.Cut(code, " --")
		if link := linkTo(path); link != path && flags == "" {
			return link
		} else if link == path && strings.HasPrefix(path, "hipq ") {
			return code // prose, such as "hipq and"
		}
		return "`" + code + "`"
	})
}

// linkTo is a link to a command's section, or the path itself if there is no such command.
func linkTo(path string) string {
	if len(shownCommands) == 0 {
		_ = eachCommand(Root(), func(c *cobra.Command) error {
			shownCommands[c.CommandPath()] = true
			return nil
		})
	}
	if !shownCommands[path] {
		return path
	}
	return "[`" + path + "`](#" + strings.ReplaceAll(path, " ", "-") + ")"
}
