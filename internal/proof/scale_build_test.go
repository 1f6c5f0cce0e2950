package proof

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"github.com/hipq/hipq/internal/dbtest"
)

// large is an instance with a long queue, built by SQL from jobs that hipq itself ran.
type large struct {
	t      *testing.T
	driver string
	db     *sqlx.DB
	// engine is what the results name, which notes collects.
	engine string
	notes  *[]string
	// due is how many jobs are due. Half as many are scheduled; ten times as many are final.
	due int
	// programs and configs by name
	programs, configs map[string]string
	// busy is the hour that the monitor counts. first and last are the ids of the jobs.
	busy        time.Time
	first, last int
	// ill is what hipq doctor finds without jobs, such as settings of the server.
	ill []string
}

// sampleOf is the sample of a job by its id, in SQL: 1 succeeded at the second attempt, 2 at the first, 3 failed, 4 is due, 5
// is scheduled. Of 23 jobs 20 are final, two are due and one is scheduled; they have 65 entries of activity. sampleAt is what is
// left of an id divided by 23, by the sample; of 10 jobs with that of sample 3 one failed.
const sampleOf = "CASE WHEN %[1]s %% 230 = 0 THEN 3 WHEN %[1]s %% 23 = 1 THEN 1 WHEN %[1]s %% 23 < 20 THEN 2 WHEN %[1]s %% 23 < 22 THEN 4 ELSE 5 END"

var sampleAt = [...]int{1: 1, 2: 2, 3: 0, 4: 20, 5: 22}

// Most jobs are spread over bulkHours, beginning bulkStart hours ago. zoneJobs are in an hour that purge deletes, and in the
// one that the monitor counts, so that those have the same work in an instance of any size.
const (
	oldStart, bulkStart, busyStart = 15 * 24, 13*24 + 18, 2
	bulkHours                      = bulkStart - 12
	zoneJobs                       = 1500
)

const scaleConfig = `name: scale
database: %s
worker: {concurrency: 8}
queues:
  - name: mail
    throttle_limit: %d
    order: %s
    job_types:
      - {name: send, retry: {attempts: 2, delay: 1s, backoff: fixed, jitter: 0}, handler: %s}
      - {name: idle, handler: {exec: ["true"]}}
`

// newLarge makes an instance and fills it.
func newLarge(t *testing.T, driver, source string, due int, programs map[string]string) *large {
	t.Helper()
	l := &large{t: t, driver: driver, due: due, programs: programs, configs: map[string]string{}}
	dir, echo := t.TempDir(), fmt.Sprintf("{stream: [%q]}", programs["echo"])
	write := func(name string, limit int, order, handler string) {
		l.configs[name] = filepath.Join(dir, name+".yaml")
		dbtest.OK(t, os.WriteFile(l.configs[name], fmt.Appendf(nil, scaleConfig, dbtest.Section(driver, source), limit, order, handler), 0o600))
	}
	write("make", 0, "priority", `{exec: [sh, -c, 'case $HIPQ_JOB_KEY in failed) echo no such user >&2; exit 65;; twice) test $HIPQ_ATTEMPT -gt 1;; esac']}`)
	write("work", 0, "priority", echo)
	write("limit", 6, "priority", echo)
	write("order", 0, "schedule", echo)
	l.hipq("make", "init")
	l.ill = l.doctor()
	dsn := "file:" + source + "?_pragma=busy_timeout(60000)&_pragma=synchronous(off)&_pragma=cache_size(-400000)"
	if driver == "mysql" {
		cfg := dbtest.Must(mysql.ParseDSN(source))(t)
		cfg.InterpolateParams, cfg.Params = true, map[string]string{"time_zone": "'+00:00'"}
		dsn = cfg.FormatDSN()
	}
	l.db = dbtest.Must(sqlx.Open(driver, dsn))(t)
	t.Cleanup(func() { _ = l.db.Close() })
	l.fill()
	return l
}

// hipq runs a command with a config, and returns its output.
func (l *large) hipq(config string, args ...string) string {
	out, _ := l.command("hipq", config, "", args...)
	return out
}

func (l *large) command(program, config, trace string, args ...string) (string, *os.ProcessState) {
	l.t.Helper()
	c := exec.Command(l.programs[program], append(args, "--config", l.configs[config])...)
	c.Env = append(os.Environ(), "HOME=", "XDG_CACHE_HOME=", "HIPQ_MAIL=off", scaleTraceVar+"="+trace)
	var complaints strings.Builder
	c.Stderr = &complaints
	out, err := c.Output()
	verdict := slices.Contains(args, "--check") || args[0] == "doctor" // their exit code is one
	dbtest.Require(l.t, err == nil || verdict, "hipq %s: %v: %s%s", strings.Join(args, " "), err, out, &complaints)
	return string(out), c.ProcessState
}

func (l *large) exec(statement string, args ...any) {
	l.t.Helper()
	_, err := l.db.ExecContext(l.t.Context(), statement, args...)
	dbtest.Require(l.t, err == nil, "%v\n%s", err, statement)
}

// column reads the only column of a query.
func column[T any](l *large, query string, args ...any) (list []T) {
	l.t.Helper()
	err := l.db.SelectContext(l.t.Context(), &list, query, args...)
	dbtest.Require(l.t, err == nil, "%v\n%s", err, query)
	return list
}

// fill has hipq run a sample of each kind, and multiplies the rows and their activity, shifted in time. So all columns are
// as hipq fills them.
func (l *large) fill() {
	now := time.Now().UTC()
	add := func(key string, args ...string) {
		const data = `{"user":1234567,"action":"welcome mail","to":"ann@example.org","template":"welcome-2"}`
		l.hipq("make", append([]string{"enqueue", "mail", "send", "--key", key, "--data", data}, args...)...)
	}
	for _, key := range []string{"twice", "once", "failed"} {
		add(key)
	}
	for len(column[int](l, "SELECT id FROM scale_mail WHERE status NOT IN ('finished', 'failed')")) > 0 {
		l.hipq("make", "work")
		time.Sleep(100 * time.Millisecond)
	}
	add("due")
	add("scheduled", "--in", "40d")
	for _, table := range []string{"mail", "activity"} {
		l.exec("CREATE TABLE proof_" + table + " AS SELECT * FROM scale_" + table)
	}
	l.exec("CREATE UNIQUE INDEX proof_by_id ON proof_mail (id)")
	l.exec("CREATE INDEX proof_by_job ON proof_activity (job_id, id)")
	l.exec("CREATE TABLE proof_numbers (n BIGINT PRIMARY KEY)")
	l.exec("INSERT INTO proof_numbers VALUES (0)")
	bulk := max(0, l.due/2*23-2*zoneJobs)
	for n := 1; n < bulk/bulkHours+bulkHours+zoneJobs; n *= 2 {
		l.exec("INSERT INTO proof_numbers SELECT n + ? FROM proof_numbers", n)
	}
	hour := now.Truncate(time.Hour)
	l.busy, l.first, l.last = hour.Add(-busyStart*time.Hour), 231, 230
	inserts := map[string][]string{}
	l.hour(inserts, hour.Add(-oldStart*time.Hour), now, zoneJobs)
	l.hour(inserts, hour.Add(-bulkStart*time.Hour), now, bulk/bulkHours+bulk%bulkHours)
	for h := 1; h < bulkHours; h++ {
		l.hour(inserts, hour.Add(time.Duration(h-bulkStart)*time.Hour), now, bulk/bulkHours)
	}
	l.hour(inserts, l.busy, now, zoneJobs)
	var tables sync.WaitGroup
	for _, list := range inserts { // on a server both at once
		tables.Go(func() {
			for _, insert := range list {
				_, err := l.db.ExecContext(l.t.Context(), insert)
				dbtest.Ensure(l.t, err == nil, "%v\n%s", err, insert)
			}
		})
		if l.driver == "sqlite" {
			tables.Wait()
		}
	}
	tables.Wait()
	for _, table := range []string{"mail", "activity", "numbers"} {
		l.exec("DROP TABLE proof_" + table)
	}
}

// hour adds the statements for jobs that come evenly in 50 minutes, and for their activity. The keys are UUIDs by that time, like hipq's.
func (l *large) hour(inserts map[string][]string, at, now time.Time, jobs int) {
	id := fmt.Sprintf("(%d + n)", l.last+1)
	l.last += jobs
	divide, join, columns := "/", "CROSS JOIN", "SELECT name FROM pragma_table_info(?)"
	shifted := `strftime('%%Y-%%m-%%d %%H:%%M:%%f', t.%s, ((%s) / 1000.0) || ' seconds') || '000'`
	uuid := `printf('%%08x-%%04x-7%%03x-8%%03x-%%012x', %[1]s / 65536, %[1]s %% 65536, %[2]s %% 4096, %[2]s / 4096 %% 4096, %[2]s * 2654435761 %% 281474976710656)`
	if l.driver == "mysql" {
		divide, join, shifted = "DIV", "STRAIGHT_JOIN", "DATE_ADD(t.%s, INTERVAL 1000 * (%s) MICROSECOND)"
		columns = "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ? AND COALESCE(generation_expression, '') = ''"
		uuid = `LOWER(CONCAT(LPAD(HEX(%[1]s DIV 65536), 8, '0'), '-', LPAD(HEX(%[1]s %% 65536), 4, '0'), '-7', LPAD(HEX(%[2]s %% 4096), 3, '0'), '-8',
			LPAD(HEX(%[2]s DIV 4096 %% 4096), 3, '0'), '-', LPAD(HEX(%[2]s * 2654435761 %% 281474976710656), 12, '0')))`
	}
	spread := fmt.Sprintf("n * 3000000 %s %d", divide, max(jobs, 1))
	values := map[string]string{"id": id, "job_id": id, "job_key": fmt.Sprintf(uuid, fmt.Sprintf("(%d + %s)", at.UnixMilli(), spread), id)}
	for table, sample := range map[string]string{"mail": "id", "activity": "job_id"} {
		var into, from []string
		for _, c := range column[string](l, columns, "scale_"+table) {
			value, given := values[c]
			switch {
			case c == "id" && table == "activity":
				continue
			case c == "at" || strings.HasSuffix(c, "_time"):
				value = fmt.Sprintf(shifted, c, fmt.Sprintf("%d + %s", at.Sub(now).Milliseconds(), spread))
			case !given:
				value = "t." + c
			}
			into, from = append(into, c), append(from, value)
		}
		inserts[table] = append(inserts[table], fmt.Sprintf("INSERT INTO scale_%s (%s) SELECT %s FROM proof_numbers %s proof_%s AS t ON t.%s = %s WHERE n < %d",
			table, strings.Join(into, ", "), strings.Join(from, ", "), join, table, sample, fmt.Sprintf(sampleOf, id), jobs))
	}
}

// content checks that hipq counts what was built, and finds no fault with it.
func (l *large) content() {
	l.t.Helper()
	var status struct {
		Queues []struct{ Due, Scheduled, Finished, Failed int }
	}
	dbtest.OK(l.t, json.Unmarshal([]byte(l.hipq("work", "status", "--json")), &status))
	q, entries := status.Queues[0], column[int](l, "SELECT COUNT(*) FROM scale_activity")[0]
	for i, got := range []int{q.Due, q.Scheduled, q.Finished + q.Failed, entries} {
		want := []int{2, 1, 20, 65}[i] * (l.due / 2)
		dbtest.Ensure(l.t, got >= want && got < want+200, "%d instead of %d of: due, scheduled, final, entries: %+v, %d", got, want, q, entries)
	}
	for _, ill := range l.doctor() {
		dbtest.Ensure(l.t, slices.Contains(l.ill, ill), "hipq doctor finds, since there are jobs: %s", ill)
	}
}

// doctor returns the checks with which hipq doctor isn't content.
func (l *large) doctor() (ill []string) {
	for line := range strings.Lines(l.hipq("work", "doctor", "--json", "--timeout", "10m")) {
		var c struct{ Check, Result string }
		if json.Unmarshal([]byte(line), &c) == nil && c.Check != "" && c.Result != "ok" {
			ill = append(ill, c.Result+" "+c.Check)
		}
	}
	return ill
}
