package cmd

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/hipq/hipq/internal/texts"
)

const manLong = `Writes the man pages of all commands into a folder: hipq.1, hipq-work.1 and so on. It creates the
folder if necessary. hipq's packages and make install provide the pages.

If the variable SOURCE_DATE_EPOCH is set, the pages have its date, so that builds are reproducible.

Exit codes: 0 done · 1 the pages can't be written · 64 usage.`

func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the man pages into a folder",
		Long:    manLong,
		Example: "  hipq man ~/.local/share/man/man1",
		RunE:    func(_ *cobra.Command, args []string) error { return writeMan(args[0]) },
	}
}

func writeMan(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root := Root() // a separate tree, because describe changes its texts
	describe(root)
	header := &doc.GenManHeader{Section: "1", Source: "hipq", Manual: "hipq"}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return err
	}
	return eachCommand(Root(), func(c *cobra.Command) error {
		path := filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		page, links, _ := strings.Cut(string(text), "\n.SH SEE ALSO")
		page += manStatus(c.Long) + manEnvironment + "\n.SH SEE ALSO" + links
		return os.WriteFile(path, []byte(minus.Replace(page)), 0o644)
	})
}

// exitCodes is how the last paragraph of each command's help begins.
const exitCodes = "Exit codes: "

// manStatus makes a section of the exit codes in a command's help, else of hipq's.
func manStatus(long string) string {
	_, codes, found := strings.Cut(long, exitCodes)
	if !found {
		_, codes, _ = strings.Cut(rootLong, exitCodes)
	}
	var b strings.Builder
	b.WriteString("\n.SH EXIT STATUS\n")
	for code := range strings.SplitSeq(strings.TrimSuffix(strings.Join(strings.Fields(codes), " "), "."), " · ") {
		words := strings.Fields(code)
		n := 1
		if words[1] == "or" { // 129 or 143
			n = 3
		}
		b.WriteString(".TP\n\\fB" + strings.Join(words[:n], " ") + "\\fP\n" + strings.Join(words[n:], " ") + "\n")
	}
	return b.String()
}

// manEnvironment is the same on each page, because commands share the config.
const manEnvironment = `
.SH ENVIRONMENT
.TP
\fBHIPQ_CONFIG\fP
The config file, unless --config names one.
.TP
\fBHIPQ_DATABASE_DSN\fP, \fBHIPQ_WORKER_CONCURRENCY\fP and others
Settings that outrank the config file. The reference of the configuration has the variable of each setting.
.TP
\fBXDG_CONFIG_HOME\fP, \fBXDG_CACHE_HOME\fP
Where hipq has a user's config and notes, instead of ~/.config and ~/.cache.
.TP
\fBNO_COLOR\fP, \fBLC_ALL\fP, \fBLC_CTYPE\fP, \fBLANG\fP, \fBTERM\fP
How output looks on a terminal.
.SH FILES
.TP
\fI./hipq.yaml\fP, \fI~/.config/hipq/hipq.yaml\fP, \fI/etc/hipq/hipq.yaml\fP
The config: the first that exists.
.TP
\fIhipq.db\fP
The SQLite database, beside the config, unless database.path or database.dsn names another.
.TP
\fI~/.cache/hipq\fP
Notes of what was mailed about an outage, so that it isn't mailed each minute.
.TP
\fI/etc/cron.d/hipq\fP
The crontab of a package. Its lines are commented out.
.TP
\fI/usr/share/doc/hipq\fP, \fI/usr/local/share/doc/hipq\fP
The manual in docs, and an example of a config with all settings.
`

func eachCommand(c *cobra.Command, f func(*cobra.Command) error) error {
	err := f(c)
	for _, sub := range c.Commands() {
		if err == nil && sub.IsAvailableCommand() {
			err = eachCommand(sub, f)
		}
	}
	return err
}

// describe converts the help texts to Markdown, the source of the pages.
func describe(c *cobra.Command) {
	c.DisableAutoGenTag = true                   // its date would be the build's
	text, _, _ := strings.Cut(c.Long, exitCodes) // they get a section
	c.Long = markdown(strings.TrimSpace(text))
	for _, sub := range c.Commands() {
		describe(sub)
	}
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
