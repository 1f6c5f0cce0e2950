package cmd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
)

// The loop for containers starts a run. On SIGTERM it ends after the run.
func TestWorkLoop(t *testing.T) {
	t.Parallel()
	dir := withPrograms(t, map[string]string{
		"hipq": "trap 'sleep 0.2; echo \"$1 ended\" >> log; exit' TERM\necho \"$*\" >> log\nsleep 60 & wait\n",
	})
	c := exec.Command("sh", dbtest.Must(filepath.Abs("../docs/examples/work-loop.sh"))(t))
	c.Dir, c.Env = dir, []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // like a container's first process
	dbtest.OK(t, c.Start())
	log := func() string {
		text, _ := os.ReadFile(filepath.Join(dir, "log"))
		return string(text)
	}
	dbtest.Eventually(t, "a log", func() bool { return log() != "" })
	dbtest.OK(t, c.Process.Signal(syscall.SIGTERM))
	dbtest.OK(t, c.Wait())
	dbtest.Same(t, log(), "work --linger\nwork ended\n", "log")
}

// The Slack script posts its input, and prints it if that fails. It posts nothing for an empty input.
func TestToSlack(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct{ input, curl, posted, printed string }{
		{"", "cat > posted", "", ""},
		{"hipq: <!channel> & \"x\"\n  look\n", "cat > posted", `: hipq: &lt;!channel&gt; &amp; \"x\"\n  look"`, ""},
		{"hipq: failed\n", "cat > posted; exit 22", ": hipq: failed", "hipq: failed\n"},
	} {
		dir := withPrograms(t, map[string]string{"curl": c.curl + "\n"})
		run := exec.Command("sh", dbtest.Must(filepath.Abs("../docs/examples/to-slack.sh"))(t))
		run.Dir, run.Env, run.Stdin = dir, []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, strings.NewReader(c.input)
		out := dbtest.Must(run.CombinedOutput())(t)
		dbtest.Same(t, string(out), c.printed, "printed")
		posted, _ := os.ReadFile(filepath.Join(dir, "posted"))
		dbtest.Ensure(t, strings.Contains(string(posted), c.posted) && (c.posted == "") == (len(posted) == 0), "posted %s, want %s", posted, c.posted)
	}
}

// withPrograms returns a folder with these scripts.
func withPrograms(t *testing.T, scripts map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range scripts {
		dbtest.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o700))
	}
	return dir
}
