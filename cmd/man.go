package cmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/hipq/hipq/internal/texts"
)

func writeMan(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return eachCommand(Root(), func(c *cobra.Command) error {
		c.DisableAutoGenTag = true // its date would be the build's
		c.Long = markdown(c.Long)
		var page bytes.Buffer
		if err := doc.GenMan(c, &doc.GenManHeader{Section: "1", Source: "hipq", Manual: "hipq"}, &page); err != nil {
			return err
		}
		path := filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")
		return os.WriteFile(path, []byte(minus.Replace(page.String())), 0o644)
	})
}

func eachCommand(c *cobra.Command, f func(*cobra.Command) error) error {
	err := f(c)
	for _, sub := range c.Commands() {
		if err == nil && sub.IsAvailableCommand() {
			err = eachCommand(sub, f)
		}
	}
	return err
}

// special matches the characters that Markdown interprets.
var special = texts.Pattern("[\\\\`*_<>\\[\\]#|~]")

// markdown escapes a text's paragraphs, and makes indented lines code blocks.
func markdown(text string) string {
	var b strings.Builder
	code := false
	for line := range strings.Lines(text) {
		blank := strings.TrimSpace(line) == ""
		if indented := strings.HasPrefix(line, "  ") || line[0] == '\t'; !blank && indented != code {
			code = indented
			b.WriteByte('\n')
		}
		if code && !blank {
			b.WriteString("    " + strings.TrimLeft(line, " \t"))
		} else {
			b.WriteString(special().ReplaceAllString(line, `\$0`))
		}
	}
	return b.String()
}

// minus makes roff print the dashes of flags as typed, not as hyphens.
var minus = strings.NewReplacer(`\fB--`, `\fB\-\-`, `\fB-`, `\fB\-`, "--", `\-\-`)
