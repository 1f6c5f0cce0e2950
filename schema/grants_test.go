package schema_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/schema"
)

// With what Grants gives it, an application can enqueue, and nothing else: neither read, nor write what is hipq's alone.
func TestGrants(t *testing.T) {
	source := dbtest.MySQL(t)
	root := dbtest.Open(t, "mysql", source, "emails")
	grants, err := schema.Grants(schema.Options{Driver: "mysql", DSN: source}, schema.Named("shop"), []schema.Queue{{Name: "emails"}})
	dbtest.OK(t, err)
	const application = "hipq_application"
	for _, statement := range []string{"DROP USER IF EXISTS " + application, "CREATE USER " + application + " IDENTIFIED BY 'secret'"} {
		execute(t, root, statement)
	}
	for range 2 { // they may be printed, and run, again
		execute(t, root, grants.Triggers...)
	}
	if all := strings.Join(grants.Triggers, ""); strings.Contains(all, "CREATE TRIGGER IF NOT EXISTS") || strings.Contains(all, "OR REPLACE") {
		t.Errorf("MySQL 8.0.13 doesn't take it: %s", all)
	}
	for _, statement := range grants.Application {
		dbtest.Must(root.SQL.ExecContext(t.Context(), strings.Replace(statement, "'application'", "'"+application+"'", 1)))(t)
	}
	cfg := dbtest.Must(mysql.ParseDSN(source))(t)
	cfg.User, cfg.Passwd = application, "secret"
	app, err := sql.Open("mysql", cfg.FormatDSN()) // as an application does
	dbtest.OK(t, err)
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
	session, err := app.Conn(t.Context())
	dbtest.OK(t, err)
	defer func() { _ = session.Close() }()
	dbtest.Must(session.ExecContext(t.Context(), "SET insert_id = 9223372036854775807"))(t)
	_, err = session.ExecContext(t.Context(), "INSERT INTO shop_emails (job_type) VALUES ('send')")
	my, _ := errors.AsType[*mysql.MySQLError](err)
	dbtest.Ensure(t, my != nil && my.Number == 31017, "SET insert_id: %v", err)
	if _, err := app.ExecContext(t.Context(), "INSERT INTO shop_emails (job_type) VALUES ('send'), ('send')"); err != nil {
		t.Error(err)
	}
	var last int64
	if err := root.SQL.GetContext(t.Context(), &last, "SELECT MAX(id) FROM shop_emails"); err != nil || last > 100 {
		t.Errorf("%d, %v", last, err)
	}
	// when the user is gone that has made the trigger, nobody can insert
	execute(t, root, grants.Triggers[0], strings.Replace(grants.Triggers[1], "CREATE", "CREATE DEFINER = 'hipq_gone'@'%'", 1))
	_, err = root.SQL.ExecContext(t.Context(), "INSERT INTO shop_emails (job_type) VALUES ('send')")
	my, _ = errors.AsType[*mysql.MySQLError](err)
	dbtest.Ensure(t, my != nil && my.Number == 1449, "%v", err)
}

// The longest name of a table leaves room for its trigger.
func TestLongestTrigger(t *testing.T) {
	source := dbtest.MySQL(t)
	root := dbtest.Open(t, "mysql", source)
	names := dbtest.Must(schema.NewNames("shop", "t_{instance}_{queue}"))(t)
	queue := strings.Repeat("q", 44)
	table, err := names.CheckQueue(queue)
	if err != nil || len(table) != 51 {
		t.Fatalf("%s, %v", table, err)
	}
	grants := dbtest.Must(schema.Grants(schema.Options{Driver: "mysql", DSN: source}, names, []schema.Queue{{Name: queue}}))(t)
	execute(t, root, "CREATE TABLE "+table+" (id BIGINT)")
	execute(t, root, grants.Triggers...)
}
