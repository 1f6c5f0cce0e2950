// Package handlers tests the examples beside it, which are separate programs.
package handlers

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// languages are the job types of hipq.yaml, each also with -stream, and the programs that run them.
var languages = []struct{ name, client string }{
	{"sh", "jq"}, {"python", "python3"}, {"php", "php"}, {"ruby", "ruby"}, {"node", "node"}, {"go", ""},
}

// words is the number of words in letter.txt.
const words = 56

// TestHandlers runs all examples in one worker: with a text and without one, told to stop midway, killed midway, and
// killed after writing the report but before reporting it.
func TestHandlers(t *testing.T) {
	dbtest.Long(t, "the race detector has nothing to see in other programs")
	s := setUp(t)
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			if l.client != "" {
				dbtest.Client(t, l.client)
			}
			s.types = append(s.types, l.name, l.name+"-stream")
		})
	}
	t.Run("texts", s.texts)
	t.Run("told to stop", s.toldToStop)
	t.Run("killed", s.killed)
}

type examples struct {
	dir, hipq string
	types     []string // those whose language is installed
}

// setUp copies the examples to a writable folder, and builds hipq and the Go examples.
func setUp(t *testing.T) *examples {
	built := t.TempDir()
	s := &examples{dir: t.TempDir(), hipq: filepath.Join(built, "hipq")}
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", built, "../..", "./go/exec", "./go/stream").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	err := os.CopyFS(s.dir, os.DirFS("."))
	for _, name := range []string{"exec", "stream"} {
		err = errors.Join(err, os.Rename(filepath.Join(built, name), filepath.Join(s.dir, name+"-go")))
	}
	dbtest.OK(t, err)
	s.run(t, "init")
	return s
}

// command is hipq in the examples' folder. No job waits for a slot, and the grace is 3 s.
func (s *examples) command(pause int, args ...string) *exec.Cmd {
	c := exec.Command(s.hipq, args...)
	c.Dir = s.dir
	c.Env = append(os.Environ(), "HIPQ_WORKER_CONCURRENCY=50", "HIPQ_WORKER_GRACE=3s", "PYTHONDONTWRITEBYTECODE=1", "PAUSE="+strconv.Itoa(pause))
	return c
}

func (s *examples) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.command(0, args...).CombinedOutput()
	dbtest.Require(t, err == nil, "hipq %v: %v\n%s", args, err, out)
	return strings.TrimSpace(string(out))
}

func (s *examples) want(t *testing.T, what, want, got string) {
	t.Helper()
	dbtest.Ensure(t, got == want, "%s: %q, want %q", what, got, want)
}

// enqueue adds a job of each type, with this key.
func (s *examples) enqueue(t *testing.T, key, data string) {
	t.Helper()
	c := s.command(0, "enqueue", "--ndjson", "-")
	var lines strings.Builder
	for _, name := range s.types {
		fmt.Fprintf(&lines, "{\"queue\":\"words\",\"job_type\":%q,\"job_key\":%q,\"job_data\":%s}\n", name, key, data)
	}
	c.Stdin = strings.NewReader(lines.String())
	out, err := c.CombinedOutput()
	dbtest.Require(t, err == nil, "%v\n%s", err, out)
}

// files are the files whose names match.
func (s *examples) files(like string) string {
	names, _ := filepath.Glob(filepath.Join(s.dir, like))
	for i := range names {
		names[i] = filepath.Base(names[i])
	}
	return strings.Join(names, " ")
}

// shown is a job, or an entry of the activity, as hipq prints it.
type shown struct {
	ID, Attempt   int
	Type          string `json:"job_type"`
	Key           string `json:"job_key"`
	Error, Output string
	Result        struct{ Words int }
}

// shown are the jobs of each type with this key, or with "activity" their entries.
func (s *examples) shown(t *testing.T, command, state, key string) map[string]shown {
	t.Helper()
	found := map[string]shown{}
	for line := range strings.Lines(s.run(t, command, "--json", "--queue", "words", "--state", state, "--key", key, "--limit", "0")) {
		var j shown
		err := json.Unmarshal([]byte(line), &j)
		dbtest.Require(t, err == nil, "%v: %s", err, line)
		found[j.Type] = j
	}
	dbtest.Ensure(t, len(found) == len(s.types), "%s %s: there are %d of %d", key, state, len(found), len(s.types))
	return found
}

// counted checks that each job with the key has finished at this attempt, with so many words.
func (s *examples) counted(t *testing.T, key string, attempt, words int) {
	t.Helper()
	for name, j := range s.shown(t, "jobs", "final", key) {
		got := fmt.Sprintf("%s %d words, attempt %d", j.Error, j.Result.Words, j.Attempt)
		s.want(t, name, fmt.Sprintf(" %d words, attempt %d", words, attempt), got)
		report, _ := os.ReadFile(filepath.Join(s.dir, fmt.Sprintf("report-%d.txt", j.ID)))
		s.want(t, name+": report", fmt.Sprintf("%d words in letter.txt\n", words), string(report))
	}
}

const letter = `{"file":"letter.txt"}`

func (s *examples) texts(t *testing.T) {
	s.enqueue(t, "letter", letter)
	s.enqueue(t, "missing", `{"file":"no\"where.txt"}`)
	s.enqueue(t, "none", `"letter.txt"`)
	s.enqueue(t, "odd", `{"file":{"name":7}}`)
	s.run(t, "work")
	s.counted(t, "letter", 1, words)
	for name, j := range s.shown(t, "activity", "finished", "letter") {
		if strings.Contains(j.Output, "progress") { // parsed progress is not part of the log
			t.Errorf("%s: its output is %q, with progress", name, j.Output)
		}
	}
	for _, key := range []string{"missing", "none", "odd"} {
		for name, j := range s.shown(t, "jobs", "final", key) {
			dbtest.Ensure(t, j.Attempt == 1 && strings.Contains(j.Error, "no such text"),
				"%s: attempt %d: %q, want that there is no such text", name, j.Attempt, j.Error)
		}
	}
}

// begin starts a worker, and waits until jobs are in the middle of their work.
func (s *examples) begin(t *testing.T, keys ...string) *exec.Cmd {
	t.Helper()
	c := s.command(3600, "work")
	dbtest.OK(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill() })
	limit := time.Now().Add(2 * time.Minute)
	for s.files("report-*.1.part") == "" || strings.Count(s.files("report-*.1.part"), " ")+1 < len(keys)*len(s.types) {
		if time.Now().After(limit) {
			t.Fatalf("not all have begun: %s", s.files("report-*.part"))
		}
		time.Sleep(20 * time.Millisecond)
	}
	return c
}

func (s *examples) toldToStop(t *testing.T) {
	s.enqueue(t, "stop", letter)
	c := s.begin(t, "stop")
	dbtest.OK(t, c.Process.Signal(syscall.SIGTERM))
	dbtest.Same(t, c.Wait(), nil)
	s.want(t, "what is half done", "", s.files("report-*.part"))
	for name, j := range s.shown(t, "activity", "error", "stop") {
		dbtest.Ensure(t, j.Error == "interrupted" && strings.Contains(j.Output, "told to stop"),
			"%s: %q, and its output %q, want that it was told to stop", name, j.Error, j.Output)
	}
	s.again(t)
	s.counted(t, "stop", 2, words)
}

func (s *examples) killed(t *testing.T) {
	dbtest.SkipIf(t, runtime.GOOS != "linux", "it finds the programs in /proc")
	s.enqueue(t, "half", letter)
	s.enqueue(t, "whole", letter)
	c := s.begin(t, "half", "whole")
	for _, j := range s.shown(t, "jobs", "running", "whole") { // as if they had come this far, with a number that shows the report's origin
		dbtest.OK(t, os.WriteFile(filepath.Join(s.dir, fmt.Sprintf("report-%d.txt", j.ID)), []byte("7 words in letter.txt\n"), 0o600))
	}
	s.kill(t)
	dbtest.Same(t, c.Wait(), nil)
	s.again(t)
	s.counted(t, "half", 2, words)
	s.counted(t, "whole", 2, 7)
	s.want(t, "what is half done", "", s.files("report-*.part"))
}

// kill kills all programs in the examples' folder except hipq.
func (s *examples) kill(t *testing.T) {
	processes := dbtest.Must(filepath.Glob("/proc/[0-9]*"))(t)
	for _, p := range processes {
		where, _ := os.Readlink(p + "/cwd")
		what, _ := os.Readlink(p + "/exe")
		pid, _ := strconv.Atoi(filepath.Base(p))
		if where != s.dir || what == s.hipq {
			continue
		}
		err := syscall.Kill(pid, syscall.SIGKILL)
		dbtest.Ensure(t, err == nil || errors.Is(err, syscall.ESRCH), "%v", err)
	}
}

// again runs the jobs that wait for their next attempt.
func (s *examples) again(t *testing.T) {
	s.run(t, "reschedule", "words", "--state", "retry", "--yes", "--in", "0s")
	s.run(t, "work")
}
