// Command packaging writes what a package of hipq has beside the binary: man pages and completions for the shells. It stands
// apart, so that the binary needn't have the means in it.
//
//	go run ./internal/packaging FOLDER
//
// The pages bear the date of SOURCE_DATE_EPOCH, if that is set: then the same source gives the same files.
package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/hipq/hipq/cmd"
)

func main() {
	root, dir := cmd.Root(), os.Args[1]
	if err := errors.Join(writeMan(root, filepath.Join(dir, "man")), writeCompletions(root, filepath.Join(dir, "completions"))); err != nil {
		panic(err)
	}
}

// writeMan writes a page for each command, hipq-enqueue.1.gz.
func writeMan(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	prepare(root)
	header := &doc.GenManHeader{Section: "1", Source: "hipq", Manual: "hipq"}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return err
	}
	return fs.WalkDir(os.DirFS(dir), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".1" {
			return err
		}
		return finish(filepath.Join(dir, name))
	})
}

// prepare makes Markdown, which pages are made of, of the texts that the commands print as help.
func prepare(c *cobra.Command) {
	c.DisableAutoGenTag = true // its date is not that of the source
	c.Long = markdown(c.Long)
	for _, sub := range c.Commands() {
		prepare(sub)
	}
}

var special = regexp.MustCompile("[\\\\`*_<>\\[\\]#|~]")

// markdown leaves lines that are indented as they are, and joins the others.
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
			b.WriteString(special.ReplaceAllString(line, `\$0`))
		}
	}
	return b.String()
}

// minus makes roff show the dashes of flags as they are typed, not as hyphens.
var minus = strings.NewReplacer(`\fB--`, `\fB\-\-`, `\fB-`, `\fB\-`, "--", `\-\-`)

// finish replaces a page by FILE.gz, without a time in it.
func finish(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := minus.WriteString(w, string(text)); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(path+".gz", b.Bytes(), 0o644), os.Remove(path))
}

// writeCompletions writes a file for each shell, under the name by which the shell looks for it.
func writeCompletions(root *cobra.Command, dir string) error {
	err := os.MkdirAll(dir, 0o755)
	for shell, name := range map[string]string{"bash": "hipq", "zsh": "_hipq", "fish": "hipq.fish"} {
		var script bytes.Buffer
		err = errors.Join(err, cmd.WriteCompletion(root, shell, &script), os.WriteFile(filepath.Join(dir, name), script.Bytes(), 0o644))
	}
	return err
}
