package cmd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
)

// container checks a Dockerfile without Docker: what it copies exists after make build, and its health check fails at
// CRITICAL and UNKNOWN only. TestWorkLoop runs the copied loop, which the last line starts.
func (d docs) container(t *testing.T, p page) {
	for _, b := range p.with("dockerfile", "") {
		health := ""
		for line := range strings.Lines(b.text) {
			words := strings.Fields(line)
			if words[0] == "COPY" {
				for _, source := range words[1 : len(words)-1] {
					_, missing := os.Stat(filepath.Join(d.root, source))
					if source == "hipq" {
						_, missing = os.Stat(filepath.Join(d.bin, source))
					}
					yours := strings.Contains(p.text, "`"+source+"`") // the reader's own files
					dbtest.Ensure(t, missing == nil || yours || strings.HasPrefix(source, "--"), "%s:%d: %s: %v", p.name, b.line, source, missing)
				}
			}
			if words[0] == "HEALTHCHECK" {
				_, health, _ = strings.Cut(line, " CMD ")
			}
		}
		copied := "docs/examples/work-loop.sh /usr/local/bin/\n"
		dbtest.Ensure(t, strings.Contains(b.text, copied) && strings.HasSuffix(b.text, `CMD ["sh", "/usr/local/bin/work-loop.sh"]`+"\n"),
			"%s:%d: it starts no copied loop", p.name, b.line)
		dir := t.TempDir()
		const config = "name: shop\nalert: {backlog: {warning: 0, critical: 1}}\nqueues: [{name: emails}]\n"
		must(t, os.WriteFile(filepath.Join(dir, "hipq.yaml"), []byte(config), 0o600))
		for _, c := range []struct {
			before, says string
			status       int
		}{
			{"hipq init", "OK", 0},
			{"hipq enqueue emails send", "WARNING", 0},
			{"hipq enqueue emails send", "CRITICAL", 1},
			{"rm hipq.yaml", "UNKNOWN", 1},
		} {
			out, err := d.command(dir, "sh", "-ec", c.before).CombinedOutput()
			dbtest.Require(t, err == nil, "%v\n%s", err, out)
			check := d.command(dir, "/bin/sh", "-c", health)
			out, _ = check.CombinedOutput()
			dbtest.Ensure(t, strings.HasPrefix(string(out), "HIPQ "+c.says) && check.ProcessState.ExitCode() == c.status,
				"%s:%d: exit status %d, want %d at %s\n%s", p.name, b.line, check.ProcessState.ExitCode(), c.status, c.says, out)
		}
	}
}
