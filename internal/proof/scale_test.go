package proof

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
)

var (
	scaleDue   = flag.Int("scale.due", 2_000, "TestScale: how many jobs are due in the long queue; as many are scheduled, four times as many final")
	scaleSmall = flag.Int("scale.small", 1_000, "TestScale: the same for the short queue")
)

// sizes are how many jobs are due in the instances to compare.
type sizes struct{ small, large int }

// TestScale compares what commands cost beside a long queue and a short one.
func TestScale(t *testing.T) {
	size := sizes{*scaleSmall, *scaleDue}
	t.Run("sqlite", func(t *testing.T) { scale(t, "sqlite", dbtest.SQLite(t), size) })
	t.Run("mysql", func(t *testing.T) {
		scale(t, "mysql", dbtest.OwnMySQL(t, "--innodb-buffer-pool-size=1G", "--loose-innodb-log-file-size=1G"), size)
	})
}

// scaleOps are the commands to measure: how often, the command, and why its cost may grow with the queue; without a reason
// it may not. ID1 to ID5 stand for the id of a job by its sample (see sampleOf), KEY1 to KEY5 for its key, DIR for a folder,
// HOUR for the hour to count. None spoils another's work.
const scaleOps = `
3 work --max-jobs 1000
3 work --max-jobs 1000 --config limit
9 work --type idle
20 enqueue mail send --data {"user":1234567,"action":"mail"}
9 enqueue mail send --key KEY4
3 enqueue --ndjson DIR/jobs
3 status: counts all jobs
5 jobs
3 jobs --state due: may sort the ids of that state
3 jobs --state scheduled: may sort the ids of that state
3 jobs --state finished: may sort the ids of that state
5 jobs --state failed
5 jobs --state running
5 jobs --type send --since 30d
3 jobs --error nobody: searches all jobs
5 jobs --type send --key KEY1
3 jobs --key KEY1: searches all jobs
5 show mail ID1
5 why mail ID5
3 why mail ID4: counts the due jobs before it
5 activity
5 activity --queue mail --job ID1
5 activity --since 3h
3 activity --state failed: searches for 3 s
3 activity --key KEY1: searches for 3 s
3 failures: reads the failed ones of a million jobs
3 failures --since 1d: reads the failed ones of a million jobs
5 complete mail send KEY1
3 retry mail --again ID3
5 cancel mail ID5
5 reschedule mail ID4 --in 50d
3 monitor --again --at HOUR
3 monitor: counts the backlog
3 monitor --check: counts up to 100,000 due jobs
3 monitor --json: counts the backlog
3 monitor --report DIR/report.html: counts the backlog
1 purge --dry-run: reads all jobs
1 purge: reads all jobs
`

// mostGrowth is how much more a command may cost beside the long queue, unless its cost may grow.
const mostGrowth = 2

// cost is what a command took: milliseconds, of hipq's and of the server's processor time, and the rows and index entries
// that the server read. 0: unknown.
type cost struct{ ms, cpu, server, rows float64 }

// scaleLine adds a result to the test's output and to the ledger.
func scaleLine(t *testing.T, line map[string]any) {
	t.Helper()
	line["scale"] = true
	t.Logf("%s", dbtest.Must(json.Marshal(line))(t))
	record(t, line)
}

// scale builds two instances, and compares what commands cost in them.
func scale(t *testing.T, driver, source string, size sizes) {
	dir := t.TempDir()
	programs := buildScale(t, dir)
	pair, traces, sources := [2]*large{}, [2]string{filepath.Join(dir, "trace0"), filepath.Join(dir, "trace1")}, [2]string{filepath.Join(dir, "small.db"), source}
	for _, side := range []int{1, 0} {
		if side == 0 && driver == "mysql" {
			cfg := dbtest.Must(mysql.ParseDSN(source))(t)
			cfg.DBName += "_small"
			sources[0] = cfg.FormatDSN()
			pair[1].exec("CREATE DATABASE " + cfg.DBName + " CHARACTER SET utf8mb4")
			t.Cleanup(func() { _, _ = pair[1].db.Exec("DROP DATABASE " + cfg.DBName) })
		}
		began := time.Now()
		l := newLarge(t, driver, sources[side], [2]int{size.small, size.large}[side], programs)
		built := time.Since(began)
		l.hipq("work", "monitor", "--missing", "--since", "20d")
		pair[side] = l
		l.content()
		scaleLine(t, map[string]any{"engine": driver, "what": "build", "due": l.due, "seconds": int(built.Seconds())})
	}
	job := `{"queue":"mail","job_type":"send","job_data":{"user":1234567,"action":"welcome mail"}}` + "\n"
	dbtest.OK(t, os.WriteFile(filepath.Join(dir, "jobs"), []byte(strings.Repeat(job, 10_000)), 0o600))
	for text := range strings.Lines(strings.TrimSpace(scaleOps)) {
		text, grows, _ := strings.Cut(strings.TrimSpace(text), ": ")
		words := strings.Fields(strings.NewReplacer("DIR", dir, "HOUR", pair[0].busy.Format(time.RFC3339)).Replace(text))
		times := dbtest.Must(strconv.Atoi(words[0]))(t)
		var least [2]cost
		for i := range times {
			for side, l := range pair { // in turn, so that whatever else the machine does disturbs both
				least[side] = least[side].or(l.measure(traces[side], i, words[1:]))
			}
		}
		what, small, big := strings.Join(strings.Fields(text)[1:], " "), least[0], least[1]
		line := map[string]any{"engine": driver, "what": what, "due": [2]int{size.small, size.large}, "grows": grows, "ratio": math.Round(100*big.ms/small.ms) / 100}
		for name, of := range map[string]func(cost) float64{
			"ms": func(c cost) float64 { return c.ms }, "cpu_ms": func(c cost) float64 { return c.cpu },
			"server_ms": func(c cost) float64 { return c.server }, "rows": func(c cost) float64 { return c.rows },
		} {
			line[name] = [2]float64{of(small), of(big)}
		}
		scaleLine(t, line)
		// On a busy machine commands take longer without doing more. Short ones vary by some milliseconds.
		over := func(a, b float64) bool { return b > mostGrowth*a+30 }
		bad := over(small.ms, big.ms) && over(small.cpu+small.server, big.cpu+big.server) || big.rows > mostGrowth*small.rows+1000
		if bad && grows == "" {
			t.Errorf("%s: hipq %s grows with the queue: %+v beside %d due jobs, %+v beside %d", driver, what, small, size.small, big, size.large)
			pair[1].slowest(traces[1] + ".last")
		}
	}
	comparePlans(t, pair, traces)
	for _, l := range pair {
		l.bytes()
	}
	pair[1].holdUps("init, of another order", "hipq", "work")
	pair[1].holdUps("init, of the next layout", "next", "order")
}

// or returns the lesser of each cost. An unknown one is 0.
func (c cost) or(o cost) cost {
	if c.ms == 0 {
		return o
	}
	return cost{min(c.ms, o.ms), min(c.cpu, o.cpu), min(c.server, o.server), min(c.rows, o.rows)}
}

// measure runs a command for the i-th time.
func (l *large) measure(trace string, i int, words []string) cost {
	config, args, last := "work", slices.Clone(words), trace+".last"
	if n := len(args); args[n-2:][0] == "--config" {
		config, args = args[n-1], args[:n-2]
	}
	for j, a := range args {
		for sample, remainder := range []int{0, 1, 6, 0, 4, 5} {
			id := (l.first+l.last)/12*6 + remainder + 6*i
			if sample == 3 {
				id = max((l.first+l.last)/12000-i, 2) * 6000
			}
			switch a {
			case fmt.Sprint("ID", sample):
				args[j] = strconv.Itoa(id + 600*(len(words)-3)) // another job for reschedule than for cancel
			case fmt.Sprint("KEY", sample):
				args[j] = l.column("SELECT job_key AS c FROM scale_mail WHERE id = ?", id)[0]
			}
		}
	}
	server, rows := l.server()
	_ = os.Remove(last)
	began := time.Now()
	_, state := l.command("hipq", config, last, args...)
	took := time.Since(began)
	serverAfter, rowsAfter := l.server()
	f := dbtest.Must(os.OpenFile(trace, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600))(l.t)
	_, err := f.Write(dbtest.Must(os.ReadFile(last))(l.t))
	dbtest.OK(l.t, errors.Join(err, f.Close()))
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return cost{ms(took), ms(state.UserTime() + state.SystemTime()), serverAfter - server, rowsAfter - rows}
}

// server returns the processor time of a server on this host, in milliseconds, and how many rows and index entries it has
// read; 0 where they are unknown.
func (l *large) server() (cpu, rows float64) {
	if l.driver != "mysql" {
		return 0, 0
	}
	for _, row := range dbtest.Must(l.rows("SHOW GLOBAL STATUS LIKE 'Handler_read%'"))(l.t) {
		rows += dbtest.Must(strconv.ParseFloat(row["Value"], 64))(l.t)
	}
	pid, _ := os.ReadFile(l.column("SELECT @@pid_file AS c")[0])
	stat, _ := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
	_, after, _ := strings.Cut(string(stat), ") ")
	if fields := strings.Fields(after); len(pid) > 0 && len(fields) > 13 {
		for _, ticks := range fields[11:13] { // hundredths of a second
			cpu += 10 * dbtest.Must(strconv.ParseFloat(ticks, 64))(l.t)
		}
	}
	return cpu, rows
}

// slowest logs the slowest statement of a command, and its plan.
func (l *large) slowest(trace string) {
	l.t.Helper()
	s := slices.MaxFunc(slices.Collect(maps.Values(l.executed(trace))), func(a, b executed) int { return int(1000 * (a.MS - b.MS)) })
	plan, _ := l.plan(s)
	l.t.Logf("its slowest statement took %.1f ms: %.2000s\n%v\nplan: %s", s.MS, s.Query, s.Args, plan)
}

// bytes reports the bytes of the tables for each row, indexes included.
func (l *large) bytes() {
	l.t.Helper()
	line := map[string]any{"engine": l.driver, "what": "bytes", "due": l.due}
	for _, table := range []string{"scale_mail", "scale_activity"} {
		query := "SELECT SUM(pgsize) AS c FROM dbstat WHERE aggregate = 1 AND name IN (SELECT name FROM sqlite_schema WHERE tbl_name = ?)"
		if l.driver == "mysql" {
			l.exec("ANALYZE TABLE " + table)
			query = "SELECT data_length + index_length AS c FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?"
		}
		size, rows := l.number(query, table), l.number("SELECT COUNT(*) AS c FROM "+table)
		line[table], line[table+"_rows"] = math.Round(float64(size)/float64(rows)), rows
	}
	scaleLine(l.t, line)
}

// holdUps measures for how long hipq init, of this program and to the config "order", holds up an application that inserts
// jobs, hipq enqueue, and a worker with the config before.
func (l *large) holdUps(what, program, before string) {
	l.t.Helper()
	worker := exec.Command(l.programs["hipq"], "work", "--linger", "--run-for", "1h", "--config", l.configs[before])
	worker.Env = append(os.Environ(), "HIPQ_MAIL=off")
	dbtest.OK(l.t, worker.Start())
	time.Sleep(2 * time.Second) // until jobs run
	var over atomic.Bool
	longest := func(do func()) <-chan time.Duration {
		result := make(chan time.Duration, 1)
		go func() {
			var most time.Duration
			for !over.Load() {
				began := time.Now()
				do()
				most = max(most, time.Since(began))
				time.Sleep(5 * time.Millisecond)
			}
			result <- most
		}()
		return result
	}
	exits := map[int]int{}
	insert := longest(func() {
		if _, err := l.db.Exec("INSERT INTO scale_mail (job_type, job_data) VALUES ('idle', 'x')"); err != nil {
			l.t.Errorf("an application's INSERT during %s: %v", what, err)
		}
	})
	enqueue := longest(func() {
		c := exec.Command(l.programs["hipq"], "enqueue", "mail", "send", "--config", l.configs[before])
		_ = c.Run()
		exits[c.ProcessState.ExitCode()]++
	})
	time.Sleep(time.Second)
	const layout = "2006-01-02 15:04:05.000000"
	began := time.Now()
	l.command(program, "order", "", "init")
	took := time.Since(began)
	time.Sleep(time.Second)
	over.Store(true)
	line := map[string]any{"engine": l.driver, "what": what, "due": l.due, "init_ms": took.Milliseconds()}
	inserted := <-insert
	line["longest_insert_ms"], line["longest_enqueue_ms"], line["enqueue_exits"] = inserted.Milliseconds(), (<-enqueue).Milliseconds(), exits
	_ = worker.Process.Signal(syscall.SIGTERM)
	_ = worker.Wait()
	last, silent := began, time.Duration(0)
	query := map[string]string{"sqlite": "SELECT CAST(at AS BLOB) AS c", "mysql": "SELECT CAST(at AS CHAR) AS c"}[l.driver]
	for _, text := range l.column(query+" FROM scale_activity WHERE at >= ? AND at <= ? AND state = 'finished' ORDER BY at", began.UTC().Format(layout), began.Add(took).UTC().Format(layout)) {
		at := dbtest.Must(time.Parse(layout, text))(l.t)
		last, silent = at, max(silent, at.Sub(last))
	}
	line["longest_without_a_result_ms"], line["worker_exit"] = max(silent, began.Add(took).Sub(last)).Milliseconds(), worker.ProcessState.ExitCode()
	scaleLine(l.t, line)
}
