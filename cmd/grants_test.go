package cmd_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
)

// The privileges that init --print-grants prints suffice: the first user's for init, the second's for all other
// commands. With the third's, an application can insert any row, but stop no other job.
func TestGrantsSuffice(t *testing.T) {
	dbtest.Long(t, "one command after the other")
	source := dbtest.MySQL(t)
	cfg := dbtest.Must(mysql.ParseDSN(source))(t)
	const password = "s3cret"
	// other tests share the server, and MySQL allows 32 characters
	user := func(name string) string { return strings.TrimPrefix(cfg.DBName, "hipq_") + "_" + name }
	root := openAs(t, cfg, cfg.User, cfg.Passwd)
	for _, name := range []string{"hipq_init", "hipq", "application"} {
		run(t, root, "CREATE USER '"+user(name)+"'@'%' IDENTIFIED BY '"+password+"'")
		t.Cleanup(func() { run(t, root, "DROP USER '"+user(name)+"'@'%'") })
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "hipq.yaml")
	own := *cfg
	own.User, own.Passwd = user("hipq"), password
	dbtest.OK(t, os.WriteFile(file, hostileConfig(fmt.Sprintf("{driver: mysql, dsn: %q}", own.FormatDSN()), hostileExec), 0o600))
	hipq := func(env string, args ...string) string {
		t.Helper()
		c := exec.Command("hipq", append(args, "--config", file)...)
		c.Dir, c.Env = dir, append(os.Environ(), env)
		var errs strings.Builder
		c.Stderr = &errs
		out, err := c.Output()
		dbtest.Require(t, err == nil && errs.Len() == 0, "hipq %s: %v\n%.1000s", strings.Join(args, " "), err, errs.String())
		return string(out)
	}
	grants := strings.Split(strings.TrimSpace(hipq("", "init", "--print-grants")), "\n")
	var parts strings.Builder
	for n := range 8 {
		parts.WriteString(hipq("", "init", fmt.Sprint("--print-grants=", n+1)))
	}
	dbtest.Same(t, strings.Split(strings.TrimSpace(parts.String()), "\n"), grants[1:]) // after the comment about all
	grant := func(printed, to string) {
		t.Helper()
		n := 0
		for _, statement := range grants {
			if strings.Contains(statement, " TO '"+printed+"'@") {
				run(t, root, strings.Replace(statement, "'"+printed+"'@", "'"+to+"'@", 1))
				n++
			}
		}
		dbtest.Ensure(t, n != 0, "no rights for %s in:\n%s", printed, strings.Join(grants, "\n"))
	}
	grant("hipq_init", user("hipq_init"))
	making := own
	making.User = user("hipq_init")
	hipq("HIPQ_DATABASE_DSN="+making.FormatDSN(), "init")
	grant(user("hipq"), user("hipq"))
	grant("application", user("application"))

	app := openAs(t, cfg, user("application"), password)
	conn := dbtest.Must(app.Conn(t.Context()))(t)
	h, hostile, in := hostileDB{t: t, conn: conn}, hostile(), 0
	for _, queue := range []string{"plain", "limited"} {
		for _, column := range []string{"job_type", "job_data", "job_key", "shard_key", "scheduled_run_time", "priority", "timeout", "throttle_factor", "time_windows"} {
			for _, value := range hostile[column] {
				row := map[string]string{"job_type": "'send'"}
				row[column] = value
				if h.insert(queue, row) == nil {
					in++
				}
			}
		}
		h.insertGood(queue)
	}
	onceOnly(t, app)
	dbtest.Ensure(t, in >= 26, "only %d hostile rows were taken", in)
	hipq("", "work")
	hipq("", "work")
	for _, queue := range []string{"plain", "limited"} {
		good := goodJobs
		if queue == "plain" {
			good++ // the job of onceOnly
		}
		done := strings.Count(hipq("", "jobs", queue, "--state", "finished", "--json"), `"job_key":"good `)
		dbtest.Ensure(t, done == good, "%s: %d of %d good jobs are done", queue, done, good)
	}
	for _, args := range [][]string{
		{"jobs"},
		{"show", "plain", "1"},
		{"status"},
		{"why", "plain", "1"},
		{"activity", "--limit", "10"},
		{"monitor"},
		{"purge"},
		{"enqueue", "plain", "send", "--key", "k", "--in", "1h"},
		{"cancel", "plain", "--key", "k", "--yes", "--json"},
		{"queue", "pause", "plain"},
		{"queue", "resume", "plain"},
		{"dismiss", "plain", "--type", "send", "--yes", "--json"},
		{"init"},
	} {
		hipq("", args...)
	}
	grantsRunWhole(t, cfg, strings.Replace(strings.Join(grants, "\n"), "'limited_worker'@", "'"+user("application")+"'@", 1))
	var granted int
	dbtest.OK(t, root.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM mysql.procs_priv WHERE user = ?", user("application")).Scan(&granted))
	dbtest.Same(t, granted, 1, "rights after those of missing users")
}

// grantsRunWhole runs the printed statements with a client that goes on after one whose user is missing.
func grantsRunWhole(t *testing.T, cfg *mysql.Config, statements string) {
	t.Helper()
	host, port, _ := strings.Cut(cfg.Addr, ":")
	c := exec.Command(dbtest.Client(t, "mariadb"), "--no-defaults", "--force", "--skip-ssl", "--host="+host, "--port="+port, "--user="+cfg.User, cfg.DBName)
	c.Stdin = strings.NewReader(statements)
	out, err := c.CombinedOutput()
	dbtest.Ensure(t, strings.Contains(string(out), "ERROR"), "no user is missing: %v\n%s", err, out)
}

// onceOnly inserts jobs whose keys have no live job, as docs/howto/unique.md shows it for an application with only the
// privilege INSERT.
func onceOnly(t *testing.T, app *sql.DB) {
	t.Helper()
	tx := dbtest.Must(app.BeginTx(t.Context(), nil))(t)
	defer func() { _ = tx.Rollback() }()
	for statement, want := range map[string]uint16{
		"INSERT INTO shop_plain (job_type, job_key) VALUES ('send', 'good 0')":                                 1062,
		"INSERT INTO shop_plain (job_type, job_key) VALUES ('send', 'good 0') ON DUPLICATE KEY UPDATE id = id": 1142,
	} {
		_, err := tx.ExecContext(t.Context(), statement)
		my, ok := errors.AsType[*mysql.MySQLError](err)
		dbtest.Ensure(t, ok && my.Number == want, "%s: %v, want error %d", statement, err, want)
	}
	// the errors leave the transaction usable
	dbtest.Must(tx.ExecContext(t.Context(), "INSERT INTO shop_plain (job_type, job_key) VALUES ('send', 'good and new')"))(t)
	dbtest.OK(t, tx.Commit())
}

// openAs opens the database as a user.
func openAs(t *testing.T, cfg *mysql.Config, user, password string) *sql.DB {
	t.Helper()
	as := *cfg
	as.User, as.Passwd = user, password
	db := dbtest.Must(sql.Open("mysql", as.FormatDSN()))(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func run(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	dbtest.Must(db.ExecContext(context.Background(), statement))(t)
}
