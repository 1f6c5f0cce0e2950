package crash

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// TestSnapshot drains a queue with a limit while a snapshot is open, as of mysqldump --single-transaction. The server
// must keep all old row versions, but the last jobs cost about as much as the first. It measures processor time, because
// jobs per second depend on other programs.
func TestSnapshot(t *testing.T) {
	dbtest.Long(t, "it takes many jobs to see it")
	t.Parallel()
	const jobs, parts = 26_000, 10
	source := dbtest.OwnMySQL(t) // with nothing else to do
	h := configure(t, build(t), "mysql", source, 20)
	h.mustRun(t, "init")
	db := openDatabase(t, "mysql", source)
	file := filepath.Join(t.TempDir(), "jobs.ndjson")
	dbtest.OK(t, os.WriteFile(file, []byte(strings.Repeat(`{"queue":"mail","job_type":"quick"}`+"\n", jobs)), 0o600))
	h.mustRun(t, "enqueue", "--ndjson", file)
	defer db.session(t, "ROLLBACK", "START TRANSACTION WITH CONSISTENT SNAPSHOT")()

	costs := costs(effortsOf(t, h, db), parts)
	t.Logf("µs for each entry of the activity, by part: %.0f", costs)
	// the first part includes one-time work
	first, last := costs[1], costs[len(costs)-1]
	dbtest.Ensure(t, last <= 2*first, "each entry of the activity costs the server %.0f µs in the end, and %.0f at first", last, first)
}

// effort is the server's processor time when the activity had so many entries.
type effort struct {
	entries int
	used    time.Duration
}

// effortsOf measures the server while a worker drains the queues.
func effortsOf(t *testing.T, h hipq, db *database) (all []effort) {
	t.Helper()
	work := h.command("work", "--concurrency", "20", "--run-for", "10m")
	dbtest.OK(t, work.Start())
	ended := make(chan error)
	go func() { ended <- work.Wait() }()
	for {
		all = append(all, db.effort(t))
		select {
		case err := <-ended:
			dbtest.OK(t, err)
			return append(all, db.effort(t))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// effort reads the processor time from Linux's /proc, in hundredths of a second.
func (d *database) effort(t *testing.T) (e effort) {
	t.Helper()
	var file string
	dbtest.OK(t, d.QueryRow("SELECT MAX(id), @@pid_file FROM crash_activity").Scan(&e.entries, &file))
	pid, err := os.ReadFile(file)
	stat, e1 := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(pid)), "stat"))
	if err = errors.Join(err, e1); err != nil {
		t.Skip(err)
	}
	_, behindName, _ := strings.Cut(string(stat), ") ")
	for _, ticks := range strings.Fields(behindName)[11:13] {
		n := dbtest.Must(strconv.Atoi(ticks))(t)
		e.used += time.Duration(n) * time.Second / 100
	}
	return e
}

// costs returns the microseconds for an entry in each of n equal parts of the run.
func costs(looks []effort, n int) (parts []float64) {
	first, last, from := looks[0], looks[len(looks)-1], looks[0]
	for _, now := range looks {
		if end := first.entries + (last.entries-first.entries)*(len(parts)+1)/n; now.entries >= end && now.entries > from.entries {
			parts = append(parts, float64((now.used-from.used).Microseconds())/float64(now.entries-from.entries))
			from = now
		}
	}
	return parts
}
