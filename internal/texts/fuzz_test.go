package texts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/texts"
)

// FuzzTrace: the reason in valid output is valid, and says nothing that the output doesn't.
func FuzzTrace(f *testing.F) {
	files, _ := filepath.Glob("testdata/*")
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			f.Add(string(text), false)
		}
	}
	for _, text := range []string{
		"Traceback (most recent call last):\n  File \"a.py\", line 2, in <module>\nValueError: no\n", "panic: no\n\ngoroutine 1 [running]:\nmain.main()\n",
		"PHP Fatal error:  Uncaught Exception: no in a.php:3\nStack trace:\n#0 {main}\n  thrown in a.php on line 3\n", "a.rb:1:in `f': no (RuntimeError)\n\tfrom a.rb:2:in `<main>'\n",
		"Exception in thread \"main\" java.lang.Error: no\n\tat A.main(A.java:1)\nCaused by: x\n", "no at a.pl line 3.\n", "/a.js:1\nthrow 1\n^\n\nError: no\n    at f (/a.js:1:7)\n\nNode.js v20\n",
	} {
		f.Add(text, false)
		f.Add(text+"bye\n", true)
	}
	f.Fuzz(func(t *testing.T, text string, chose bool) {
		if !utf8.ValidString(text) {
			return
		}
		lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
		got := texts.Reason(text, lines[len(lines)-1], chose)
		dbtest.Ensure(t, utf8.ValidString(got) && !strings.Contains(got, "\n"), "%q", got)
	})
}
