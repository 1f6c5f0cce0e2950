package cmd_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hipq/hipq/cmd"
	"github.com/hipq/hipq/internal/dbtest"
)

// many is more rows than fit a page, or memory if they were kept.
const many = 10_000

// insertMany fills the activity and a queue. Late rows are wider than the first.
func (h hostileDB) insertMany() {
	h.t.Helper()
	from := "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1000) SELECT %s" +
		" FROM (SELECT a.n + (b.n - 1) * 1000 AS n FROM numbers AS a CROSS JOIN numbers AS b WHERE b.n <= %d) AS rows_to_be ORDER BY n"
	key := "CASE WHEN n < 9000 THEN 'short' ELSE 'a key that is much longer than those before it' END"
	for into, values := range map[string]string{
		"shop_activity (at, kind, state, queue, job_id, job_type, job_key, error) ": h.now() + ", 'job', 'added', 'plain', n, 'send', " + key + ", 'exit status 1'",
		"shop_plain (job_type, job_data) ":                                          "'send', '" + strings.Repeat("x", 500) + "'",
	} {
		dbtest.OK(h.t, h.exec("INSERT INTO "+into+fmt.Sprintf(from, values, many/1000)))
	}
}

// measured reads a command's output, and measures the memory in use meanwhile.
type measured struct {
	lines, writes int
	most          uint64
	first, last   string
}

func (m *measured) Write(p []byte) (int, error) {
	m.lines += bytes.Count(p, []byte("\n"))
	if m.writes++; m.writes == 1 {
		m.first = string(p)
	}
	m.last = string(p)
	if m.writes%16 == 1 { // a collection takes longer than a write
		m.most = max(m.most, inUse())
	}
	return len(p), nil
}

// inUse returns the memory in use after a collection.
func inUse() uint64 {
	var now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&now)
	return now.HeapAlloc
}

// A table of any length is printed in pages while it is read, and not cut. A signal ends it at once, even if its reader
// has stopped reading.
func TestLongTables(t *testing.T) {
	dbtest.Long(t, "many rows")
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		h := openHostile(t, driver, source, true)
		h.insertMany()
		for _, args := range [][]string{{"activity", "--limit", "0"}, {"jobs", "--limit", "0"}, {"jobs", "--limit", "9999"}} {
			t.Run(strings.Join(args, " "), func(t *testing.T) { h.measure(t, args) })
		}
		for _, read := range []bool{true, false} {
			for _, args := range [][]string{{"activity", "--limit", "0"}, {"jobs", "plain", "--state", "due", "--limit", "0"}, {"activity", "--json"}} {
				t.Run(fmt.Sprintf("%s read=%v", strings.Join(args, " "), read), func(t *testing.T) { h.interrupt(t, read, args) })
			}
		}
	})
}

func (h hostileDB) measure(t *testing.T, args []string) {
	before := inUse()
	var out measured
	var errs bytes.Buffer
	code := cmd.Main(append(args, "--config", h.config()), strings.NewReader(""), &out, &errs)
	dbtest.Require(t, code == 0 && errs.Len() == 0, "exit code %d: %s", code, errs.String())
	grown := int64(out.most) - int64(before)
	t.Logf("%d lines in %d writes, %d MiB", out.lines, out.writes, grown>>20)
	dbtest.Ensure(t, out.lines == many+1 && out.writes >= many/1000, "%d lines in %d writes", out.lines, out.writes)
	dbtest.Ensure(t, grown <= 4<<20, "%d MiB of memory for %d rows", grown>>20, many)
	last := "  a key that is much longer than those before it  –        –       –    –       exit status 1\n"
	dbtest.Ensure(t, args[0] != "activity" || strings.HasPrefix(out.first, "AT ") && strings.HasSuffix(out.last, last),
		"it begins with\n%.200s\nand ends with\n%s", out.first, out.last[max(0, len(out.last)-200):])
}

func (h hostileDB) interrupt(t *testing.T, read bool, args []string) {
	ctx := dbtest.Within(t, time.Minute)
	c := exec.CommandContext(ctx, "hipq", append(args, "--config", h.config())...)
	var errs bytes.Buffer
	out, in, err := os.Pipe()
	dbtest.OK(t, err)
	defer out.Close()
	c.Stdout, c.Stderr = in, &errs
	dbtest.OK(t, c.Start())
	dbtest.Must(io.ReadFull(out, make([]byte, 100)))(t)
	for !read && !full(t, in) && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	in.Close()
	began := time.Now()
	dbtest.OK(t, c.Process.Signal(syscall.SIGTERM))
	if read {
		n, err := io.Copy(io.Discard, out)
		dbtest.Ensure(t, err == nil && n <= many*50, "%d bytes more were printed, %v", n, err)
	}
	_ = c.Wait() // the process's state has the error too
	took := time.Since(began)
	dbtest.Ensure(t, took <= 10*time.Second, "it took %s to end", took)
	if code, got := c.ProcessState.ExitCode(), errs.String(); code != 143 || got != "hipq: interrupted\n" && got != `{"error":{"code":143,"message":"interrupted","hint":null}}`+"\n" {
		t.Errorf("exit code %d, and it said %q", code, got)
	}
}

// full reports whether a pipe is full, so that its writer waits for the reader.
func full(t *testing.T, in *os.File) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(in.Fd()), Events: unix.POLLOUT}}, 0)
	dbtest.Require(t, err == nil || errors.Is(err, unix.EINTR), "%v", err)
	return n == 0 && err == nil
}
