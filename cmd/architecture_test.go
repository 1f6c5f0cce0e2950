package cmd_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/texts"
)

var citation = texts.Pattern("\\[`(?:(\\w+)\\.)?(\\w+)`\\]\\(([^)\\s]+\\.go)\\)")

// TestCitations checks that the source files declare all functions, types, variables and methods to which the docs link.
func TestCitations(t *testing.T) {
	pages := dbtest.Must(filepath.Glob("../docs/*/*.md"))(t)
	found := 0
	for _, page := range pages {
		text := dbtest.Must(os.ReadFile(page))(t)
		for _, m := range citation().FindAllStringSubmatch(string(text), -1) {
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
			dbtest.Ensure(t, regexp.MustCompile(declared).Match(source), "%s: %s does not declare %s", page, file, strings.TrimPrefix(of+"."+name, "."))
		}
	}
	dbtest.Ensure(t, found >= 50, "citations found: %d", found)
}

var (
	fileName = texts.Pattern("`(?:[\\w.-]+/)*([\\w.-]+\\.(?:go|sql|txtar))`")
	testName = texts.Pattern("`((?:Test|Benchmark)\\w+)`")
)

// TestNames checks that all source files and tests that the docs name exist.
func TestNames(t *testing.T) {
	source := map[string]bool{"queue_002.sql": true} // the next migration
	var tests strings.Builder
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if source[d.Name()] = true; err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		tests.Write(text)
		return err
	})
	pages, _ := filepath.Glob("../docs/*/*.md")
	for _, page := range append(pages, "../CONTRIBUTING.md") {
		text, failed := os.ReadFile(page)
		err = errors.Join(err, failed)
		for _, m := range fileName().FindAllStringSubmatch(string(text), -1) {
			if !source[m[1]] && !strings.Contains(m[1], "NAME") {
				t.Errorf("%s names %s, which is not there", page, m[1])
			}
		}
		for _, m := range testName().FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(tests.String(), "func "+m[1]+"(") {
				t.Errorf("%s names %s, which is not there", page, m[1])
			}
		}
	}
	dbtest.OK(t, err)
}
