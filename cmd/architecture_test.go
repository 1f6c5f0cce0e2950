package cmd_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
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
			dbtest.Ensure(t, source[m[1]] || strings.Contains(m[1], "NAME"), "%s names %s, which is not there", page, m[1])
		}
		for _, m := range testName().FindAllStringSubmatch(string(text), -1) {
			dbtest.Ensure(t, strings.Contains(tests.String(), "func "+m[1]+"("), "%s names %s, which is not there", page, m[1])
		}
	}
	dbtest.OK(t, err)
}

// Each field of an application's options says what its zero value means, or the comment on the struct says it of all. The comment on
// a bool says what true does.
func TestOptionsSayWhatZeroMeans(t *testing.T) {
	says, n := regexp.MustCompile(`(?i)\b(required|defaults?|zero|0|nil|empty|if set)\b`), 0
	for _, pattern := range []string{"../activity/*.go", "../config/*.go", "../internal/store/*.go", "../monitor/*.go", "../queue/*.go", "../queue/*/*.go", "../schema/*.go"} {
		for _, name := range dbtest.Must(filepath.Glob(pattern))(t) {
			for _, d := range dbtest.Must(parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution))(t).Decls {
				types, ok := d.(*ast.GenDecl)
				if !ok || types.Tok != token.TYPE {
					continue
				}
				spec := types.Specs[0].(*ast.TypeSpec)
				object, ok := spec.Type.(*ast.StructType)
				if !ok || !spec.Name.IsExported() || !strings.HasSuffix(spec.Name.Name, "Options") || strings.HasSuffix(name, "_test.go") {
					continue
				}
				n++
				for _, f := range object.Fields.List {
					kind, _ := f.Type.(*ast.Ident)
					comment := types.Doc.Text() + f.Doc.Text()
					dbtest.Ensure(t, says.MatchString(comment) || kind != nil && kind.Name == "bool", "%s: zero %s.%v: %q", name, spec.Name, f.Names, comment)
				}
			}
		}
	}
	dbtest.Ensure(t, n >= 10, "only %d structs", n)
}
