package cmd_test

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hipq/hipq/cmd"
	"github.com/hipq/hipq/internal/dbtest"
)

// many is how many rows a table has that is too long for one page, and for memory if it were kept.
const many = 30_000

// insertMany fills the activity and a queue: the rows that come late are wider than the first.
func (h hostileDB) insertMany() {
	h.t.Helper()
	from := "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1000) SELECT %s" +
		" FROM (SELECT a.n + (b.n - 1) * 1000 AS n FROM numbers AS a CROSS JOIN numbers AS b WHERE b.n <= %d) AS rows_to_be ORDER BY n"
	key := "CASE WHEN n < 29000 THEN 'short' ELSE 'a key that is much longer than those before it' END"
	for into, values := range map[string]string{
		"shop_activity (at, kind, state, queue, job_id, job_type, job_key, error) ": h.now() + ", 'job', 'added', 'plain', n, 'send', " + key + ", 'exit status 1'",
		"shop_plain (job_type, job_data) ":                                          "'send', '" + strings.Repeat("x", 500) + "'",
	} {
		if err := h.exec("INSERT INTO " + into + fmt.Sprintf(from, values, many/1000)); err != nil {
			h.t.Fatal(err)
		}
	}
}

// measured is a reader of a command's output that looks how much memory is in use meanwhile.
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
	var now runtime.MemStats
	runtime.GC() // what is in use, and not what a busy machine has not collected yet
	runtime.ReadMemStats(&now)
	m.most = max(m.most, now.HeapAlloc)
	return len(p), nil
}

// A table of any length is printed as it is read, by the page, nothing of it is cut, and a signal ends it at once, whether
// its reader reads on or has stopped to.
func TestLongTables(t *testing.T) {
	if testing.Short() {
		t.Skip("many rows")
	}
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		h := openHostile(t, driver, source, true)
		h.insertMany()
		for _, args := range [][]string{{"activity", "--limit", "0"}, {"jobs", "--limit", "0"}, {"jobs", "--limit", "29999"}} {
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
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	var out measured
	var errs bytes.Buffer
	if code := cmd.Main(append(args, "--config", h.config()), strings.NewReader(""), &out, &errs); code != 0 || errs.Len() > 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	grown := int64(out.most) - int64(before.HeapAlloc)
	t.Logf("%d lines in %d writes, %d MiB", out.lines, out.writes, grown>>20)
	if out.lines != many+1 || out.writes < many/1000 {
		t.Errorf("%d lines in %d writes", out.lines, out.writes)
	}
	if grown > 16<<20 {
		t.Errorf("%d MiB of memory for %d rows", grown>>20, many)
	}
	last := "  a key that is much longer than those before it  –        –       –    –       exit status 1\n"
	if args[0] == "activity" && (!strings.HasPrefix(out.first, "AT ") || !strings.HasSuffix(out.last, last)) {
		t.Errorf("it begins with\n%.200s\nand ends with\n%s", out.first, out.last[max(0, len(out.last)-200):])
	}
}

func (h hostileDB) interrupt(t *testing.T, read bool, args []string) {
	c := exec.Command("hipq", append(args, "--config", h.config())...)
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	rest := make(chan int64, 1)
	if read {
		go func() {
			n, _ := io.Copy(slow{}, out)
			rest <- n
		}()
	} else {
		time.Sleep(200 * time.Millisecond) // until the pipe is full
	}
	began := time.Now()
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		_ = c.Process.Kill()
		<-ended
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s to end", took)
	}
	if read {
		if n := <-rest; n > many*50 {
			t.Errorf("%d bytes more were printed", n)
		}
	}
	if code, got := c.ProcessState.ExitCode(), errs.String(); code != 143 || got != "hipq: interrupted\n" && got != `{"error":{"code":143,"message":"interrupted","hint":null}}`+"\n" {
		t.Errorf("exit code %d, and it said %q", code, got)
	}
}

// slow is a reader that doesn't get all of a table before the signal.
type slow struct{}

func (slow) Write(p []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return len(p), nil
}
