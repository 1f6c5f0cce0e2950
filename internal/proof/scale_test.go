package proof

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/monitor"
)

var dueFlag = flag.Int("proof.due", 250_000, "turns of scale: how many jobs are due in the long queue; 10,000 are in the short one")

// bytesPerDue is how much space the long queue needs on disk for each due job: for 11.5 jobs, 32.5 entries and some of a log.
const bytesPerDue = 24_000

// sizes are how many jobs are due in the instances to compare.
type sizes struct{ small, large int }

// longQueue is a round of scale, which takes a whole turn.
func longQueue(r *round) {
	if !r.t.Run("scale", func(t *testing.T) { scale(t, r.turn.engine, sizes{10_000, *dueFlag}, &r.notes) }) {
		r.over["commands beside a long queue cost more or failed: the test's output has them"] = true
	}
}

// measured are the commands to measure: how often, the command, and why its cost may grow with the queue; without a reason
// it may not. ID1 to ID5 stand for the id of a job by its sample (see sampleOf), KEY1 to KEY5 for its key, DIR for a folder,
// HOUR for the hour to count, MANY for a twentieth of the short queue. None spoils another's work.
const measured = `
3 work --max-jobs MANY
3 work --max-jobs MANY --config limit
9 work --type idle
20 enqueue mail send --data {"user":1234567,"action":"mail"}
9 enqueue mail send --key KEY4
3 enqueue --ndjson DIR/jobs
3 status: counts up to 10,000 jobs of each status
3 status --exact: counts all jobs
3 doctor: when measured, it still read SQLite files below 256 MiB for the sizes of tables
5 jobs
3 jobs --state due: may sort up to 20,000 ids
3 jobs --state scheduled: may sort up to 20,000 ids
3 jobs --state finished: passes the newer jobs that are not over
3 jobs --state finished --limit 5000: passes the newer jobs that are not over
5 jobs --state failed: may sort up to 20,000 ids
5 jobs --state running
5 jobs --type send --since 30d
5 jobs --type idle
5 jobs --until 13d
3 jobs --error nobody: reads the index of the jobs that are not over
5 jobs --type send --key KEY1
5 jobs --key KEY1
5 find ID1
5 find KEY1
5 show mail ID1
5 why mail ID5
3 why mail ID4: counts up to 20,000 due jobs before it
5 activity
5 activity --queue mail --job ID1
5 activity --since 3h
3 activity --state failed: searches for at most 3 s
5 activity --key KEY1
3 failures: reads the newest million failed jobs
3 failures --since 1d: reads the newest million failed jobs
5 complete mail send KEY1
3 retry mail --again ID3
5 cancel mail ID5
5 reschedule mail ID4 --in 50d
3 monitor --again --at HOUR
3 monitor: counts the backlog
3 monitor --check: counts up to 100,000 due jobs
3 monitor --json: counts the backlog
3 monitor --report DIR/report.html: counts the backlog
1 purge --dry-run: reads old jobs and activity
1 purge: reads old jobs and activity
`

// scaleOp is a line of measured.
type scaleOp struct {
	times       int
	what, grows string
}

func scaleOps() (all []scaleOp) {
	for line := range strings.Lines(measured[1:]) {
		number, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		what, grows, _ := strings.Cut(rest, ": ")
		times, _ := strconv.Atoi(number)
		all = append(all, scaleOp{times, what, grows})
	}
	return all
}

// mostGrowth is how much more a command may cost beside the long queue, unless its cost may grow.
const mostGrowth = 2

// cost is what a command took, by costNames: milliseconds, those of processor time of hipq and of a server on this host, and
// the rows and index entries that a server read, or the pages of SQLite's file. What is unknown is 0.
type cost [4]float64

var costNames = [...]string{"ms", "cpu_ms", "server_ms", "rows"}

// tell adds a result to the test's output and to the notes of the turn.
func (l *large) tell(line map[string]any) {
	l.t.Helper()
	line["engine"] = l.engine
	text := string(dbtest.Must(json.Marshal(line))(l.t))
	l.t.Log(text)
	*l.notes = append(*l.notes, text)
}

// scale builds two instances, and compares what commands cost in them.
func scale(t *testing.T, engine string, size sizes, notes *[]string) {
	driver, source, dir := turn{engine: engine}.driver(), "", t.TempDir()
	if driver == "sqlite" {
		source = dbtest.SQLite(t)
	} else {
		source = dbtest.OwnMySQL(t, "--innodb-buffer-pool-size=4G", "--loose-innodb-log-file-size=1G")
	}
	disk := dbtest.Must(monitor.DiskOf(dir))(t)
	dbtest.Require(t, disk.Free > int64(size.large*bytesPerDue), "the long queue needs %d GB, and %s", size.large*bytesPerDue>>30, disk)
	programs, pair := buildScale(t, dir), [2]*large{}
	for _, side := range []int{1, 0} {
		due := size.large
		if side == 0 {
			due = size.small
			source += "_small"
			if driver == "mysql" {
				cfg := dbtest.Must(mysql.ParseDSN(strings.TrimSuffix(source, "_small")))(t)
				cfg.DBName += "_small"
				source = cfg.FormatDSN()
				pair[1].exec("CREATE DATABASE " + cfg.DBName + " CHARACTER SET utf8mb4")
				t.Cleanup(func() { _, _ = pair[1].db.Exec("DROP DATABASE " + cfg.DBName) })
			}
		}
		began := time.Now()
		pair[side] = newLarge(t, driver, source, due, programs)
		pair[side].engine, pair[side].notes = engine, notes
		pair[side].tell(map[string]any{"what": "build", "due": due, "seconds": int(time.Since(began).Seconds())})
		pair[side].hipq("work", "monitor", "--missing", "--since", "20d")
		pair[side].content()
	}
	job := `{"queue":"mail","job_type":"send","job_data":{"user":1234567,"action":"welcome mail"}}` + "\n"
	dbtest.OK(t, os.WriteFile(filepath.Join(dir, "jobs"), []byte(strings.Repeat(job, 10_000)), 0o600))
	for n, op := range scaleOps() {
		what := strings.ReplaceAll(op.what, "MANY", strconv.Itoa(size.small/20))
		var least [2]cost
		for i := range op.times {
			for side, l := range pair { // in turn, so that whatever else the machine does disturbs both
				for k, c := range l.measure(filepath.Join(dir, fmt.Sprintf("trace%d.%d", side, n)), what, dir, 10*n+i) {
					if i == 0 || c < least[side][k] {
						least[side][k] = c
					}
				}
			}
		}
		small, big := least[0], least[1]
		line := map[string]any{"what": what, "due": [2]int{size.small, size.large}}
		for k, name := range costNames {
			line[name] = [2]float64{small[k], big[k]}
		}
		pair[1].tell(line)
		// On a busy machine commands take longer without doing more. Short ones vary by some milliseconds.
		over := func(a, b float64) bool { return b > mostGrowth*a+30 }
		some := map[string]float64{"sqlite": 50, "mysql": 1000}[driver] // a page has many rows
		if op.grows == "" && (over(small[0], big[0]) && over(small[1]+small[2], big[1]+big[2]) || big[3] > mostGrowth*small[3]+some) {
			t.Errorf("%s: hipq %s grows with the queue: %v beside %d due jobs, %v beside %d", driver, what, small, size.small, big, size.large)
			s := slices.MaxFunc(slices.Collect(maps.Values(pair[1].executed(filepath.Join(dir, fmt.Sprint("trace1.", n))))), func(a, b executed) int { return int(a.MS - b.MS) })
			t.Logf("its slowest statement took %.0f ms: %.2000s\n%v\nplan: %s", s.MS, s.Query, s.Args, pair[1].plan(s))
		}
	}
	comparePlans(t, pair, [2]string{filepath.Join(dir, "trace0.*"), filepath.Join(dir, "trace1.*")})
	for _, l := range pair {
		l.bytes()
	}
	pair[1].holdUps("another order of the queue", "hipq", "work")
	pair[1].holdUps("next layout of the tables", "next", "order")
}

// jobIn matches what stands for a job.
var jobIn = regexp.MustCompile(`(ID|KEY)(\d)`)

// measure runs a command on the n-th job.
func (l *large) measure(trace, what, dir string, n int) cost {
	what = jobIn.ReplaceAllStringFunc(what, func(of string) string {
		sample := int(of[len(of)-1] - '0')
		id := (l.first+l.last)/46*23 + sampleAt[sample] + 23*n
		if sample == 3 {
			id = l.last / 230 * 230
		}
		if strings.HasPrefix(of, "KEY") {
			return column[string](l, "SELECT job_key FROM scale_mail WHERE id = ?", id)[0]
		}
		return strconv.Itoa(id)
	})
	args, config := strings.Fields(strings.NewReplacer("DIR", dir, "HOUR", l.busy.Format(time.RFC3339)).Replace(what)), "work"
	if last := len(args) - 1; last > 0 && args[last-1] == "--config" {
		args, config = args[:last-1], args[last]
	}
	if config != "work" { // workers refuse limits that init hasn't registered
		l.hipq(config, "init")
		defer l.hipq("work", "init")
	}
	server, rows := l.server()
	began := time.Now()
	_, state := l.command("hipq", config, trace, args...)
	took := time.Since(began)
	serverAfter, rowsAfter := l.server()
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	if l.driver == "sqlite" {
		rowsAfter = l.pages(trace)
	}
	return cost{ms(took), ms(state.UserTime() + state.SystemTime()), serverAfter - server, rowsAfter - rows}
}

// server returns the milliseconds of processor time of a server on this host, and the rows and index entries that it read.
func (l *large) server() (cpu, rows float64) {
	if l.driver != "mysql" {
		return 0, 0
	}
	const status = "SELECT SUM(variable_value) FROM %s.global_status WHERE variable_name LIKE 'Handler_read%%'"
	if l.db.GetContext(l.t.Context(), &rows, fmt.Sprintf(status, "information_schema")) != nil { // MySQL
		rows = column[float64](l, fmt.Sprintf(status, "performance_schema"))[0]
	}
	pid, _ := os.ReadFile(column[string](l, "SELECT @@pid_file")[0])
	stat, _ := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
	_, after, _ := strings.Cut(string(stat), ") ")
	if fields := strings.Fields(after); len(pid) > 0 && len(fields) > 13 {
		for _, ticks := range fields[11:13] { // hundredths of a second
			cpu += 10 * dbtest.Must(strconv.ParseFloat(ticks, 64))(l.t)
		}
	}
	return cpu, rows
}

// bytes reports the rows and bytes of the tables, indexes included.
func (l *large) bytes() {
	l.t.Helper()
	line, total := map[string]any{"what": "bytes", "due": l.due}, 0.0
	for _, table := range []string{"scale_mail", "scale_activity"} {
		query := "SELECT SUM(pgsize) FROM dbstat WHERE aggregate = 1 AND name IN (SELECT name FROM sqlite_schema WHERE tbl_name = ?)"
		if l.driver == "mysql" {
			l.exec("ANALYZE TABLE " + table)
			query = "SELECT data_length + index_length FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?"
		}
		size, rows := column[float64](l, query, table)[0], column[float64](l, "SELECT COUNT(*) FROM "+table)[0]
		line[table+"_bytes"], line[table+"_rows"] = math.Round(size/rows), rows
		total += size
	}
	line["total_bytes"] = total
	l.tell(line)
}

// holdUps measures for how long hipq init, of this program and to the config "order", holds up an application that inserts
// jobs, and commands with the config before.
func (l *large) holdUps(what, program, before string) {
	l.t.Helper()
	line := map[string]any{"what": what, "due": l.due}
	var all sync.WaitGroup
	var lines sync.Mutex
	var over atomic.Bool
	repeat := func(name string, do func() (exit int)) {
		all.Go(func() {
			exits, longest := map[int]int{}, time.Duration(0)
			for ; !over.Load(); time.Sleep(5 * time.Millisecond) {
				began := time.Now()
				exits[do()]++
				longest = max(longest, time.Since(began))
			}
			lines.Lock()
			defer lines.Unlock()
			line[name+"_exits"], line[name+"_longest_ms"] = exits, longest.Milliseconds()
		})
	}
	hipq := func(args ...string) func() int {
		return func() int {
			c := exec.Command(l.programs["hipq"], append(args, "--config", l.configs[before])...)
			c.Env = append(os.Environ(), "HIPQ_MAIL=off")
			_ = c.Run()
			return c.ProcessState.ExitCode()
		}
	}
	repeat("enqueue", hipq("enqueue", "mail", "send"))
	repeat("work", hipq("work", "--max-jobs", "1"))
	repeat("insert", func() int {
		_, err := l.db.Exec("INSERT INTO scale_mail (job_type, job_data) VALUES ('idle', 'x')")
		dbtest.Ensure(l.t, err == nil, "an INSERT during %s: %v", what, err)
		return 0
	})
	time.Sleep(time.Second)
	began := time.Now()
	l.command(program, "order", "", "init")
	line["init_ms"] = time.Since(began).Milliseconds()
	time.Sleep(time.Second)
	over.Store(true)
	all.Wait()
	l.tell(line)
}
