package texts_test

import (
	"os/exec"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/texts"
)

// A shell reads one word, equal to the original text.
func TestWord(t *testing.T) {
	for text, want := range map[string]string{
		"/etc/hipq/a-b_c.yaml": "/etc/hipq/a-b_c.yaml", "": "''", "a b": "'a b'", "$(id)": "'$(id)'", "a'b": `'a'\''b'`,
		"größe": "'größe'", "a\nb": "'a\nb'", "~": "'~'", "*": "'*'", "ａ": "'ａ'",
	} {
		got := texts.ShellWord(text)
		dbtest.Same(t, got, want, "%q", text)
		out, err := exec.Command("sh", "-c", "printf '%s.' "+got).Output()
		dbtest.Ensure(t, err == nil && string(out) == text+".", "%q: the shell takes %s for %q: %v", text, got, out, err)
	}
}
