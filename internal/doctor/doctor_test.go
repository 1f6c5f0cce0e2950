package doctor

import (
	"context"
	"database/sql/driver"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/schema"
)

// examine examines an instance on this database.
func examine(ctx context.Context, t *testing.T, driver, source string, o Options) map[string]Finding {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hipq.yaml")
	dbtest.OK(t, os.WriteFile(file, fmt.Appendf(nil, "name: shop\ndatabase: %s\nqueues: [{name: emails}]\n", dbtest.Section(driver, source)), 0o600))
	var err error
	if o.Config, err = config.Load(config.LoadOptions{File: file, Env: []string{}}); err != nil {
		t.Fatal(err)
	}
	if o.Handlers == nil {
		o.Handlers = func() (troubles, foreign []string) { return nil, nil }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	all := map[string]Finding{}
	err = Examine(ctx, o, func(f Finding) error {
		all[f.Check] = f
		return nil
	})
	dbtest.Require(t, err == nil && len(all) == len(checks(driver)), "%v: %d findings of %d", err, len(all), len(checks(driver)))
	return all
}

// want checks a finding: its result, and words of what was found and of the remedy.
func want(t *testing.T, f Finding, result Result, what, remedy string) {
	t.Helper()
	does := ""
	if f.Remedy != nil {
		does = *f.Remedy
	}
	dbtest.Ensure(t, f.Result == result && strings.Contains(f.Found, what) && strings.Contains(does, remedy) && (does == "") == (remedy == ""),
		"%s is %s: %s; remedy: %s\nwant %s: %q; remedy: %q", f.Check, f.Result, f.Found, does, result, what, remedy)
}

// TestLeftovers: a process of this config's handler whose worker is not at work is found.
func TestLeftovers(t *testing.T) {
	dbtest.EachOpen(t, func(t *testing.T, db *schema.DB) {
		const atWork = "INSERT INTO shop_workers (id, host, pid, state, start_time, heartbeat, lock_until) VALUES" +
			" ('works', 'web1', 1, 'working', '2026-01-05 09:30:00', '2026-01-05 09:30:00', '2026-01-05 09:30:00')"
		dbtest.Exec(t, db.SQL, atWork)
		file := filepath.Join(t.TempDir(), "hipq.yaml")
		start := func(worker, file string) int {
			left := exec.Command("sleep", "60")
			left.Env = []string{"HIPQ_WORKER_ID=" + worker, "HIPQ_CONFIG=" + file}
			dbtest.OK(t, left.Start())
			t.Cleanup(func() { _ = left.Process.Kill(); _ = left.Wait() })
			return left.Process.Pid
		}
		start("works", file)
		start("ended", file+".other")
		p := &patient{Options: Options{Config: &config.Config{File: file}}, db: db}
		f := found(OK, "")
		p.addLeftovers(t.Context(), &f)
		dbtest.Ensure(t, f.Result == OK, "%+v", f)
		if pid := strconv.Itoa(start("ended", file)); runtime.GOOS == "linux" {
			want(t, lookAtWorkers(t.Context(), p), Wrong, "process "+pid+" is of a handler, and its worker ended has ended", "kill -KILL "+pid)
		}
	}, "emails")
}

// TestExamine: what is right is ok; what is wrong is found, with its remedy.
func TestExamine(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db := dbtest.Open(t, driver, source, "emails")
		found := examine(t.Context(), t, driver, source, Options{})
		for _, name := range []string{
			"config", "database", "clock", "isolation", "time_zone", "rights_worker", "tables", "sizes",
		} {
			want(t, found[name], OK, "", "")
		}
		body := map[string]string{"sqlite": "BEGIN SELECT 1; END", "mysql": "SET @a = 1"}[driver]
		dbtest.Exec(t, db.SQL, "CREATE TABLE orders (id INTEGER PRIMARY KEY, job BIGINT, FOREIGN KEY (job) REFERENCES shop_emails (id))",
			"CREATE TRIGGER mine BEFORE DELETE ON shop_emails FOR EACH ROW "+body, "CREATE TRIGGER shop_emails$insert BEFORE INSERT ON shop_emails FOR EACH ROW "+body)
		found = examine(t.Context(), t, driver, source, Options{})
		want(t, found["tables"], Warning, "table orders refers to shop_emails; trigger mine on shop_emails", "drop")
		dbtest.Exec(t, db.SQL, "DROP TRIGGER mine", "DROP TRIGGER shop_emails$insert", "DROP TABLE orders")
		want(t, found["sizes"], OK, map[string]string{"sqlite": "the file and its log ", "mysql": "shop_activity "}[driver], "")
		want(t, found["workers"], Warning, "cron has started no worker yet", "crontab -e: * * * * * /")

		for which, by := range map[string]time.Duration{"behind": -time.Hour, "ahead of": time.Hour} {
			now := func() time.Time { return time.Now().Add(by) }
			want(t, examine(t.Context(), t, driver, source, Options{Now: now})["clock"], Warning, " "+which+" the database's", "NTP")
		}
		if driver == "sqlite" {
			dbtest.OK(t, os.Chmod(source, 0o644))
		}
		dbtest.Exec(t, db.SQL, "INSERT INTO shop_workers (id, host, pid, state, start_time, heartbeat, lock_until, end_time, slots, lanes) VALUES"+
			" ('w', 'web1', 1, 'finished', '2026-01-05 09:30:00', '2026-01-05 09:30:00', '2026-01-05 09:30:00', '2026-01-05 09:30:00', 0, 'NONE')")
		drop := map[string]string{"sqlite": "DROP INDEX shop_emails$claim", "mysql": "DROP INDEX shop_emails$claim ON shop_emails"}[driver]
		dbtest.Exec(t, db.SQL, drop, "UPDATE hipq_tables SET version = 0 WHERE table_name = 'shop_emails'")
		found = examine(t.Context(), t, driver, source, Options{})
		want(t, found["tables"], Wrong, "shop_emails comes from an older hipq: it has version 0", "run hipq init")
		want(t, found["workers"], Wrong, "on web1", "crontab")
		if driver == "sqlite" {
			theirs := func() (troubles, foreign []string) { return nil, []string{"ours.sh belongs to user 65534"} }
			want(t, examine(t.Context(), t, driver, source, Options{Handlers: theirs})["handlers"], Warning, "user 65534", "allow_foreign_handlers")
			want(t, found["database_file"], Wrong, "-rw-r--r--", "chmod 0600 "+source)
			want(t, found["durability"], OK, "synchronous FULL", "")
			if err := os.Chmod(filepath.Dir(source), 0o777|fs.ModeSticky); err != nil { //nolint:gosec // as /tmp
				t.Fatal(err)
			}
			want(t, examine(t.Context(), t, driver, source, Options{})["database_file"], Wrong, "every user can write its folder", "a folder of its own")
		}
	})
}

// TestWorkerRights: missing rights are named, with the statements that grant them, which suffice.
func TestWorkerRights(t *testing.T) {
	source := dbtest.MySQL(t)
	root := dbtest.Open(t, "mysql", source, "emails")
	cfg := dbtest.Must(mysql.ParseDSN(source))(t)
	user := cfg.DBName + "_w" // others test on the same server
	dbtest.Exec(t, root.SQL, "CREATE USER '"+user+"'@'%' IDENTIFIED BY 's3cret'", "GRANT SELECT ON `"+cfg.DBName+"`.* TO '"+user+"'@'%'",
		"GRANT INSERT, UPDATE ON `"+cfg.DBName+"`.shop_emails TO '"+user+"'@'%'")
	t.Cleanup(func() { dbtest.Exec(t, root.SQL, "DROP USER '"+user+"'@'%'") })
	cfg.User, cfg.Passwd = user, "s3cret"
	found := examine(t.Context(), t, "mysql", cfg.FormatDSN(), Options{})
	f := found["rights_worker"]
	want(t, f, Wrong, "lacks INSERT, UPDATE, DELETE on hipq_tables; ", "GRANT ")
	want(t, f, Wrong, "; DELETE on shop_emails", "GRANT ")
	dbtest.Ensure(t, !strings.Contains(fmt.Sprint(found), "s3cret"), "it shows the password")
	for statement := range strings.SplitSeq(strings.TrimSuffix(*f.Remedy, ";"), ";") {
		dbtest.Exec(t, root.SQL, statement)
	}
	want(t, examine(t.Context(), t, "mysql", cfg.FormatDSN(), Options{})["rights_worker"], OK, "", "")
}

// TestProcedures: a user that may make the procedures sees that they are gone; one that may only call some sees no others.
func TestProcedures(t *testing.T) {
	source := dbtest.MySQL(t)
	db := dbtest.Open(t, "mysql", source, "emails")
	look := func() Finding { return examine(t.Context(), t, "mysql", source, Options{})["procedures"] }
	want(t, look(), Wrong, "are missing, as after a dump without --routines: shop_job$check_holder", "run hipq init")
	dbtest.Must(db.MakeProcedures(t.Context(), []schema.Queue{{Name: "emails"}}))(t)
	want(t, look(), OK, "of this version", "")
	dbtest.Exec(t, db.SQL, "DROP PROCEDURE shop_job_grab")
	want(t, look(), Wrong, "1 are missing", "run hipq init")
	cfg := dbtest.Must(mysql.ParseDSN(source))(t)
	user := cfg.DBName + "_p"
	dbtest.Exec(t, db.SQL, "CREATE USER '"+user+"'@'%'", "GRANT SELECT, INSERT, UPDATE, DELETE ON `"+cfg.DBName+"`.* TO '"+user+"'@'%'")
	t.Cleanup(func() { dbtest.Exec(t, db.SQL, "DROP USER '"+user+"'@'%'") })
	cfg.User, cfg.Passwd = user, ""
	source = cfg.FormatDSN()
	want(t, look(), Unknown, "this user has no right to call any", "hipq init")
}

// TestViews: a user that reads all views sees that some are missing, old or not hipq's; one without rights sees none.
func TestViews(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db := dbtest.Open(t, driver, source, "emails")
		look := func() Finding { return examine(t.Context(), t, driver, source, Options{})["views"] }
		want(t, look(), Wrong, "2 are missing: shop_emails$jobs, shop_emails$failures", "run hipq init")
		dbtest.Must(db.MakeViews(t.Context(), []schema.Queue{{Name: "emails"}}))(t)
		want(t, look(), OK, "all 2 are of this version", "")
		dbtest.Exec(t, db.SQL, "DROP VIEW shop_emails$failures")
		want(t, look(), Wrong, "1 are missing: shop_emails$failures", "run hipq init")
		dbtest.Exec(t, db.SQL, "CREATE VIEW shop_emails$failures AS SELECT id FROM shop_emails WHERE 'hipq: queue emails of instance shop, 0123' <> ''")
		want(t, look(), Wrong, "of another version of hipq, or of a user that no longer exists or has lost its rights: shop_emails$failures", "run hipq init")
		if driver == "mysql" {
			cfg := dbtest.Must(mysql.ParseDSN(source))(t)
			user := cfg.DBName + "_q"
			dbtest.Exec(t, db.SQL, "CREATE USER '"+user+"'@'%'", "GRANT SELECT, INSERT, UPDATE, DELETE ON `"+cfg.DBName+"`.shop_emails TO '"+user+"'@'%'")
			defer dbtest.Exec(t, db.SQL, "DROP USER '"+user+"'@'%'")
			other := *cfg
			other.User, other.Passwd = user, ""
			want(t, examine(t.Context(), t, driver, other.FormatDSN(), Options{})["views"], Unknown, "this user has no right", "hipq init")
		}
		dbtest.Exec(t, db.SQL, "DROP VIEW shop_emails$failures", "CREATE VIEW shop_emails$failures AS SELECT 1 AS one")
		f := look()
		dbtest.Ensure(t, f.Result == Wrong && strings.Contains(f.Found, "shop_emails$failures does not belong"), "%+v", f)
	})
}

// TestServer: what a server's settings do to jobs is reported, and what they allow applications' sessions and other users of its host.
func TestServer(t *testing.T) {
	t.Parallel()
	source := dbtest.OwnMySQL(t, "--innodb-autoinc-lock-mode=1", "--innodb-flush-method=fsync", "--innodb-doublewrite=ON", "--log-bin=log",
		"--server-id=1", "--sync-binlog=0", "--binlog-format=MIXED", "--max-allowed-packet=1M", "--sysdate-is-now")
	db := dbtest.Open(t, "mysql", source, "emails")
	t.Run("sessions", func(t *testing.T) { sessions(t, db, source) })
	t.Run("settings", func(t *testing.T) { settings(t, db, source) })
}

func sessions(t *testing.T, db *schema.DB, source string) {
	found := examine(t.Context(), t, "mysql", source, Options{})
	want(t, found["loopback"], Warning, "127.0.0.1:", "@unix(")
	want(t, found["auto_increment"], Warning, "INSERT … SELECT", "innodb_autoinc_lock_mode = 2")
	want(t, found["insert_id"], Warning, "jobs to shop_emails", "hipq init --print-grants")
	if strings.Contains(found["database"].Found, "MariaDB") {
		want(t, found["idle_transactions"], Warning, "idle_transaction_timeout is 0", "SET GLOBAL idle_transaction_timeout = 60")
		dbtest.Exec(t, db.SQL, "SET GLOBAL idle_transaction_timeout = 60")
	}
	rights := dbtest.Must(schema.Grants(schema.Options{Driver: "mysql", DSN: source}, db.Names, []schema.Queue{{Name: "emails"}}))(t)
	dbtest.Exec(t, db.SQL, rights.Triggers...)
	found = examine(t.Context(), t, "mysql", source, Options{})
	want(t, found["insert_id"], OK, "", "")
	want(t, found["idle_transactions"], OK, "", "")
	prepared(t, db, source)
	dbtest.Exec(t, db.SQL, rights.Triggers[0], "INSERT INTO shop_emails (job_type) VALUES ('send')")
	var id int
	err := db.SQL.GetContext(t.Context(), &id, "SELECT MAX(id) FROM shop_emails")
	dbtest.Ensure(t, err == nil && id == 1, "the first job is %d, %v: looking has used up ids", id, err)
}

// prepared: an XA transaction that outlived its connection is found, with the statement that ends it; and so are prepared
// statements that leave none to others.
func prepared(t *testing.T, db *schema.DB, source string) {
	t.Helper()
	conn := dbtest.Must(db.SQL.Conn(t.Context()))(t)
	for _, statement := range []string{"XA START 'a''b', 'c', 7", "INSERT INTO shop_activity (at, kind, state) VALUES (NOW(), 'job', 'added')", "XA END 'a''b', 'c', 7", "XA PREPARE 'a''b', 'c', 7"} {
		dbtest.Must(conn.ExecContext(t.Context(), statement))(t)
	}
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	found := examine(t.Context(), t, "mysql", source, Options{})
	for found["prepared"].Result == OK && t.Context().Err() == nil { // until the server has seen the connection's end
		found = examine(t.Context(), t, "mysql", source, Options{})
	}
	want(t, found["prepared"], Wrong, "1 transaction without a connection", "XA ROLLBACK X'612762', X'63', 7;")
	dbtest.Exec(t, db.SQL, "XA ROLLBACK X'612762', X'63', 7", "SET GLOBAL max_prepared_stmt_count = 1")
	one := dbtest.Must(db.SQL.Conn(t.Context()))(t)
	defer func() { _ = one.Close() }()
	dbtest.Must(one.ExecContext(t.Context(), "PREPARE hold FROM 'SELECT 1'"))(t)
	for found["prepared"].Result != Warning && t.Context().Err() == nil { // the server's list may be old
		found = examine(t.Context(), t, "mysql", source, Options{})
	}
	want(t, found["prepared"], Warning, "1 of 1 prepared statements", "MAX_USER_CONNECTIONS")
	dbtest.Exec(t, db.SQL, "SET GLOBAL max_prepared_stmt_count = 16382")
}

// settings decide whether an accepted job can be lost.
func settings(t *testing.T, db *schema.DB, source string) {
	const flush = "SET GLOBAL innodb_flush_log_at_trx_commit = %d"
	dbtest.Must(db.MakeProcedures(t.Context(), []schema.Queue{{Name: "emails"}}))(t)
	cfg := dbtest.Must(mysql.ParseDSN(source))(t)
	cfg.User, cfg.Passwd = "hipq", "s3cret" // like hipq work's user, which sees no procedures
	dbtest.Exec(t, db.SQL, "CREATE USER hipq@'%' IDENTIFIED BY 's3cret'", "GRANT SELECT, INSERT, UPDATE, DELETE ON `"+cfg.DBName+"`.* TO hipq@'%'",
		fmt.Sprintf(flush, 0))
	look := func() map[string]Finding { return examine(t.Context(), t, "mysql", cfg.FormatDSN(), Options{}) }
	found := look()
	want(t, found["durability"], Wrong, "the server, or its host, crashes", "innodb_flush_log_at_trx_commit = 1")
	want(t, found["packet"], Wrong, "max_allowed_packet is 1.0 MB", "SET GLOBAL max_allowed_packet")
	want(t, found["procedures"], Unknown, "this user has no right to call any", "hipq init")
	want(t, found["prepared"], Unknown, "PROCESS", "GRANT PROCESS")
	want(t, found["sysdate"], Warning, "sysdate-is-now", "sysdate-is-now from my.cnf")
	dbtest.Exec(t, db.SQL, fmt.Sprintf(flush, 1))
	want(t, look()["durability"], Warning, "sync_binlog is 0", "SET GLOBAL sync_binlog = 1")
	dbtest.Exec(t, db.SQL, "SET GLOBAL sync_binlog = 1")
	want(t, look()["durability"], OK, "", "")
}

// TestSilentDatabase: a silent database delays nothing: what needs it is unknown, the rest is reported.
func TestSilentDatabase(t *testing.T) {
	proxy := dbtest.NewProxy(t)
	proxy.Stall()
	ctx := dbtest.Within(t, time.Second)
	found := examine(ctx, t, "mysql", proxy.Source, Options{})
	want(t, found["config"], OK, "", "")
	dbtest.Ensure(t, found["database"].Result != OK && found["tables"].Result == Unknown && found["durability"].Result == Unknown, "%+v", found)
}

// TestLostDatabase: a database that goes away between two checks is reported as wrong, not as unknown.
func TestLostDatabase(t *testing.T) {
	proxy := dbtest.NewProxy(t)
	found := examine(t.Context(), t, "mysql", proxy.Source, Options{Now: func() time.Time {
		proxy.Cut()
		return time.Now()
	}})
	want(t, found["database"], OK, "", "")
	for _, check := range []string{"clock", "sysdate", "workers"} {
		want(t, found[check], Wrong, "", "the database can't be reached")
	}
}

// TestLoopback: another user of the host can take over a port, but not a socket, nor a server with a certificate.
func TestLoopback(t *testing.T) {
	for dsn, result := range map[string]Result{
		"shop:s3cret@tcp(127.0.0.1:3306)/shop": Warning, "tcp(localhost)/shop": Warning, "tcp([::1]:3306)/shop?tls=skip-verify": Warning,
		"tcp(127.0.0.1)/shop?tls=preferred": Warning, "tcp(db1,127.0.0.1)/shop": Warning,
		"unix(/run/mysqld.sock)/shop": OK, "tcp(127.0.0.1)/shop?tls=true": OK, "tcp(db1)/shop": OK,
	} {
		p := &patient{Options: Options{Config: &config.Config{Database: schema.Options{Driver: "mysql", DSN: dsn}}}}
		f := lookAtLoopback(t.Context(), p)
		dbtest.Ensure(t, f.Result == result && (f.Remedy == nil) == (result == OK), "%s: %+v", dsn, f)
		p.Config.Database.TLS = &schema.TLS{}
		want(t, lookAtLoopback(t.Context(), p), OK, "", "")
	}
}
