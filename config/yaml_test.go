package config

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/internal/dbtest"
)

func TestValuesAreTakenAsWritten(t *testing.T) {
	got, _, err := parseYAML([]byte(`
exec: [true, 010, 1.10, 1_000, 0x1F, 2024-01-01, .5, yes, ~, "~", null, 'a b', ""]
retry: &r {attempts: 5}
on: {<<: *r, jitter: 0.10}
same: *r
`))
	do(t, err)
	want := map[string]any{
		"exec":  []any{"true", "010", "1.10", "1_000", "0x1F", "2024-01-01", ".5", "yes", nil, "~", nil, "a b", ""},
		"retry": map[string]any{"attempts": "5"},
		"on":    map[string]any{"attempts": "5", "jitter": "0.10"},
		"same":  map[string]any{"attempts": "5"},
	}
	dbtest.Same(t, cmp.Diff(want, got), "", "(-want +got)")
}

func TestEmptyFiles(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n", "~\n"} {
		got, _, err := parseYAML([]byte(text))
		dbtest.Ensure(t, err == nil && len(got) == 0, "parseYAML(%q) = %v, %v", text, got, err)
	}
}

// TestYAMLErrorsNameTheLine has what the bad files don't, most of all the first line.
func TestYAMLErrorsNameTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"name: a: b\n":                "not valid YAML: line 1: mapping values are not allowed in this context",
		"name: ]\n":                   "not valid YAML: line 1: did not find expected node content",
		"name: a\ntables: ]\n":        "not valid YAML: line 2: did not find expected node content",
		"name: a\ntables: \"\\q\"\n":  "not valid YAML: line 2: found unknown escape character",
		"name: a\nname: b\nname: c\n": `not valid YAML: line 2: mapping key "name" already defined at line 1; line 3: mapping key "name" already defined at line 1; line 3: mapping key "name" already defined at line 2`,
		"a:\n  when: */5 * * * *\n":   `not valid YAML: line 2: did not find expected alphabetic or numeric character; put a value that begins with * or & in quotes: "*/5 * * * *"`,
		"when: @daily\n":              `not valid YAML: line 1: found character that cannot start any token; a value that begins with @ or % must be in quotes: "@daily"; indent with spaces, not with tabs`,
		"name: a\ntables: \x01\n":     "not valid YAML: line 2: control characters are not allowed",
		"name: a\ntables: \xff\n":     "not valid YAML: line 2: invalid leading UTF-8 octet",
	} {
		_, _, err := parseYAML([]byte(text))
		dbtest.Ensure(t, err != nil && err.Error() == want, "parseYAML(%q)\n got %v\nwant %s", text, err, want)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"attempts", "backoff", "delay", "jitter", "max_delay"}
	for key, want := range map[string]string{
		"attempt": "attempts", "max-delay": "max_delay", "maxdelay": "max_delay", "DELAY": "delay", "dealy": "delay",
		"x": "", "": "", "retries": "", "at": "",
	} {
		dbtest.Same(t, Nearest(key, known), want, "Nearest(%q)", key)
	}
}

// TestBadFiles loads each file of testdata/bad, which begins with the wanted message in comments, a comment per line.
// An … ends a message whose rest is another package's.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	dbtest.Require(t, err == nil && len(files) >= 30, "only %d files: %v", len(files), err)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data := dbtest.Must(os.ReadFile(file))(t)
			path, err := filepath.Abs(file)
			do(t, err)
			var want []string
			for line := range strings.Lines(string(data)) {
				message, ok := strings.CutPrefix(line, "# ")
				if !ok {
					break
				}
				want = append(want, "invalid configuration: "+path+": "+strings.TrimSuffix(message, "\n"))
			}
			_, err = Load(LoadOptions{File: file, Env: noEnv})
			dbtest.Require(t, errors.Is(err, ErrInvalid), "the error does not wrap ErrInvalid: %v", err)
			got := lineNumber.ReplaceAllString(err.Error(), ":")
			if begin, open := strings.CutSuffix(strings.Join(want, "\n"), "…"); open && strings.HasPrefix(got, begin) && len(got) > len(begin) {
				want = []string{got}
			}
			dbtest.Same(t, cmp.Diff(strings.Join(want, "\n"), got), "", "the message (-want +got)")
			for _, m := range Mistakes(err) {
				dbtest.Ensure(t, m.Line > 0 || m.Key == "" && yamlLine.MatchString(m.Error()), "it names no line: %v", m)
			}
			dbtest.Ensure(t, !strings.Contains(got, "s3cret"), "the message shows a secret: %v", err)
		})
	}
}

// lineNumber matches the line of a key in a message. yamlLine matches the line of invalid YAML.
var lineNumber, yamlLine = regexp.MustCompile(` \(line [0-9]+\):`), regexp.MustCompile(`: line [0-9]+: `)

// TestMistakesNameTheLine: a mistake names the line of its key, or of the innermost section that lacks it.
func TestMistakesNameTheLine(t *testing.T) {
	for text, want := range map[string]int{
		"":                           1,
		"# c\nqueues: [{name: a}]\n": 2,
		"name: a\nqueues: [{name: a}]\n\"x y\":\n":                          3,
		"name: a\nqueues: [{name: a}]\nworker:\n  batch: 1\n  \"x y\": 1\n": 5,
		"name: a\nqueues:\n  - {name: a}\n  - name: a\n":                    4,
	} {
		file := filepath.Join(t.TempDir(), "hipq.yaml")
		do(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := Load(LoadOptions{File: file, Env: noEnv})
		dbtest.Same(t, Mistakes(err)[0].Line, want, "the line of the mistake in %q: %v", text, err)
	}
}

// noEnv is an empty environment.
var noEnv = []string{}
