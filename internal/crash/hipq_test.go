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

// binaries are the programs that are built for the test.
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

// own links the binaries under new names, so that a parallel test can recognise its processes.
func (b binaries) own(t *testing.T) binaries {
	t.Helper()
	dir := t.TempDir()
	mine := binaries{program: filepath.Join(dir, "hipq"), handler: filepath.Join(dir, "handler")}
	must(t, errors.Join(os.Link(b.program, mine.program), os.Link(b.handler, mine.handler)))
	return mine
}

// shortestLock is the minimum that the config allows.
const shortestLock = 5 * time.Second

// Attempts of jobs. Kills must not exhaust those of ordinary types, but may exhaust those of fragile jobs.
const (
	attempts        = 50
	fragileAttempts = 3
)

// hipq is the program with a config.
type hipq struct {
	binaries
	config, ledger string
	// driver and settings are the config without the place of the database.
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

// settingsOf returns the part of the config about workers and queues.
func (h hipq) settingsOf(p plan) string {
	var c strings.Builder
	fmt.Fprintf(&c, "worker: {lock_for: %s, grace: 0s}\n", max(p.lockFor, shortestLock))
	// long enough for a late worker to meet a job that waits for its next attempt
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

// by returns the same hipq with a config that reaches the database through source.
func (h hipq) by(t *testing.T, source string) hipq {
	t.Helper()
	h.config = filepath.Join(t.TempDir(), "hipq.yaml")
	head := "name: crash\ndatabase: " + dbtest.Section(h.driver, source) + "\n"
	must(t, os.WriteFile(h.config, []byte(head+h.settings), 0o600))
	return h
}

// command returns a command that no context kills, so that a test ends it only on purpose.
func (h hipq) command(args ...string) *exec.Cmd {
	c := exec.Command(h.program, append(args, "--config", h.config)...)
	c.Env = append(os.Environ(), "HOME=", "XDG_CACHE_HOME=") // without a folder for outages, each worker prints why it ended
	return c
}

// run runs a command and returns its output. On success, standard error must be empty, because cron would mail it.
func (h hipq) run(ctx context.Context, args ...string) (string, error) {
	var out, complaints bytes.Buffer
	c := h.command(args...)
	c.Env = append(c.Env, "HIPQ_MAIL=off") // jobs fail for good on purpose
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
