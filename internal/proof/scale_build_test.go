package proof

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
)

// large is an instance with a large queue, built by SQL from jobs that hipq itself ran.
type large struct {
	t              *testing.T
	driver, source string
	db             *sql.DB
	// due is how many jobs are due. As many are scheduled; four times as many are final.
	due int
	// programs and configs by name
	programs, configs map[string]string
	// busy is the hour that the monitor counts: it has the same activity in instances of each size.
	busy time.Time
	// first and last are the ids of the jobs that were built.
	first, last int
	// ill is what hipq doctor found before there were jobs: it may be the server's settings.
	ill []string
}

// The jobs that hipq runs as templates of all others, by id.
const (
	sampleTwice = 1 + iota // succeeded at the second attempt
	sampleOnce
	sampleFailed
	sampleDue
	sampleScheduled
)

// kindOf is the template of a job, as an expression: of six jobs four are final, one is due and one scheduled. With their
// 3 to 5 entries each job that is due comes with 20 entries of activity.
func sampleOf(id string) string {
	return fmt.Sprintf("CASE WHEN %[1]s %% 6000 = 0 THEN %[2]d WHEN %[1]s %% 6 = 0 THEN %[3]d WHEN %[1]s %% 6 < 4 THEN %[4]d WHEN %[1]s %% 6 = 4 THEN %[5]d ELSE %[6]d END",
		id, sampleFailed, sampleOnce, sampleTwice, sampleDue, sampleScheduled)
}

// Zones of the past. Most jobs are spread over bulkHours from bulkStart on; zoneJobs each are in an hour that purge
// deletes and in the one that the monitor counts, so that those have the same work in an instance of any size.
const (
	bulkStart = 13*24 + 18
	bulkHours = bulkStart - 12
	oldStart  = 15 * 24
	busyStart = 2
	zoneJobs  = 1500
)

const scaleConfig = `name: scale
database: %s
worker: {concurrency: 8}
activity: {keep: 14d}
queues:
  - name: mail
    throttle_limit: %d
    order: %s
    job_types:
      - name: send
        retry: {attempts: 2, delay: 1s, backoff: fixed, jitter: 0}
        handler: %s
      - {name: idle, handler: {exec: ["true"]}}
`

// newLarge makes an instance, and fills it.
func newLarge(t *testing.T, driver, source string, due int, programs map[string]string) *large {
	t.Helper()
	l := &large{t: t, driver: driver, source: source, due: due, programs: programs, configs: map[string]string{}}
	dir := t.TempDir()
	echo := fmt.Sprintf("{stream: [%q]}", programs["echo"])
	for name, c := range map[string]struct {
		limit          int
		order, handler string
	}{
		"make":  {0, "priority", `{exec: [sh, -c, 'case $HIPQ_JOB_KEY in failed) echo no such user >&2; exit 65;; twice) test $HIPQ_ATTEMPT -gt 1;; esac']}`},
		"work":  {0, "priority", echo},
		"order": {0, "schedule", echo},
		// below the limit of a worker's own slots
		"limit": {6, "priority", echo},
	} {
		l.configs[name] = filepath.Join(dir, name+".yaml")
		dbtest.OK(t, os.WriteFile(l.configs[name], fmt.Appendf(nil, scaleConfig, dbtest.Section(driver, source), c.limit, c.order, c.handler), 0o600))
	}
	l.hipq("make", "init")
	dsn := "file:" + source + "?_pragma=busy_timeout(60000)&_pragma=synchronous(off)&_pragma=cache_size(-400000)"
	if driver == "mysql" {
		cfg := dbtest.Must(mysql.ParseDSN(source))(t)
		cfg.InterpolateParams, cfg.Params = true, map[string]string{"time_zone": "'+00:00'"}
		dsn = cfg.FormatDSN()
	}
	l.ill = l.doctor()
	l.db = dbtest.Must(sql.Open(driver, dsn))(t)
	t.Cleanup(func() { _ = l.db.Close() })
	l.fill()
	return l
}

// hipq runs a command with a config, and returns its standard output and what it used.
func (l *large) hipq(config string, args ...string) string {
	out, _ := l.command("hipq", config, nil, args...)
	return out
}

func (l *large) command(program, config string, env []string, args ...string) (string, *os.ProcessState) {
	l.t.Helper()
	c := exec.Command(l.programs[program], append(args, "--config", l.configs[config])...)
	c.Env = append(append(os.Environ(), "HOME=", "XDG_CACHE_HOME=", "HIPQ_MAIL=off"), env...)
	var complaints strings.Builder
	c.Stderr = &complaints
	out, err := c.Output()
	if err != nil && !slices.Contains(args, "--check") { // its exit code is the verdict on the backlog
		l.t.Fatalf("hipq %s: %v: %s%s", strings.Join(args, " "), err, out, complaints.String())
	}
	return string(out), c.ProcessState
}

func (l *large) exec(statement string, args ...any) {
	l.t.Helper()
	if _, err := l.db.ExecContext(l.t.Context(), statement, args...); err != nil {
		l.t.Fatalf("%v\n%s", err, statement)
	}
}

// fill has hipq run one job of each kind, and multiplies their rows and their activity, shifted in time.
func (l *large) fill() {
	now := time.Now().UTC()
	file := filepath.Join(l.t.TempDir(), "jobs")
	const job = `{"queue":"mail","job_type":"send","job_data":{"user":1234567,"action":"welcome mail","to":"ann@example.org","template":"welcome-2"}`
	var lines strings.Builder
	for _, key := range []string{"twice", "once", "failed"} {
		fmt.Fprintf(&lines, job+",\"job_key\":%q}\n", key)
	}
	dbtest.OK(l.t, os.WriteFile(file, []byte(lines.String()), 0o600))
	l.hipq("make", "enqueue", "--ndjson", file)
	for strings.Contains(l.hipq("make", "jobs", "--json"), `"state":"initial"`) || strings.Contains(l.hipq("make", "jobs", "--json"), `"state":"retry"`) {
		l.hipq("make", "work")
		time.Sleep(100 * time.Millisecond)
	}
	more := fmt.Sprintf(job+`,"job_key":"due"}`+"\n"+job+`,"job_key":"scheduled","scheduled_run_time":%q}`+"\n", now.Add(40*24*time.Hour).Format(time.RFC3339))
	dbtest.OK(l.t, os.WriteFile(file, []byte(more), 0o600))
	l.hipq("make", "enqueue", "--ndjson", file)

	for _, table := range []string{"mail", "activity"} {
		l.exec("CREATE TABLE proof_" + table + " AS SELECT * FROM scale_" + table)
	}
	l.exec("CREATE UNIQUE INDEX proof_by_id ON proof_mail (id)")
	l.exec("CREATE INDEX proof_by_job ON proof_activity (job_id, id)")
	l.exec("CREATE TABLE proof_numbers (n BIGINT PRIMARY KEY)")
	perHour := max(0, (6*l.due-2*zoneJobs)/bulkHours)
	l.exec("INSERT INTO proof_numbers VALUES (0)")
	for n := 1; n < max(perHour, zoneJobs)+bulkHours; n *= 2 {
		l.exec("INSERT INTO proof_numbers SELECT n + ? FROM proof_numbers", n)
	}
	hour := now.Truncate(time.Hour)
	l.busy = hour.Add(-busyStart * time.Hour)
	l.first = 6001 // the ids of a zone may begin anywhere
	l.last = l.first - 1
	l.hour(hour.Add(-oldStart*time.Hour), now, zoneJobs)
	for h := range bulkHours {
		n := perHour
		if h == 0 {
			n = max(0, 6*l.due-2*zoneJobs-perHour*(bulkHours-1))
		}
		l.hour(hour.Add(time.Duration(h-bulkStart)*time.Hour), now, n)
	}
	l.hour(l.busy, now, zoneJobs)
	for _, table := range []string{"mail", "activity", "numbers"} {
		l.exec("DROP TABLE proof_" + table)
	}
}

// hour adds jobs of one hour, and their activity.
func (l *large) hour(at, now time.Time, jobs int) {
	if jobs == 0 {
		return
	}
	first := l.last + 1
	l.last += jobs
	id := fmt.Sprintf("(%d + n)", first)
	// milliseconds from the time of the templates: jobs come evenly in 50 minutes, and their attempts follow
	divide, shifted := "/", `strftime('%%Y-%%m-%%d %%H:%%M:%%f', t.%s, ((%s) / 1000.0) || ' seconds') || '000'`
	uuid := `printf('%%08x-%%04x-7%%03x-8%%03x-%%012x', %[1]s / 65536, %[1]s %% 65536, %[2]s %% 4096, %[2]s / 4096 %% 4096, %[2]s * 2654435761 %% 281474976710656)`
	join := "CROSS JOIN"
	if l.driver == "mysql" {
		divide, shifted, join = "DIV", "DATE_ADD(t.%s, INTERVAL 1000 * (%s) MICROSECOND)", "STRAIGHT_JOIN"
		uuid = `LOWER(CONCAT(LPAD(HEX(%[1]s DIV 65536), 8, '0'), '-', LPAD(HEX(%[1]s %% 65536), 4, '0'), '-7', LPAD(HEX(%[2]s %% 4096), 3, '0'), '-8',
			LPAD(HEX(%[2]s DIV 4096 %% 4096), 3, '0'), '-', LPAD(HEX(%[2]s * 2654435761 %% 281474976710656), 12, '0')))`
	}
	spread := fmt.Sprintf("n * 3000000 %s %d", divide, jobs)
	shift := fmt.Sprintf("%d + %s", at.Sub(now).Milliseconds(), spread)
	key := fmt.Sprintf(uuid, fmt.Sprintf("(%d + %s)", at.UnixMilli(), spread), id)
	for _, table := range []string{"mail", "activity"} {
		var columns, values []string
		job := "t.id"
		for _, c := range l.columns(table) {
			value := "t." + c
			switch {
			case c == "id" && table == "activity":
				job = "t.job_id"
				continue
			case c == "id" || c == "job_id":
				value = id
			case c == "job_key":
				value = key
			case c == "at" || strings.HasSuffix(c, "_time"):
				value = fmt.Sprintf(shifted, c, shift)
			}
			columns, values = append(columns, c), append(values, value+" AS "+c)
		}
		l.exec(fmt.Sprintf("INSERT INTO scale_%s (%s) SELECT %s FROM proof_numbers %s proof_%s AS t ON %s = %s WHERE n < %d",
			table, strings.Join(columns, ", "), strings.Join(values, ", "), join, table, job, sampleOf(id), jobs))
	}
}

// columns are the columns of a table that aren't computed.
func (l *large) columns(table string) []string {
	query := "SELECT name FROM pragma_table_info(?)"
	if l.driver == "mysql" {
		query = "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ? AND COALESCE(generation_expression, '') = '' ORDER BY ordinal_position"
	}
	return l.column(query, "scale_"+table)
}

// column reads the first column of a query.
func (l *large) column(query string, args ...any) (list []string) {
	l.t.Helper()
	rows, err := l.db.QueryContext(context.Background(), query, args...)
	dbtest.OK(l.t, err)
	defer rows.Close()
	for rows.Next() {
		var s sql.NullString
		dbtest.OK(l.t, rows.Scan(&s))
		list = append(list, s.String)
	}
	dbtest.OK(l.t, rows.Err())
	return list
}

func (l *large) number(query string, args ...any) int64 {
	l.t.Helper()
	text := l.column(query, args...)[0]
	return dbtest.Must(strconv.ParseInt(text, 10, 64))(l.t)
}

// content checks that hipq counts what was built, and finds no fault with it.
func (l *large) content() {
	l.t.Helper()
	var status struct {
		Queues []map[string]any `json:"queues"`
	}
	dbtest.OK(l.t, json.Unmarshal([]byte(l.hipq("work", "status", "--json")), &status))
	for name, want := range map[string]int{"due": l.due, "scheduled": l.due, "finished": 4 * l.due} {
		got := status.Queues[0][name].(float64)
		if name == "finished" {
			got += status.Queues[0]["failed"].(float64)
		}
		dbtest.Ensure(l.t, int(got)-want >= 0 && int(got)-want < 10, "hipq status says %s: %.0f, and there are %d", name, got, want)
	}
	entries := l.number("SELECT COUNT(*) FROM scale_activity")
	dbtest.Ensure(l.t, entries >= int64(20*l.due) && entries < int64(20*l.due)+1000, "%d entries of activity", entries)
	for _, ill := range l.doctor() {
		dbtest.Ensure(l.t, slices.Contains(l.ill, ill), "hipq doctor finds, since there are jobs: %s", ill)
	}
}

// doctor returns the checks with which hipq doctor isn't content.
func (l *large) doctor() (ill []string) {
	c := exec.Command(l.programs["hipq"], "doctor", "--json", "--config", l.configs["work"])
	out, _ := c.Output() // it exits with 1 if something is wrong
	for line := range strings.Lines(string(out)) {
		var c struct{ Check, Result, Found string }
		if json.Unmarshal([]byte(line), &c) == nil && c.Check != "" && c.Result != "ok" {
			ill = append(ill, c.Result+" "+c.Check)
		}
	}
	return ill
}
