package crash

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// binaries are what is built for the test.
type binaries struct{ program, handler string }

func build(t *testing.T) binaries {
	t.Helper()
	dir := t.TempDir()
	b := binaries{program: filepath.Join(dir, "hipq"), handler: filepath.Join(dir, "handler")}
	compile := func(to, pkg string, flags ...string) {
		args := append([]string{"build", "-o", to}, flags...)
		if out, err := exec.Command("go", append(args, pkg)...).CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", pkg, err, out)
		}
	}
	var race []string
	if raceDetector {
		race = []string{"-race"}
	}
	compile(b.program, "github.com/hipq/hipq", race...)
	compile(b.handler, "./testdata/handler")
	return b
}

// lockFor is the shortest that the config allows.
const lockFor = "5s"

// The attempts that jobs have. Kills must not exhaust those of the ordinary types; those of fragile jobs they may.
const (
	attempts        = 50
	fragileAttempts = 3
)

// hipq is the program with a config.
type hipq struct {
	binaries
	config, ledger string
}

// queues have the same job types.
var queues = []string{"mail", "files"}

func configure(t *testing.T, b binaries, driver, source string, limit int) hipq {
	t.Helper()
	dir := t.TempDir()
	h := hipq{binaries: b, config: filepath.Join(dir, "hipq.yaml"), ledger: filepath.Join(dir, "ledger")}
	var c strings.Builder
	where := map[string]string{"sqlite": "path", "mysql": "dsn"}[driver]
	fmt.Fprintf(&c, "name: crash\ndatabase: {driver: %s, %s: %q}\n", driver, where, source)
	fmt.Fprintf(&c, "worker: {lock_for: %s, grace: 0s}\n", lockFor)
	// long enough for a late worker to come upon a job that waits for its next attempt
	fmt.Fprintf(&c, "retry: {attempts: %d, delay: 500ms, backoff: fixed, jitter: 1}\ntimeout: 30s\nqueues:\n", attempts)
	for _, q := range queues {
		handler := fmt.Sprintf("handler: {exec: [%q, %q]}", h.handler, h.ledger)
		fmt.Fprintf(&c, "  - name: %s\n    throttle_limit: %d\n    job_types:\n", q, limit)
		fmt.Fprintf(&c, "      - {name: steady, %s}\n", handler)
		fmt.Fprintf(&c, "      - {name: brief, timeout: 1s, %s}\n", handler)
		fmt.Fprintf(&c, "      - {name: asked, %s, retry_%s}\n", handler, strings.Replace(handler, "]", ", decide]", 1))
		fmt.Fprintf(&c, "      - {name: sent, async: true, timeout: 3s, %s}\n", handler)
		fmt.Fprintf(&c, "      - {name: fragile, retry: {attempts: %d}, %s}\n", fragileAttempts, handler)
	}
	for file, content := range map[string]string{h.config: c.String(), h.ledger: ""} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// command is one that ctx does not kill: what the test ends, it ends on purpose.
func (h hipq) command(args ...string) *exec.Cmd {
	return exec.Command(h.program, append(args, "--config", h.config)...)
}

// run runs a command to its end and gives what it printed. Success is silent: cron mails what is on standard error.
func (h hipq) run(ctx context.Context, args ...string) (string, error) {
	var out, complaints bytes.Buffer
	c := h.command(args...)
	c.Stdout, c.Stderr = &out, &complaints
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("hipq %s: %w: %s", strings.Join(args, " "), err, complaints.String())
	}
	if complaints.Len() > 0 {
		return "", fmt.Errorf("hipq %s: exit status 0, but it said: %s", strings.Join(args, " "), complaints.String())
	}
	return out.String(), ctx.Err()
}

func (h hipq) mustRun(t *testing.T, args ...string) {
	t.Helper()
	if _, err := h.run(context.Background(), args...); err != nil {
		t.Error(err)
	}
}
