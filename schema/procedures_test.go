package schema_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/schema"
)

var withProcedures = []schema.Queue{{Name: "emails"}}

// remade makes the procedures of queue emails, and returns how many it made.
func remade(t *testing.T, db *schema.DB) int {
	t.Helper()
	made := dbtest.Must(db.MakeProcedures(t.Context(), withProcedures))(t)
	return len(made)
}

// TestMakeProcedures: procedures are made once, and again if missing or outdated; one that is not hipq's is never replaced.
func TestMakeProcedures(t *testing.T) {
	db := dbtest.Open(t, "mysql", dbtest.MySQL(t), "emails", "high")
	all := remade(t, db)
	dbtest.Ensure(t, all >= len(schema.Procedures) && remade(t, db) == 0, "made %d, and again", all)
	dbtest.Exec(t, db.SQL, "DROP PROCEDURE shop_job_start", "ALTER PROCEDURE shop_emails$grab COMMENT 'hipq: queue emails of instance shop, 0123'")
	seen, old, unseen, err := db.CheckProcedures(t.Context(), withProcedures)
	dbtest.Ensure(t, err == nil && seen == all-1 && strings.Join(old, " ") == "shop_emails$grab" && strings.Join(unseen, " ") == "shop_job_start",
		"%d, %v, %v, %v", seen, old, unseen, err)
	n := remade(t, db)
	dbtest.Ensure(t, n == 2 && remade(t, db) == 0, "made %d again", n)
	queues := []schema.Queue{{Name: "high", Order: schema.OrderHighest}}
	migrate(t, db, queues...)
	if made, err := db.MakeProcedures(t.Context(), queues); err != nil || len(made) == 0 || !strings.HasPrefix(made[0], "shop_high$") {
		t.Errorf("%v, %v", made, err)
	}
	for _, comment := range []string{"ours", "hipq: instance shop_eu, 0123", "hipq: queue files of instance shop, 0123"} {
		dbtest.Exec(t, db.SQL, "ALTER PROCEDURE shop_job_grab COMMENT '"+comment+"'", "ALTER PROCEDURE shop_job_start COMMENT 'hipq: instance shop, 0123'")
		made, err := db.MakeProcedures(t.Context(), withProcedures)
		dbtest.Ensure(t, errors.Is(err, schema.ErrTableTaken) && len(made) == 0 && strings.Contains(err.Error(), "shop_job_grab"),
			"%q: %v, %v", comment, made, err)
	}
}

// TestProceduresRights: a user that may not create procedures learns what is left out; an application needs only the right to call them.
func TestProceduresRights(t *testing.T) {
	source := dbtest.MySQL(t)
	root := dbtest.Open(t, "mysql", source, "emails")
	cfg := dbtest.Must(mysql.ParseDSN(source))(t)
	user := cfg.DBName + "_u"
	dbtest.Exec(t, root.SQL, "CREATE USER '"+user+"'@'%' IDENTIFIED BY 'secret'", "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX, DROP ON `"+cfg.DBName+"`.* TO '"+user+"'@'%'")
	t.Cleanup(func() {
		_, err := root.SQL.ExecContext(context.Background(), "DROP USER '"+user+"'@'%'")
		dbtest.Ensure(t, err == nil, "%v", err)
	})
	its := *cfg
	its.User, its.Passwd = user, "secret"
	open := func() *schema.DB { return opened(t, schema.Options{Driver: "mysql", DSN: its.FormatDSN()}) }
	made, err := open().MakeProcedures(t.Context(), withProcedures)
	dbtest.Ensure(t, errors.Is(err, schema.ErrNoProcedures) && len(made) == 0 && strings.Contains(err.Error(), "CREATE ROUTINE"),
		"%v, %v", made, err)
	remade(t, root)
	dbtest.Exec(t, root.SQL, "REVOKE ALL PRIVILEGES, GRANT OPTION FROM '"+user+"'@'%'", "INSERT INTO shop_queues (queue) VALUES ('emails')")
	grants := dbtest.Must(schema.Grants(schema.Options{Driver: "mysql", DSN: source}, schema.Named("shop"), withProcedures))(t)
	for _, statement := range grants.Submitter {
		dbtest.Exec(t, root.SQL, strings.Replace(statement, "'submitter'", "'"+user+"'", 1))
	}
	app := open()
	dbtest.Exec(t, app.SQL, "CALL shop_job_submit('emails', 'send', 'k', NULL, NULL)", "CALL shop_job_backlog('emails', NULL)")
	for _, statement := range []string{
		"CALL shop_job_grab('w', 'emails', 'send', 1)", "CALL shop_emails$backlog(NULL, @n)", "SELECT 1 FROM shop_emails", "DELETE FROM shop_activity",
		"DROP PROCEDURE shop_job_submit",
	} {
		_, err := app.SQL.ExecContext(t.Context(), statement)
		dbtest.Ensure(t, err != nil && strings.Contains(err.Error(), "denied"), "%s: %v", statement, err)
	}
	for _, statement := range grants.SQLWorker {
		dbtest.Exec(t, root.SQL, strings.Replace(statement, "'sql_worker'", "'"+user+"'", 1))
	}
	work := []string{"CALL shop_worker_register(SHA2(UUID(), 256), NULL, NULL, NULL)", "CALL shop_job_submit('emails', 'send', NULL, NULL, NULL)"}
	dbtest.Exec(t, open().SQL, work...)

	// the right to call a procedure extends to its next version, also if its definer is gone
	dbtest.Exec(t, root.SQL, "CREATE USER '"+user+"2'@'%'", "GRANT ALL ON `"+cfg.DBName+"`.* TO '"+user+"2'@'%'")
	for _, name := range schema.Procedures {
		dbtest.Exec(t, root.SQL, "ALTER PROCEDURE shop_"+name+" COMMENT 'hipq: instance shop, 0123'")
	}
	dbtest.Same(t, remade(t, root), len(schema.Procedures), "made")
	dbtest.Exec(t, open().SQL, work...)
	its.User, its.Passwd = user+"2", ""
	second := open()
	for _, loss := range []string{"REVOKE ALL PRIVILEGES, GRANT OPTION FROM '" + user + "2'@'%'", "DROP USER '" + user + "2'@'%'"} {
		dbtest.Exec(t, root.SQL, "GRANT ALL ON `"+cfg.DBName+"`.* TO '"+user+"2'@'%'",
			"ALTER PROCEDURE shop_job_submit COMMENT 'hipq: instance shop, 0123'", "ALTER PROCEDURE shop_worker_register COMMENT 'hipq: instance shop, 0123'")
		var maria bool
		dbtest.OK(t, root.SQL.GetContext(t.Context(), &maria, "SELECT VERSION() LIKE '%MariaDB%'"))
		if !maria { // there, replacing root's procedures needs a right that MariaDB doesn't have
			_, err := second.MakeProcedures(t.Context(), withProcedures)
			if !errors.Is(err, schema.ErrNoProcedures) || !strings.Contains(err.Error(), "because root@") || strings.Contains(err.Error(), "CREATE ROUTINE") {
				t.Error(err)
			}
			dbtest.Exec(t, root.SQL, "GRANT SYSTEM_USER ON *.* TO '"+user+"2'@'%'")
		}
		made, err := second.MakeProcedures(t.Context(), withProcedures)
		if lost := errors.Is(err, schema.ErrRightsLost); len(made) != 2 || err != nil && !lost {
			t.Errorf("%v, %v", made, err)
		} else if lost { // on MySQL this user may not read the rights
			dbtest.Ensure(t, strings.Contains(err.Error(), "GRANT EXECUTE ON PROCEDURE shop_job_submit TO "), "%v", err)
			dbtest.Exec(t, root.SQL, "GRANT EXECUTE ON PROCEDURE shop_job_submit TO '"+user+"'@'%'", "GRANT EXECUTE ON PROCEDURE shop_worker_register TO '"+user+"'@'%'")
		}
		dbtest.Exec(t, root.SQL, loss)
		_, old, _, err := root.CheckProcedures(t.Context(), withProcedures)
		dbtest.Ensure(t, err == nil && strings.Join(old, " ") == "shop_job_submit shop_worker_register", "%s: %v, %v", loss, old, err)
		n := remade(t, root)
		dbtest.Ensure(t, n == 2 && remade(t, root) == 0, "made %d", n)
	}
	its.User, its.Passwd = user, "secret"
	dbtest.Exec(t, open().SQL, work...)
}

// TestProcedureIsDropped: a user that may drop a procedure but not create one learns which rights were lost, and that a procedure is missing.
func TestProcedureIsDropped(t *testing.T) {
	source := dbtest.MySQL(t)
	root := dbtest.Open(t, "mysql", source, "emails")
	var maria bool
	if dbtest.OK(t, root.SQL.GetContext(t.Context(), &maria, "SELECT VERSION() LIKE '%MariaDB%'")); maria {
		t.Skip("MariaDB replaces a procedure in one statement")
	}
	remade(t, root)
	its := dbtest.Must(mysql.ParseDSN(source))(t)
	its.User, its.Passwd = its.DBName+"_d", ""
	user := "'" + its.User + "'@'%'"
	dbtest.Exec(t, root.SQL, "CREATE USER "+user, "GRANT ALTER ROUTINE, EXECUTE ON `"+its.DBName+"`.* TO "+user, "GRANT SYSTEM_USER ON *.* TO "+user,
		"ALTER PROCEDURE shop_job_submit COMMENT 'hipq: instance shop, 0123'")
	defer func() { dbtest.Exec(t, root.SQL, "DROP USER "+user) }()
	db := opened(t, schema.Options{Driver: "mysql", DSN: its.FormatDSN()})
	_, err := db.MakeProcedures(t.Context(), withProcedures)
	dbtest.Ensure(t, errors.Is(err, schema.ErrNoProcedures) && !errors.Is(err, schema.ErrRightsLost) &&
		strings.Contains(err.Error(), "GRANT EXECUTE ON PROCEDURE shop_job_submit TO "), "%v", err)
	dbtest.Same(t, remade(t, root), 1, "made")
}

// TestRightsToOneQueue: with the rights to one queue's procedures, a program works its jobs, and touches no other queue.
func TestRightsToOneQueue(t *testing.T) {
	source := dbtest.MySQL(t)
	root := dbtest.Open(t, "mysql", source, "emails", "files")
	names := schema.Named("shop")
	grants := dbtest.Must(schema.Grants(schema.Options{Driver: "mysql", DSN: source}, names, withProcedures))(t)
	its := dbtest.Must(mysql.ParseDSN(source))(t)
	user := its.DBName + "_q"
	queues := []schema.Queue{{Name: "emails"}, {Name: "files"}}
	dbtest.Must(root.MakeProcedures(t.Context(), queues))(t)
	dbtest.Exec(t, root.SQL, "CREATE USER '"+user+"'@'%'", "INSERT INTO shop_queues (queue) VALUES ('emails'), ('files')")
	defer func() { dbtest.Exec(t, root.SQL, "DROP USER '"+user+"'@'%'") }()
	for _, statement := range grants.QueueWorker {
		dbtest.Exec(t, root.SQL, strings.Replace(statement, "'emails_worker'", "'"+user+"'", 1))
	}
	its.User, its.Passwd = user, ""
	one := opened(t, schema.Options{Driver: "mysql", DSN: its.FormatDSN()})
	const secret = "'0123456789abcdef0123456789abcdef'"
	dbtest.Exec(t, one.SQL, "CALL shop_worker_register("+secret+", NULL, NULL, NULL)", "CALL shop_emails$job_submit('send', 'k', NULL, NULL)",
		"CALL shop_emails$job_backlog(NULL)", "CALL shop_emails$job_grab("+secret+", 'send', 1)")
	var mine string
	dbtest.OK(t, root.SQL.GetContext(t.Context(), &mine, "SELECT CONCAT(?, ', ', id, ', ''', lock_token, '''') FROM shop_emails WHERE status = 'locked'", secret))
	dbtest.Exec(t, one.SQL, "CALL shop_emails$job_start("+mine+")", "CALL shop_emails$job_progress("+mine+", 50, NULL)", "CALL shop_emails$job_complete("+mine+", 'ok')")
	dbtest.Exec(t, root.SQL, "CALL shop_job_submit('files', 'send', NULL, NULL, NULL)")
	for _, statement := range []string{
		"CALL shop_job_grab(" + secret + ", 'files', 'send', 1)", "CALL shop_files$job_grab(" + secret + ", 'send', 1)",
		"CALL shop_job_submit('files', 'send', NULL, NULL, NULL)", "CALL shop_files$job_submit('send', NULL, NULL, NULL)",
		"CALL shop_files$job_backlog(NULL)", "CALL shop_emails$grab('w', 't', '[]', 1, 1)", "SELECT 1 FROM shop_emails",
	} {
		_, err := one.SQL.ExecContext(t.Context(), statement)
		dbtest.Ensure(t, err != nil && strings.Contains(err.Error(), "denied"), "%s: %v", statement, err)
	}
}

// TestGrants: with its rights from Grants, an application can enqueue, but neither read nor write hipq's own data.
func TestGrants(t *testing.T) {
	source := dbtest.MySQL(t)
	root := dbtest.Open(t, "mysql", source, "emails")
	grants := dbtest.Must(schema.Grants(schema.Options{Driver: "mysql", DSN: source}, schema.Named("shop"), []schema.Queue{{Name: "emails"}}))(t)
	const application = "hipq_application"
	for _, statement := range []string{"DROP USER IF EXISTS " + application, "CREATE USER " + application + " IDENTIFIED BY 'secret'"} {
		dbtest.Exec(t, root.SQL, statement)
	}
	for range 2 { // they may be printed and run again
		dbtest.Exec(t, root.SQL, grants.Triggers...)
	}
	all := strings.Join(grants.Triggers, "")
	dbtest.Ensure(t, !strings.Contains(all, "CREATE TRIGGER IF NOT EXISTS") && !strings.Contains(all, "OR REPLACE"), "MySQL 8.0.13 doesn't take it: %s", all)
	for _, statement := range grants.Application {
		dbtest.Must(root.SQL.ExecContext(t.Context(), strings.Replace(statement, "'application'", "'"+application+"'", 1)))(t)
	}
	cfg := dbtest.Must(mysql.ParseDSN(source))(t)
	cfg.User, cfg.Passwd = application, "secret"
	app := dbtest.Must(sql.Open("mysql", cfg.FormatDSN()))(t) // as an application does
	defer func() { _ = app.Close() }()
	for statement, allowed := range map[string]bool{
		"INSERT INTO shop_emails (job_type) VALUES ('send')":                            true,
		"INSERT INTO shop_emails (job_type, job_key, priority) VALUES ('send', 'a', 5)": true,
		"INSERT INTO shop_emails (id, job_type) VALUES (9223372036854775807, 'send')":   false,
		"INSERT INTO shop_emails (job_type, status) VALUES ('send', 'available')":       false,
		"INSERT INTO shop_emails (job_type, attempt) VALUES ('send', 4294967295)":       false,
		"SELECT COUNT(*) FROM shop_emails":                                              false,
		"UPDATE shop_emails SET priority = 1":                                           false,
		"DELETE FROM shop_emails":                                                       false,
		"INSERT INTO shop_queues (queue) VALUES ('x')":                                  false,
	} {
		_, err := app.ExecContext(t.Context(), statement)
		dbtest.Ensure(t, (err == nil) == allowed, "%s: %v", statement, err)
	}
	const one = "(job_type) VALUES ('send')"
	for _, c := range [][3]string{ // session, columns and values, what the trigger says; empty: it takes the row
		{"insert_id = 9223372036854775807", one, "has set insert_id"},
		{"unique_checks = 0, foreign_key_checks = 0", one, "unique_checks = 0"}, // in an empty table, MariaDB would lock it
		{"timestamp = 1", one, "has set timestamp"},
		{"timestamp = UNIX_TIMESTAMP() + 60", one, "has set timestamp"},
		{"timestamp = UNIX_TIMESTAMP() - 600", one, ""}, // as in a statement that has waited
		{"sql_mode = ''", "(job_type, timeout) VALUES ('send', 5), ('send', '5m')", "Data truncated for column 'timeout'"},
		{"sql_mode = ''", "(job_type, priority) VALUES ('send', 'high')", "Incorrect integer value"},
		{"sql_mode = ''", "(job_type, timeout) VALUES ('send', -5)", "Out of range value for column 'timeout'"},
		{"sql_mode = ''", "(job_type, scheduled_run_time) VALUES ('send', '2026-01-01 10:00 tomorrow')", "Data truncated for column 'scheduled_run_time'"},
		{"sql_mode = ''", "(job_type, timeout, scheduled_run_time) VALUES ('send', '5', '2026-01-01 10:00:00')", ""},
		{"sql_mode = 'STRICT_ALL_TABLES'", "(job_type, job_data, job_key, shard_key, scheduled_run_time, priority, timeout, time_windows) VALUES ('null', NULL, NULL, NULL, NULL, NULL, NULL, NULL)", ""},
		{"sql_mode = ''", "(job_type, job_key, timeout) VALUES ('send', 'a', 5), ('send', 'a', 5), ('send', 'b', 5)", "Duplicate entry"},
	} {
		session := dbtest.Must(app.Conn(t.Context()))(t)
		dbtest.Must(session.ExecContext(t.Context(), "SET "+c[0]))(t)
		_, err := session.ExecContext(t.Context(), "INSERT INTO shop_emails "+c[1])
		my, _ := errors.AsType[*mysql.MySQLError](err)
		right := my != nil && c[2] != "" && strings.Contains(my.Message, c[2]) && (my.Number == 31017 || my.Number == 1062)
		dbtest.Ensure(t, right || err == nil && c[2] == "", "SET %s; INSERT %s: %v", c[0], c[1], err)
		_ = session.Raw(func(any) error { return driver.ErrBadConn })
	}
	var whole bool
	dbtest.OK(t, root.SQL.GetContext(t.Context(), &whole, "SELECT job_data = 'NONE' AND LENGTH(job_key) = 36 AND shard_key = 'NONE'"+
		" AND scheduled_run_time BETWEEN UTC_TIMESTAMP() - INTERVAL 1 HOUR AND UTC_TIMESTAMP(6) FROM shop_emails WHERE job_type = 'null'"))
	dbtest.Ensure(t, whole, "NULL is not the default")
	dbtest.Must(app.ExecContext(t.Context(), "INSERT INTO shop_emails (job_type) VALUES ('send'), ('send')"))(t)
	var last int64
	dbtest.OK(t, root.SQL.GetContext(t.Context(), &last, "SELECT MAX(id) FROM shop_emails"))
	dbtest.Ensure(t, last <= 100, "%d", last)
	// if the trigger's definer is gone, no user can insert
	dbtest.Exec(t, root.SQL, grants.Triggers[0], strings.Replace(grants.Triggers[1], "CREATE", "CREATE DEFINER = 'hipq_gone'@'%'", 1))
	_, err := root.SQL.ExecContext(t.Context(), "INSERT INTO shop_emails (job_type) VALUES ('send')")
	my, _ := errors.AsType[*mysql.MySQLError](err)
	dbtest.Ensure(t, my != nil && my.Number == 1449, "%v", err)
}

// TestLongestTrigger: the longest table name leaves room for its trigger.
func TestLongestTrigger(t *testing.T) {
	source := dbtest.MySQL(t)
	root := dbtest.Open(t, "mysql", source)
	names := dbtest.Must(schema.NewNames("shop", "t_{instance}_{queue}"))(t)
	queue := strings.Repeat("q", 44)
	table, err := names.CheckQueue(queue)
	dbtest.Require(t, err == nil && len(table) == 51, "%s, %v", table, err)
	grants := dbtest.Must(schema.Grants(schema.Options{Driver: "mysql", DSN: source}, names, []schema.Queue{{Name: queue}}))(t)
	dbtest.Exec(t, root.SQL, "CREATE TABLE "+table+" (id BIGINT, job_data TEXT, job_key TEXT, shard_key TEXT, scheduled_run_time DATETIME(6))")
	dbtest.Exec(t, root.SQL, grants.Triggers...)
}
