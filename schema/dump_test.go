package schema_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/schema"
)

// TestMigrateAdoptsEmptyTables: after a dump without data, tables exist that have no owner. Those that are as hipq makes them,
// and empty, are its own again; others stay somebody else's.
func TestMigrateAdoptsEmptyTables(t *testing.T) {
	dbtest.EachOpen(t, func(t *testing.T, db *schema.DB) {
		queues := []schema.Queue{{Name: "emails"}, {Name: "files", Order: schema.OrderHighest}}
		migrate(t, db, queues...)
		made := layout(t, db)
		for range 2 {
			dbtest.Exec(t, db.SQL, "DELETE FROM hipq_tables")
			changed, err := db.Migrate(t.Context(), queues)
			dbtest.Ensure(t, err == nil && len(changed) == 11, "%v, %v", changed, err)
			dbtest.Same(t, db.Check(t.Context(), queues), nil, "adopted")
			dbtest.Same(t, layout(t, db), made, "layout")
		}
		for what, statements := range map[string][2]string{
			"another order": {"SELECT 1", "SELECT 1"},
			"a row":         {"INSERT INTO shop_emails (job_type) VALUES ('send')", "DELETE FROM shop_emails"},
			"a column":      {"ALTER TABLE shop_emails ADD COLUMN note INT", "ALTER TABLE shop_emails DROP COLUMN note"},
		} {
			other := queues
			if what == "another order" {
				other = []schema.Queue{{Name: "emails", Order: schema.OrderSchedule}}
			}
			dbtest.Exec(t, db.SQL, "DELETE FROM hipq_tables", statements[0])
			_, err := db.Migrate(t.Context(), other)
			dbtest.Ensure(t, errors.Is(err, schema.ErrTableTaken), "%s: %v", what, err)
			dbtest.Exec(t, db.SQL, statements[1])
		}
	})
}

// TestDumps: a dump can be loaded under another name and into another server, with the trigger and the procedures; so can one
// of the structure only, of which Migrate adopts the tables. A MySQL's is made by its own mysqldump, if that is here.
func TestDumps(t *testing.T) {
	client, dump := dbtest.Client(t, "mariadb"), dbtest.Client(t, "mariadb-dump")
	tls := map[string]string{client: "--skip-ssl", dump: "--skip-ssl"}
	source := dbtest.MySQL(t)
	queues := []schema.Queue{{Name: "emails"}}
	from := dbtest.Open(t, "mysql", source, "emails")
	grants := dbtest.Must(schema.Grants(schema.Options{Driver: "mysql", DSN: source}, schema.Named("shop"), queues))(t)
	dbtest.Must(from.MakeProcedures(t.Context(), queues))(t)
	dbtest.Exec(t, from.SQL, append(grants.Triggers, "INSERT INTO shop_emails (job_type, job_key) VALUES ('send', 'k')")...)
	run := func(dsn, program, input string, options ...string) string {
		t.Helper()
		cfg := dbtest.Must(mysql.ParseDSN(dsn))(t)
		host, port, _ := strings.Cut(cfg.Addr, ":")
		c := exec.Command(program, append([]string{"--no-defaults", "--host=" + host, "--port=" + port, "--user=" + cfg.User, tls[program]}, append(options, cfg.DBName)...)...)
		c.Stdin = strings.NewReader(input)
		var errs strings.Builder
		c.Stderr = &errs
		out, err := c.Output()
		dbtest.Require(t, err == nil, "%s %v: %v: %s", program, options, err, errs.String())
		return string(out)
	}
	options := []string{"--routines"}
	var version string
	dbtest.OK(t, from.SQL.GetContext(t.Context(), &version, "SELECT VERSION()"))
	is, err := exec.Command("mysqldump", "--version").Output()
	switch mariaDB := strings.Contains(version, "MariaDB"); {
	case !mariaDB && err == nil && !strings.Contains(string(is), "MariaDB"):
		dump, tls["mysqldump"] = "mysqldump", "--ssl-mode=DISABLED"
	case !mariaDB: // MariaDB's takes MySQL's generated columns for data
		options = append(options, "--ignore-table-data="+dbtest.Must(mysql.ParseDSN(source))(t).DBName+".shop_emails")
	}
	whole := run(source, dump, "", options...)
	bare := run(source, dump, "", "--no-data", "--skip-triggers")
	targets := map[string]string{"another name": dbtest.MySQL(t)}
	if len(options) == 1 { // a MariaDB doesn't take a MySQL's
		elsewhere := dbtest.Must(mysql.ParseDSN(dbtest.OwnMySQL(t)))(t)
		elsewhere.DBName = "copy"
		_ = run(strings.Replace(elsewhere.FormatDSN(), "/copy", "/mysql", 1), client, "CREATE DATABASE copy CHARACTER SET latin1;")
		targets["another server"] = elsewhere.FormatDSN()
	}
	for name, dsn := range targets {
		to := opened(t, schema.Options{Driver: "mysql", DSN: dsn})
		_ = run(dsn, client, bare)
		changed, err := to.Migrate(t.Context(), queues)
		dbtest.Ensure(t, err == nil && len(changed) == 10, "%s, structure only: %v, %v", name, changed, err)
		_ = run(dsn, client, whole)
		dbtest.Same(t, to.Check(t.Context(), queues), nil, name)
		var n int
		dbtest.OK(t, to.SQL.GetContext(t.Context(), &n, "SELECT COUNT(*) FROM shop_emails WHERE job_key = 'k'"))
		_, err = to.SQL.ExecContext(t.Context(), "SET timestamp = 1; INSERT INTO shop_emails (job_type) VALUES ('send')")
		my, _ := errors.AsType[*mysql.MySQLError](err)
		dbtest.Ensure(t, n == 2-len(options) && my != nil && my.Number == 31017, "%s: %d jobs, the trigger says %v", name, n, err)
		if from.SQL.IDsByKey && !to.SQL.IDsByKey { // a cluster's procedures are longer, and init makes those of the server
			_, old, _, err := to.CheckProcedures(t.Context(), queues)
			dbtest.Ensure(t, err == nil && len(old) > 0, "%s: old %v: %v", name, old, err)
			dbtest.Must(to.MakeProcedures(t.Context(), queues))(t)
		}
		seen, old, unseen, err := to.CheckProcedures(t.Context(), queues)
		dbtest.Ensure(t, err == nil && seen > 10 && len(old)+len(unseen) == 0, "%s: %d procedures, old %v, unseen %v: %v", name, seen, old, unseen, err)
	}
}
