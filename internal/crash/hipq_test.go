package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// binaries are what is built for the test.
type binaries struct{ program, handler string }

func build(t *testing.T) binaries {
	t.Helper()
	dir := t.TempDir()
	b := binaries{program: filepath.Join(dir, "hipq"), handler: filepath.Join(dir, "handler")}
	compile := func(to, pkg string, flags ...string) {
		args := append([]string{"build", "-o", to}, flags...)
		out, err := exec.Command("go", append(args, pkg)...).CombinedOutput()
		dbtest.Require(t, err == nil, "build %s: %v\n%s", pkg, err, out)
	}
	var race []string
	if raceDetector {
		race = []string{"-race"}
	}
	compile(b.program, "github.com/hipq/hipq", race...)
	compile(b.handler, "./testdata/handler")
	return b
}

// own are the same binaries under names of their own, so that a test that runs beside others knows its processes.
func (b binaries) own(t *testing.T) binaries {
	t.Helper()
	dir := t.TempDir()
	mine := binaries{program: filepath.Join(dir, "hipq"), handler: filepath.Join(dir, "handler")}
	must(t, errors.Join(os.Link(b.program, mine.program), os.Link(b.handler, mine.handler)))
	return mine
}

// shortestLock is the shortest that the config allows.
const shortestLock = 5 * time.Second

// The attempts that jobs have. Kills must not exhaust those of the ordinary types; those of fragile jobs they may.
const (
	attempts        = 50
	fragileAttempts = 3
)

// hipq is the program with a config.
type hipq struct {
	binaries
	config, ledger string
	// driver and settings are what the config says, but for where the database is.
	driver, settings string
}

// queues have the same job types.
var queues = []string{"mail", "files"}

func configure(t *testing.T, b binaries, driver, source string, p plan) hipq {
	t.Helper()
	h := hipq{binaries: b, driver: driver, ledger: filepath.Join(t.TempDir(), "ledger")}
	must(t, os.WriteFile(h.ledger, nil, 0o600))
	h.settings = h.settingsOf(p)
	return h.by(t, source)
}

// settingsOf are what the config says of workers and queues.
func (h hipq) settingsOf(p plan) string {
	var c strings.Builder
	fmt.Fprintf(&c, "worker: {lock_for: %s, grace: 0s}\n", max(p.lockFor, shortestLock))
	// long enough for a late worker to come on a job that waits for its next attempt
	fmt.Fprintf(&c, "retry: {attempts: %d, delay: 500ms, backoff: fixed, jitter: 1}\ntimeout: 30s\nqueues:\n", attempts)
	for _, q := range queues {
		handler := fmt.Sprintf("handler: {exec: [%q, %q]}", h.handler, h.ledger)
		fmt.Fprintf(&c, "  - name: %s\n    throttle_limit: %d\n", q, p.limit)
		if p.shards > 0 {
			fmt.Fprintf(&c, "    shards: %d\n", p.shards)
		}
		if p.rate > 0 {
			fmt.Fprintf(&c, "    rate: %d/1s\n", p.rate)
		}
		if *queueFlag != "" {
			fmt.Fprintf(&c, "    %s\n", *queueFlag)
		}
		fmt.Fprintf(&c, "    job_types:\n")
		fmt.Fprintf(&c, "      - {name: quick, handler: {exec: ['true']}}\n")
		fmt.Fprintf(&c, "      - {name: steady, %s}\n", handler)
		fmt.Fprintf(&c, "      - {name: brief, timeout: 1s, %s}\n", handler)
		fmt.Fprintf(&c, "      - {name: asked, %s, retry_%s}\n", handler, strings.Replace(handler, "]", ", decide]", 1))
		fmt.Fprintf(&c, "      - {name: sent, async: true, timeout: 3s, %s}\n", handler)
		fmt.Fprintf(&c, "      - {name: fragile, retry: {attempts: %d}, %s}\n", fragileAttempts, handler)
	}
	return c.String()
}

// by is the same hipq with a config of its own, by which its database is there.
func (h hipq) by(t *testing.T, source string) hipq {
	t.Helper()
	h.config = filepath.Join(t.TempDir(), "hipq.yaml")
	head := "name: crash\ndatabase: " + dbtest.Section(h.driver, source) + "\n"
	must(t, os.WriteFile(h.config, []byte(head+h.settings), 0o600))
	return h
}

// command is one that ctx does not kill: what the test ends, it ends on purpose.
func (h hipq) command(args ...string) *exec.Cmd {
	c := exec.Command(h.program, append(args, "--config", h.config)...)
	c.Env = append(os.Environ(), "HOME=", "XDG_CACHE_HOME=") // with no place to note an outage each worker says why it ended
	return c
}

// run runs a command to its end and gives what it printed. Success is silent: cron mails what is on standard error.
func (h hipq) run(ctx context.Context, args ...string) (string, error) {
	var out, complaints bytes.Buffer
	c := h.command(args...)
	c.Env = append(c.Env, "HIPQ_MAIL=off") // jobs are to fail for good
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
	_, err := h.run(context.Background(), args...)
	dbtest.Ensure(t, err == nil, "%v", err)
}
