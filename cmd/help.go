package cmd

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/spf13/cobra"
)

// helpWidth limits the width of help, because longer lines are hard to read.
const helpWidth = 100

// group adds commands below a heading of hipq --help.
func group(root *cobra.Command, heading string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: heading, Title: heading + ":"})
	for _, c := range commands {
		c.GroupID = heading
	}
	root.AddCommand(commands...)
}

// wrapHelp wraps help to the terminal's width.
func (a *app) wrapHelp(root *cobra.Command) {
	show := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		width := min(cmp.Or(a.out.columns(), helpWidth), helpWidth)
		c.Long = reflow(c.Long, width)
		for _, sub := range c.Commands() {
			indent := sub.NamePadding() + len("  ") + len(" ")
			sub.Short = hang(wrap(sub.Short, width-indent), indent)
		}
		c.SetUsageTemplate(strings.NewReplacer(".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", width),
			"for more information about a command", "for more").Replace(c.UsageTemplate()))
		show(c, args)
	})
}

// reflow wraps paragraphs. It keeps indented lines, because they are commands and crontab lines.
func reflow(text string, width int) string {
	var done, paragraph []string
	for line := range strings.Lines(text + "\n\n") {
		if line = strings.TrimRight(line, "\n"); line != "" && line[0] != ' ' {
			paragraph = append(paragraph, line)
			continue
		}
		if paragraph != nil {
			done, paragraph = append(done, wrap(strings.Join(paragraph, " "), width)), nil
		}
		done = append(done, line)
	}
	return strings.TrimRight(strings.Join(done, "\n"), "\n")
}

// wrap breaks a text into lines between words.
func wrap(text string, width int) string {
	var b strings.Builder
	at := 0
	for _, word := range strings.Fields(text) {
		room := twwidth.Width(word)
		switch {
		case at == 0:
		case at+1+room > width:
			b.WriteByte('\n')
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += room
	}
	return b.String()
}
