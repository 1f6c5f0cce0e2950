package cmd_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
)

// Each field of an application's options says what its zero value means, or the comment on the struct says it of all. The comment on
// a bool says what true does.
func TestOptionsSayWhatZeroMeans(t *testing.T) {
	says, n := regexp.MustCompile(`(?i)\b(required|defaults?|zero|0|nil|empty|if set)\b`), 0
	for _, pattern := range []string{"../activity/*.go", "../config/*.go", "../monitor/*.go", "../queue/*.go", "../queue/*/*.go", "../schema/*.go"} {
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
