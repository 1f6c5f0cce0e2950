package crash

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// TestSnapshot: somebody keeps a snapshot open, as mysqldump --single-transaction does, while a queue with a limit is drained:
// the server can't forget what its jobs were. The last ones cost it about as much as the first: this counts the pages that it
// looks at, for time would say as much of the machine.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	source := dbtest.OwnMySQL(t) // the count is of the whole server
	h := configure(t, build(t), "mysql", source, plan{limit: 20})
	h.mustRun(t, "init")
	db := openDatabase(t, "mysql", source)
	const jobs = 26000
	file := filepath.Join(t.TempDir(), "jobs.ndjson")
	if err := os.WriteFile(file, []byte(strings.Repeat(`{"queue":"mail","job_type":"quick"}`+"\n", jobs)), 0o600); err != nil {
		t.Fatal(err)
	}
	h.mustRun(t, "enqueue", "--ndjson", file)
	defer db.snapshot(t)()

	work := h.command("work", "--concurrency", "20", "--run-for", "10m")
	if err := work.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- work.Wait() }()
	var looks []effort
	for working := true; working; {
		looks = append(looks, db.effort(t))
		select {
		case err := <-ended:
			if working = false; err != nil {
				t.Fatal(err)
			}
		case <-time.After(50 * time.Millisecond):
		}
	}
	parts := costs(looks, 10)
	t.Logf("pages for each entry of the activity, by tenth of the jobs: %.0f", parts)
	// the first tenth has what is done once
	if first, last := parts[1], parts[len(parts)-1]; last > 3*first {
		t.Errorf("each entry costs %.0f pages in the end, and %.0f at first", last, first)
	}
}

// effort is how many pages the server has looked at when the activity had so many entries.
type effort struct{ entries, pages int }

func (d *database) effort(t *testing.T) (e effort) {
	t.Helper()
	var pidFile string
	err := d.QueryRow("SELECT MAX(id), @@pid_file FROM "+activityTable).Scan(&e.entries, &pidFile)
	pid, f := os.ReadFile(pidFile)
	if err = errors.Join(err, f); err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	f2 := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	u, _ := strconv.Atoi(f2[11])
	v, _ := strconv.Atoi(f2[12])
	e.pages = (u + v) * 10000
	return e
}

// costs are how many pages each entry cost, in so many parts of the entries that came while it was looked.
func costs(looks []effort, n int) (parts []float64) {
	first, last := looks[0], looks[len(looks)-1]
	from := first
	for _, e := range looks {
		if e.entries >= first.entries+(last.entries-first.entries)*(len(parts)+1)/n && e.entries > from.entries {
			parts = append(parts, float64(e.pages-from.pages)/float64(e.entries-from.entries))
			from = e
		}
	}
	return parts
}

// snapshot keeps one open.
func (d *database) snapshot(t *testing.T) (end func()) {
	t.Helper()
	conn, err := d.Conn(t.Context())
	if err == nil {
		_, err = conn.ExecContext(t.Context(), "START TRANSACTION WITH CONSISTENT SNAPSHOT")
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		_, err := conn.ExecContext(context.Background(), "ROLLBACK")
		if err = errors.Join(err, conn.Close()); err != nil && !errors.Is(err, sql.ErrConnDone) {
			t.Error(err)
		}
	}
}
