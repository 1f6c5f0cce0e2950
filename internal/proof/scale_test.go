package proof

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
)

var (
	scaleDue   = flag.Int("scale.due", 10_000, "TestScale: how many jobs are due in the large instance; as many are scheduled, four times as many final")
	scaleSmall = flag.Int("scale.small", 1_000, "TestScale: the same for the small instance")
	scaleOut   = flag.String("scale.out", "", "TestScale: add the results to this file, as JSON lines")
)

// sizes are the jobs that are due in the instances to compare.
type sizes struct{ small, large int }

// mostGrowth is how much more a command may cost in the large instance, if its cost should not depend on the backlog.
const mostGrowth = 2

// TestScale compares what commands cost beside a large queue and beside a small one.
func TestScale(t *testing.T) {
	run := func(name string, source func(t *testing.T) string) {
		t.Run(name, func(t *testing.T) {
			scale(t, name, source(t), sizes{*scaleSmall, *scaleDue})
		})
	}
	run("sqlite", func(t *testing.T) string { return dbtest.SQLite(t) })
	run("mysql", func(t *testing.T) string {
		return dbtest.OwnMySQL(t, "--innodb-buffer-pool-size=1G", "--loose-innodb-log-file-size=1G")
	})
}

// scaleResult is what a command costs in both instances, or what else was measured in them.
type scaleResult struct {
	Test   string `json:"test"`
	Engine string `json:"engine"`
	What   string `json:"what"`
	// Due is the size of both instances; the other pairs are in the same order. A pair is missing if it isn't known.
	Due [2]int `json:"due"`
	// MS is the shortest duration; CPU and Server are the processor time of hipq and of the server. Rows are the rows and
	// index entries that the server read. All are for one repetition.
	MS     [2]float64  `json:"ms"`
	CPU    [2]float64  `json:"cpu_ms"`
	Server *[2]float64 `json:"server_ms,omitempty"`
	Rows   *[2]int64   `json:"rows,omitempty"`
	Ratio  float64     `json:"ratio"`
	// Grows says why the cost may grow with the queue; if it is empty, it may not.
	Grows string `json:"grows,omitempty"`
	Bad   bool   `json:"bad"`
}

func scaleReport(t *testing.T, line any) {
	t.Helper()
	text := dbtest.Must(json.Marshal(line))(t)
	t.Logf("%s", text)
	if *scaleOut == "" {
		return
	}
	f := dbtest.Must(os.OpenFile(*scaleOut, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600))(t)
	_, err := f.Write(append(text, '\n'))
	dbtest.OK(t, errors.Join(err, f.Close()))
}

// scaleOp is a command to measure.
type scaleOp struct {
	what   string
	config string
	times  int
	grows  string
	args   func(l *large, i int) []string
}

// scaleCommand is a command with the same arguments each time.
func scaleCommand(times int, grows string, args ...string) scaleOp {
	return scaleOp{strings.Join(args, " "), "work", times, grows, func(*large, int) []string { return args }}
}

// onJob is a command on a job: on the i-th of the kind with this remainder (sampleOf) from the middle of what was built on.
func onJob(times int, grows string, remainder int, args ...string) scaleOp {
	return scaleOp{strings.Join(args, " "), "work", times, grows, func(l *large, i int) []string {
		id := (l.first+l.last)/2/6*6 + remainder + 6*i
		if remainder == 0 { // a failed job: any of 6000
			id = (l.first+l.last)/2/6000*6000 - 6000*i
			id = max(id, 12000)
		}
		args := slices.Clone(args)
		for j, a := range args {
			switch a {
			case "ID":
				args[j] = strconv.Itoa(id)
			case "KEY":
				args[j] = l.column("SELECT job_key FROM scale_mail WHERE id = ?", id)[0]
			}
		}
		return args
	}}
}

const (
	countsQueue   = "it counts the queue's jobs"
	searchesTable = "it searches the table"
	sortsState    = "it sorts the ids of the jobs in that state"
	readsJobs     = "it reads the table of jobs"
)

// ops returns the commands, in an order in which none spoils another's work. A worker runs so many jobs; file has 10,000.
func scaleOps(dir, file string, jobs int) []scaleOp {
	add := scaleCommand(20, "", "enqueue", "mail", "send", "--data", `{"user":1234567,"action":"welcome mail"}`)
	bulk := scaleCommand(3, "", "enqueue", "--ndjson", file)
	bulk.what = "enqueue --ndjson, 10,000 jobs"
	work := scaleCommand(3, "", "work", "--max-jobs", strconv.Itoa(jobs))
	limited := work
	limited.config = "limit"
	at := func(grows string, args ...string) scaleOp {
		o := scaleCommand(3, grows, args...)
		o.args = func(l *large, _ int) []string {
			all := slices.Clone(args)
			return append(all, "--at", l.busy.Format(time.RFC3339), "--again")
		}
		return o
	}
	return []scaleOp{
		work, limited, scaleCommand(10, "", "work", "--type", "idle"),
		add, onJob(10, "", 4, "enqueue", "mail", "send", "--key", "KEY"), bulk,
		scaleCommand(3, countsQueue, "status"),
		scaleCommand(5, "", "jobs"), scaleCommand(3, sortsState, "jobs", "--state", "due"), scaleCommand(3, sortsState, "jobs", "--state", "scheduled"),
		scaleCommand(5, "", "jobs", "--state", "failed"), scaleCommand(3, sortsState, "jobs", "--state", "finished"), scaleCommand(5, "", "jobs", "--state", "running"),
		scaleCommand(5, "", "jobs", "--type", "send", "--since", "30d"), scaleCommand(3, searchesTable, "jobs", "--error", "nobody has this"),
		onJob(5, "", 1, "jobs", "--type", "send", "--key", "KEY"), onJob(3, searchesTable, 1, "jobs", "--key", "KEY"),
		onJob(5, "", 1, "show", "mail", "ID"), onJob(5, "", 5, "why", "mail", "ID"), onJob(3, "it counts the due jobs before it", 4, "why", "mail", "ID"),
		scaleCommand(5, "", "activity"), onJob(5, "", 1, "activity", "--queue", "mail", "--job", "ID"), scaleCommand(5, "", "activity", "--since", "3h"),
		scaleCommand(5, searchesTable+", for 3 s at most", "activity", "--state", "failed"), onJob(3, searchesTable+", for 3 s at most", 1, "activity", "--key", "KEY"),
		scaleCommand(3, "it reads the newest million jobs", "failures"), scaleCommand(3, "it reads the newest million jobs", "failures", "--since", "1d"),
		onJob(5, "", 1, "complete", "mail", "send", "KEY"), onJob(3, "", 0, "retry", "mail", "--again", "ID"), onJob(5, "", 5, "cancel", "mail", "ID"),
		onJob(5, "", 65, "reschedule", "mail", "ID", "--in", "50d"),
		at("", "monitor"), scaleCommand(3, countsQueue, "monitor"), scaleCommand(3, "", "monitor", "--check"), scaleCommand(3, countsQueue, "monitor", "--json"),
		scaleCommand(3, countsQueue, "monitor", "--report", filepath.Join(dir, "report.html")),
		scaleCommand(1, readsJobs, "purge", "--dry-run"), scaleCommand(1, readsJobs, "purge"), scaleCommand(3, readsJobs, "purge"),
	}
}

// scale builds two instances, measures commands in both, and compares.
func scale(t *testing.T, driver, source string, size sizes) {
	dir := t.TempDir()
	programs := buildScale(t, dir)
	small := filepath.Join(dir, "small.db")
	if driver == "mysql" {
		cfg := dbtest.Must(mysql.ParseDSN(source))(t)
		cfg.DBName += "_small"
		small = cfg.FormatDSN()
	}
	pair := [2]*large{}
	for i, of := range []struct {
		source string
		due    int
	}{{source, size.large}, {small, size.small}} {
		began := time.Now()
		if i == 1 && driver == "mysql" {
			pair[0].exec("CREATE DATABASE " + strings.SplitN(small[strings.LastIndex(small, "/")+1:], "?", 2)[0] + " CHARACTER SET utf8mb4")
			t.Cleanup(func() { pair[0].db.Close() })
		}
		pair[i] = newLarge(t, driver, of.source, of.due, programs)
		built := time.Since(began)
		pair[i].hipq("work", "monitor", "--missing", "--since", "20d")
		taken := time.Since(began) - built
		pair[i].content()
		scaleReport(t, map[string]any{
			"test": "scale", "engine": driver, "what": "build", "due": of.due, "jobs": pair[i].last - pair[i].first + 1,
			"seconds": built.Seconds(), "monitor_missing_seconds": taken.Seconds(),
		})
	}
	slices.Reverse(pair[:])

	file := filepath.Join(dir, "jobs.ndjson")
	var lines strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&lines, `{"queue":"mail","job_type":"send","job_data":{"user":%d,"action":"welcome mail"}}`+"\n", i)
	}
	dbtest.OK(t, os.WriteFile(file, []byte(lines.String()), 0o600))
	all := scaleOps(dir, file, min(size.small/10, 1000))
	for _, o := range all {
		r := o.measure(t, pair)
		scaleReport(t, r)
		if r.Bad {
			t.Errorf("%s: hipq %s: ratio %.1f: %v ms with %v jobs due", driver, o.what, r.Ratio, r.MS, r.Due)
			pair[1].slowest(o)
		}
	}
	comparePlans(t, pair, all)
	for _, l := range pair {
		l.bytes()
	}
	lockTimes(t, pair[1])
}

// measure runs the command in both instances in turn, so that whatever else the machine does disturbs both.
func (o scaleOp) measure(t *testing.T, pair [2]*large) scaleResult {
	t.Helper()
	r := scaleResult{Test: "scale", Engine: pair[0].driver, What: strings.TrimSuffix(o.what+", config "+o.config, ", config work"), Grows: o.grows}
	for i := range o.times {
		for side, l := range pair {
			args := o.args(l, i)
			server, rows := l.serverTime(), l.rowsRead()
			began := time.Now()
			_, state := l.command("traced", o.config, []string{traceVar + "=" + l.trace(o)}, args...)
			ms := float64(time.Since(began).Microseconds()) / 1000
			r.Due[side] = l.due
			if i == 0 || ms < r.MS[side] {
				r.MS[side] = ms
			}
			cpu := float64((state.UserTime() + state.SystemTime()).Microseconds()) / 1000
			if i == 0 || cpu < r.CPU[side] {
				r.CPU[side] = cpu
			}
			if server >= 0 {
				if r.Server == nil {
					r.Server = new([2]float64)
				}
				r.Server[side] += (l.serverTime() - server) / float64(o.times)
			}
			if rows >= 0 {
				if r.Rows == nil {
					r.Rows = new([2]int64)
				}
				if n := l.rowsRead() - rows; i == 0 || n < r.Rows[side] {
					r.Rows[side] = n
				}
			}
		}
	}
	r.Ratio = math.Round(100*r.MS[1]/r.MS[0]) / 100
	// On a busy machine a command may take longer without doing more; processor time shows that, where it is known.
	// Short commands vary by some milliseconds, and reads by the pages' fill.
	over := func(small, large float64) bool { return large > mostGrowth*small+20 }
	slower := over(r.MS[0], r.MS[1])
	if r.Server != nil {
		slower = slower && over(r.CPU[0]+r.Server[0], r.CPU[1]+r.Server[1])
	} else if r.Engine == "sqlite" {
		slower = slower && over(r.CPU[0], r.CPU[1])
	}
	more := r.Rows != nil && r.Rows[1] > mostGrowth*r.Rows[0]+1000
	r.Bad = o.grows == "" && (slower || more)
	return r
}

// rowsRead is how many rows and index entries the server has read for all sessions; -1: unknown.
func (l *large) rowsRead() (sum int64) {
	if l.driver != "mysql" {
		return -1
	}
	rows, err := l.db.QueryContext(l.t.Context(), "SHOW GLOBAL STATUS LIKE 'Handler_read%'")
	dbtest.OK(l.t, err)
	defer rows.Close()
	for rows.Next() {
		var name string
		var n int64
		dbtest.OK(l.t, rows.Scan(&name, &n))
		sum += n
	}
	dbtest.OK(l.t, rows.Err())
	return sum
}

// serverTime is the processor time of a server on this host in milliseconds; -1: unknown.
func (l *large) serverTime() float64 {
	if l.driver != "mysql" {
		return -1
	}
	pid, _ := os.ReadFile(l.column("SELECT @@pid_file")[0])
	stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	if err != nil || len(pid) == 0 || len(fields) < 13 {
		return -1
	}
	const tick = 10 // Linux counts in hundredths of a second
	return tick * float64(dbtest.Must(strconv.Atoi(fields[11]))(l.t)+dbtest.Must(strconv.Atoi(fields[12]))(l.t))
}

// bytes reports the bytes of a table for each of its rows, indexes included.
func (l *large) bytes() {
	l.t.Helper()
	per := map[string]any{"test": "scale", "engine": l.driver, "what": "bytes", "due": l.due}
	for _, table := range []string{"mail", "activity"} {
		table = "scale_" + table
		query := "SELECT SUM(pgsize) FROM dbstat WHERE aggregate = 1 AND name IN (SELECT name FROM sqlite_schema WHERE tbl_name = ?)"
		if l.driver == "mysql" {
			l.exec("ANALYZE TABLE " + table)
			query = "SELECT data_length + index_length FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?"
		}
		size, rows := l.number(query, table), l.number("SELECT COUNT(*) FROM "+table)
		per[table] = map[string]any{"bytes": size, "rows": rows, "bytes_a_row": float64(size) / float64(rows)}
	}
	scaleReport(l.t, per)
}
