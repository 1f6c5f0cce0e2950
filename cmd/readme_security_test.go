package cmd_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/schema"
)

var namedTest = texts.Pattern("`(Test\\w+|\\w+\\.txtar)`")

// tests checks that the tests that a page names exist.
func (d docs) tests(t *testing.T, p page) {
	for _, m := range namedTest().FindAllStringSubmatch(p.text, -1) {
		where := []string{"ls", "cmd/testdata/script/" + m[1]}
		if strings.HasPrefix(m[1], "Test") {
			where = []string{"grep", "-rqF", "--include=*_test.go", "func " + m[1] + "(", "."}
		}
		err := d.command(d.root, where[0], where[1:]...).Run()
		dbtest.Ensure(t, err == nil, "%s: there is no test %s", p.name, m[1])
	}
}

const appendix = "Appendix: tests"

// claims compares the claims of the security page with its appendix, which names the tests of each: of each section with a
// paragraph or a table, and of each of its bullets. Introductions and the part about what is not defended need none.
func claims(t *testing.T, p page) {
	if p.name != "docs/explanation/security.md" {
		return
	}
	tested, claimed := map[string]bool{}, map[string]bool{}
	_, text, _ := strings.Cut(p.text, "\n## ")
	text, table, _ := strings.Cut(text, "\n## "+appendix)
	for _, row := range strings.Split(table, "\n|") {
		if claim, tests, _ := strings.Cut(row, " |"); namedTest().MatchString(tests) {
			tested[strings.TrimSpace(claim)] = true
		}
	}
	for _, part := range strings.Split(text, "\n## ") {
		title, text, _ := strings.Cut(part, "\n")
		if title == "What is not defended" {
			continue
		}
		text = strings.ReplaceAll(text, "\n- ", "\n\n- ") // each is a block of its own
		for _, block := range regexp.MustCompile(`\n\n+`).Split(strings.TrimSpace(text), -1) {
			claim := title
			if m := regexp.MustCompile(`^- \*\*(.+?)[.:]?\*\*`).FindStringSubmatch(block); m != nil {
				claim += ": " + m[1]
			} else if block == "" || strings.HasSuffix(block, ":") && !tested[title] {
				continue
			}
			claimed[claim] = true
			dbtest.Ensure(t, tested[claim], "%s: the appendix has no test of %s", p.name, claim)
		}
	}
	for claim := range tested {
		dbtest.Ensure(t, claimed[claim], "%s: the appendix has tests of %s, which isn't there", p.name, claim)
	}
	dbtest.Ensure(t, len(claimed) >= 50, "%s: claims with tests: %d", p.name, len(claimed))
}

var moreLines = texts.Pattern(`^-- … and (\d+) more$`)

// grants compares the statements on a page with the printed ones. A line may stand for several more.
func grants(t *testing.T, p page) {
	for _, b := range p.with("sql", "grants") {
		names := dbtest.Must(schema.NewNames("shop", ""))(t)
		rights := dbtest.Must(schema.Grants(schema.Options{Driver: "mysql", DSN: "hipq@tcp(db)/shop"}, names, []schema.Queue{{Name: "emails"}}))(t)
		printed := strings.Split(strings.TrimSpace(rights.String()), "\n")
		at := 0
		for line := range strings.Lines(b.text) {
			line = strings.TrimSuffix(line, "\n")
			if m := moreLines().FindStringSubmatch(line); m != nil {
				n, _ := strconv.Atoi(m[1])
				at += n
				continue
			}
			dbtest.Require(t, at < len(printed) && printed[at] == line,
				"%s:%d: %q is not line %d of what is printed", p.name, b.line, line, at+1)
			at++
		}
		dbtest.Ensure(t, at == len(printed), "%s:%d: it has %d of %d lines", p.name, b.line, at, len(printed))
	}
}
