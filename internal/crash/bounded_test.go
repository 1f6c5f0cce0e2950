package crash

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// mostMemory limits the peak memory of a worker in MiB, at a concurrency of 4.
const mostMemory = 64

// briefly is the error of jobs that never end.
const briefly = "timeout after 3s"

// ignored is its suffix for programs that ignore SIGTERM.
const ignored = "; ignored SIGTERM for 1s, killed"

// misdeeds are the actions of bad handlers, and the results of their jobs.
var misdeeds = []struct {
	kind, do string
	// part divides the size of the flood that it prints.
	part  int64
	error string
}{
	{"exec", "flood", 1, ""},
	{"stream", "flood", 1, ""},
	{"exec", "flood like a reply", 4, ""},
	{"stream", "flood like a reply", 4, ""},
	{"http", "flood", 1, "200 OK, and its body has more than 1048576 bytes"},
	{"exec", "close", 0, briefly},
	{"stream", "close", 0, "the program has closed its standard output"},
	{"exec", "daemon", 0, ""},
	{"stream", "daemon", 0, ""},
	{"exec", "deaf", 0, briefly + ignored},
	{"stream", "deaf", 0, briefly + ignored + "; the program printed lines but no reply: a reply is {\"id\": …, \"outcome\": …} on a line of its own"},
}

// TestBounded checks that with any misdeed, the tick ends in time, uses little memory and leaves nothing behind.
func TestBounded(t *testing.T) {
	t.Parallel()
	flood := int64(10 << 30)
	if testing.Short() {
		flood = 1 << 30
	}
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		block := bytes.Repeat([]byte("x"), 1<<20)
		for n := int64(0); n < flood; n += int64(len(block)) {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	defer endpoint.Close()
	h := configureHostile(t, endpoint.URL)
	var jobs strings.Builder
	for _, m := range misdeeds {
		data := map[string]any{"do": m.do, "bytes": flood / max(m.part, 1)}
		jobType := "long"
		if strings.HasPrefix(m.error, briefly) {
			jobType = "brief"
		}
		line, _ := json.Marshal(map[string]any{"queue": m.kind, "job_type": jobType, "job_key": m.do, "job_data": data})
		jobs.Write(append(line, '\n'))
	}
	file := filepath.Join(t.TempDir(), "jobs.ndjson")
	must(t, os.WriteFile(file, []byte(jobs.String()), 0o600))
	h.mustRun(t, "init")
	h.mustRun(t, "enqueue", "--ndjson", file)

	work := h.command("work")
	work.Env = append(work.Env, "HIPQ_MAIL=off")
	began := time.Now()
	most, said := watchMemory(t, work)
	t.Logf("%s; %d MiB of memory at most", time.Since(began).Round(100*time.Millisecond), most)
	dbtest.Same(t, said, "", "hipq work")
	dbtest.Ensure(t, most <= mostMemory || raceDetector, "the worker came to use %d MiB of memory, and may use %d", most, mostMemory)
	for _, left := range h.processes() {
		t.Errorf("left behind: %s", left)
	}

	got := map[string]string{}
	text := dbtest.Must(h.run(t.Context(), "jobs", "--json"))(t)
	for line := range strings.Lines(text) {
		var j struct {
			Queue string `json:"queue"`
			Key   string `json:"job_key"`
			State string `json:"state"`
			Error string `json:"error"`
		}
		must(t, json.Unmarshal([]byte(line), &j))
		got[j.Queue+" "+j.Key] = j.State + " " + j.Error
	}
	for _, m := range misdeeds {
		now := got[m.kind+" "+m.do]
		dbtest.Ensure(t, now == "final "+m.error, "%s that does %s: %.300s; want final %s", m.kind, m.do, now, m.error)
	}
	dbtest.Same(t, len(got), len(misdeeds), "jobs: %q", slices.Sorted(maps.Keys(got)))
}

// configureHostile returns a hipq with a queue for each kind of handler.
func configureHostile(t *testing.T, url string) hipq {
	t.Helper()
	h := hipq{binaries: build(t), driver: "sqlite"}
	h.handler = filepath.Join(t.TempDir(), "hostile")
	out, err := exec.Command("go", "build", "-o", h.handler, "./testdata/hostile").CombinedOutput()
	dbtest.Require(t, err == nil, "%v\n%s", err, out)
	var c strings.Builder
	c.WriteString("worker: {concurrency: 4, grace: 1s, run_for: 10m}\nretry: {attempts: 1}\nqueues:\n")
	for kind, handler := range map[string]string{
		"exec":   fmt.Sprintf("{exec: [%q, exec]}", h.handler),
		"stream": fmt.Sprintf("{stream: [%q, stream], processes: 4}", h.handler),
		"http":   fmt.Sprintf("{http: {url: %q, networks: [127.0.0.0/8]}}", url),
	} {
		fmt.Fprintf(&c, "  - name: %s\n    job_types:\n", kind)
		fmt.Fprintf(&c, "      - {name: long, priority: 1, timeout: 10m, handler: %s}\n", handler)
		fmt.Fprintf(&c, "      - {name: brief, timeout: 3s, handler: %s}\n", handler)
	}
	h.settings = c.String()
	return h.by(t, filepath.Join(t.TempDir(), "hipq.db"))
}

// watchMemory runs a command and returns its peak memory in MiB and its output.
func watchMemory(t *testing.T, c *exec.Cmd) (most int, said string) {
	t.Helper()
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	must(t, c.Start())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	tooLong := time.After(2 * *patienceFlag)
	for {
		// rusage starts with the peak of the process that forked it
		if f, err := os.Open(fmt.Sprintf("/proc/%d/status", c.Process.Pid)); err == nil {
			for lines := bufio.NewScanner(f); lines.Scan(); {
				if kib, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
					n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(kib), " kB"))
					most = max(most, n>>10)
				}
			}
			_ = f.Close()
		}
		select {
		case err := <-ended:
			dbtest.Ensure(t, err == nil, "%v", err)
			return most, out.String()
		case <-tooLong:
			_ = c.Process.Kill()
			t.Fatalf("hipq work has not ended in %s", 2**patienceFlag)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
