package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	hipq "github.com/hipq/hipq/cmd"
)

// Each command that people see has a page, which shows it as its help does: crontab's lines are no list with asterisks.
func TestMan(t *testing.T) {
	dir := t.TempDir()
	if err := writeMan(hipq.Root(), dir); err != nil {
		t.Fatal(err)
	}
	pages := read(t, dir)
	var want []string
	visit(hipq.Root(), func(c *cobra.Command) {
		want = append(want, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1.gz")
	})
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(pages))); diff != "" {
		t.Errorf("commands (-) and pages (+):\n%s", diff)
	}
	for name, words := range map[string][]string{
		"hipq.1.gz":            {"\n* * * * *          hipq work      runs due jobs\n", "78 configuration"},
		"hipq-enqueue.1.gz":    {"job_type", "hipq enqueue \\-\\-ndjson jobs.ndjson", "\\fB\\-\\-on-duplicate"},
		"hipq-completion.1.gz": {"source <(hipq completion bash)"},
	} {
		r, err := gzip.NewReader(bytes.NewReader(pages[name]))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		page, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range words {
			if !strings.Contains(string(page), w) {
				t.Errorf("%s doesn't have %q:\n%s", name, w, page)
			}
		}
	}
}

// visit calls f for each command that has a page.
func visit(c *cobra.Command, f func(*cobra.Command)) {
	if c.HasParent() && !c.IsAvailableCommand() {
		return
	}
	f(c)
	for _, sub := range c.Commands() {
		visit(sub, f)
	}
}

func TestCompletions(t *testing.T) {
	dir := t.TempDir()
	if err := writeCompletions(hipq.Root(), dir); err != nil {
		t.Fatal(err)
	}
	for name, words := range map[string]string{
		"hipq":      "complete -o default -F __start_hipq hipq",
		"_hipq":     "#compdef hipq",
		"hipq.fish": "complete -c hipq",
	} {
		if file := string(read(t, dir)[name]); !strings.Contains(file, words) {
			t.Errorf("%s doesn't have %q:\n%s", name, words, file)
		}
	}
}

// The same source and date give the same files, whenever they are written.
func TestPagesAreReproducible(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	first, second := t.TempDir(), t.TempDir()
	for _, dir := range []string{first, second} {
		if err := writeMan(hipq.Root(), dir); err != nil {
			t.Fatal(err)
		}
	}
	one, other := read(t, first), read(t, second)
	if !maps.EqualFunc(one, other, bytes.Equal) {
		t.Error("two runs give different pages")
	}
	r, err := gzip.NewReader(bytes.NewReader(one["hipq.1.gz"]))
	if err != nil {
		t.Fatal(err)
	}
	if page, err := io.ReadAll(r); err != nil || !bytes.Contains(page, []byte("Nov 2023")) || !r.ModTime.IsZero() {
		t.Errorf("%v: the page is not of that date, or its file has a time: %s", err, page)
	}
}

// What GitHub and goreleaser read is YAML: a mistake in it would come to light with the first release, or the first issue.
func TestYAML(t *testing.T) {
	for _, pattern := range []string{".goreleaser.yaml", ".github/*/*.yml"} {
		names, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil || len(names) == 0 {
			t.Errorf("%s: %v, %v", pattern, names, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal(text, new(map[string]any)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func read(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = text
	}
	return files
}
