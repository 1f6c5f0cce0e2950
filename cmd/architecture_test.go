package cmd_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var citation = regexp.MustCompile("\\[`(?:(\\w+)\\.)?(\\w+)`\\]\\(([^)\\s]+\\.go)\\)")

// TestCitations: what a page of the docs cites from the source, as a link from a name to its file, is declared there: a
// function, a type or a variable, or with its type before it a method.
func TestCitations(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	must(t, err)
	found := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		must(t, err)
		for _, m := range citation.FindAllStringSubmatch(string(text), -1) {
			found++
			of, name, file := m[1], m[2], m[3]
			source, err := os.ReadFile(filepath.Join(filepath.Dir(page), file))
			if err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			declared := `(?m)^(?:func|type|var|const) ` + name + `\b`
			if of != "" {
				declared = `(?m)^func \(\w+ \*?` + of + `\) ` + name + `\(`
			}
			if !regexp.MustCompile(declared).Match(source) {
				t.Errorf("%s: %s does not declare %s", page, file, strings.TrimPrefix(of+"."+name, "."))
			}
		}
	}
	if found < 50 {
		t.Errorf("citations found: %d", found)
	}
}
