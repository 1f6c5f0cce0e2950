package schema_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/schema"
)

// TestMakeViews: views are made once, and again if missing, outdated or without their definer; one that is not hipq's is never
// replaced. A table's order can still be changed under them.
func TestMakeViews(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db := dbtest.Open(t, driver, source, "emails", "high")
		made := func() string {
			t.Helper()
			return strings.Join(dbtest.Must(db.MakeViews(t.Context(), withProcedures))(t), " ")
		}
		dbtest.Same(t, made(), "shop_emails$jobs shop_emails$failures", "made")
		dbtest.Same(t, made(), "", "made again")
		dbtest.Exec(t, db.SQL, "DROP VIEW shop_emails$jobs", "DROP VIEW shop_emails$failures",
			"CREATE VIEW shop_emails$jobs AS SELECT id FROM shop_emails WHERE 'hipq: queue emails of instance shop, 0123' <> ''")
		dbtest.Same(t, made(), "shop_emails$jobs shop_emails$failures", "made, after an older version")
		if driver == "mysql" {
			its := dbtest.Must(mysql.ParseDSN(source))(t)
			user := "'" + its.DBName + "_v'@'%'"
			var create string
			dbtest.OK(t, db.SQL.GetContext(t.Context(), &create, "SELECT view_definition FROM information_schema.views WHERE table_schema = DATABASE() AND table_name = 'shop_emails$jobs'"))
			dbtest.Exec(t, db.SQL, "CREATE USER "+user, "GRANT SELECT ON `"+its.DBName+"`.* TO "+user, "DROP VIEW shop_emails$jobs",
				"CREATE DEFINER = "+user+" SQL SECURITY DEFINER VIEW shop_emails$jobs AS "+create)
			dbtest.Same(t, made(), "", "of another definer")
			for _, loss := range []string{"REVOKE ALL PRIVILEGES, GRANT OPTION FROM " + user, "DROP USER " + user} {
				dbtest.Exec(t, db.SQL, loss)
				dbtest.Same(t, made(), "shop_emails$jobs", "%s", loss)
				if strings.HasPrefix(loss, "REVOKE") {
					dbtest.Exec(t, db.SQL, "DROP VIEW shop_emails$jobs", "CREATE DEFINER = "+user+" SQL SECURITY DEFINER VIEW shop_emails$jobs AS "+create)
				}
			}
		}
		queues := []schema.Queue{{Name: "emails"}, {Name: "high", Order: schema.OrderHighest}}
		dbtest.Must(db.MakeViews(t.Context(), queues))(t)
		migrate(t, db, queues...)
		dbtest.Exec(t, db.SQL, "DROP VIEW shop_emails$jobs", "CREATE VIEW shop_emails$jobs AS SELECT 1 AS one")
		_, err := db.MakeViews(t.Context(), withProcedures)
		dbtest.Ensure(t, errors.Is(err, schema.ErrTableTaken) && strings.Contains(err.Error(), "shop_emails$jobs"), "%v", err)
	})
}

// TestViewsRights: a user that may not create views learns what is left out.
func TestViewsRights(t *testing.T) {
	source := dbtest.MySQL(t)
	root := dbtest.Open(t, "mysql", source, "emails")
	its := dbtest.Must(mysql.ParseDSN(source))(t)
	its.User, its.Passwd = its.DBName+"_w", ""
	user := "'" + its.User + "'@'%'"
	dbtest.Exec(t, root.SQL, "CREATE USER "+user, "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX, DROP ON `"+its.DBName+"`.* TO "+user)
	defer func() { dbtest.Exec(t, root.SQL, "DROP USER "+user) }()
	made, err := opened(t, schema.Options{Driver: "mysql", DSN: its.FormatDSN()}).MakeViews(t.Context(), withProcedures)
	dbtest.Ensure(t, errors.Is(err, schema.ErrNoViews) && len(made) == 0 && strings.Contains(err.Error(), "CREATE VIEW"), "%v, %v", made, err)
}

// TestRightsToOperate: each right to a view or a procedure is one by itself, for one queue or for all.
func TestRightsToOperate(t *testing.T) {
	source := dbtest.MySQL(t)
	root := dbtest.Open(t, "mysql", source, "emails", "files")
	its := dbtest.Must(mysql.ParseDSN(source))(t)
	queues := []schema.Queue{{Name: "emails"}, {Name: "files"}}
	grants := dbtest.Must(schema.Grants(schema.Options{Driver: "mysql", DSN: source}, schema.Named("shop"), queues))(t)
	dbtest.Must(root.MakeProcedures(t.Context(), queues))(t)
	dbtest.Must(root.MakeViews(t.Context(), queues))(t)
	user := its.DBName + "_o"
	dbtest.Exec(t, root.SQL, "INSERT INTO shop_queues (queue) VALUES ('emails'), ('files')", "CALL shop_job_submit('emails', 'send', 'k', NULL, NULL)",
		"CALL shop_job_submit('files', 'send', 'k', NULL, NULL)")
	ofEmails := []string{
		"SELECT 1 FROM shop_emails$jobs", "SELECT 1 FROM shop_emails$failures", "CALL shop_emails$job_get(NULL, 'send', 'k')", "CALL shop_emails$job_reschedule(NULL, 'send', 'k', '{\"in\":0}')",
		"CALL shop_emails$job_answer(NULL, 'send', 'k', 'finished', NULL, NULL)", "CALL shop_emails$job_cancel(NULL, 'send', 'k', NULL)", "CALL shop_emails$job_retry(NULL, 'send', 'k')",
		"CALL shop_emails$job_dismiss(1, NULL, NULL)", "CALL shop_emails$queue_pause(FALSE)",
	}
	ofAll := []string{
		"CALL shop_job_get('files', NULL, 'send', 'k')", "CALL shop_job_reschedule('files', NULL, 'send', 'k', '{\"in\":0}')", "CALL shop_job_answer('files', NULL, 'send', 'k', 'finished', NULL, NULL)",
		"CALL shop_job_cancel('files', NULL, 'send', 'k', NULL)", "CALL shop_job_retry('files', NULL, 'send', 'k')", "CALL shop_job_dismiss('files', 1, NULL, NULL)", "CALL shop_queue_pause('files', FALSE)",
	}
	others := []string{
		"SELECT 1 FROM shop_emails", "SELECT 1 FROM shop_activity", "UPDATE shop_emails$jobs SET priority = 1", "DELETE FROM shop_emails$failures", "CALL shop_job_submit('emails', 'send', 'k', NULL, NULL)",
		"CALL shop_emails$cancel(1, NULL, NULL, TRUE, TRUE, @s)", "CALL shop_emails$answer(1, NULL, NULL, NULL, 'finished', NULL, NULL, NULL, TRUE, @s, @c)", "CALL shop_files$job_get(1, NULL, NULL)",
		"DROP VIEW shop_emails$jobs",
	}
	// may runs statements as a user with some rights, and checks which are denied
	may := func(rights []string, allowed func(statement string) bool) {
		t.Helper()
		dbtest.Exec(t, root.SQL, "CREATE USER '"+user+"'@'%'")
		defer func() { dbtest.Exec(t, root.SQL, "DROP USER '"+user+"'@'%'") }()
		for _, right := range rights {
			before, _, _ := strings.Cut(right, " TO ")
			dbtest.Exec(t, root.SQL, before+" TO '"+user+"'@'%'")
		}
		as := *its
		as.User, as.Passwd = user, ""
		db := opened(t, schema.Options{Driver: "mysql", DSN: as.FormatDSN()})
		defer func() { _ = db.Close() }()
		for _, list := range [][]string{ofEmails, ofAll, others} {
			for _, statement := range list {
				_, err := db.SQL.ExecContext(t.Context(), statement)
				denied := err != nil && strings.Contains(err.Error(), "denied")
				dbtest.Ensure(t, denied != allowed(statement), "%s: %v", statement, err)
			}
		}
	}
	isIn := func(list []string) func(string) bool {
		return func(statement string) bool { return strings.Contains(strings.Join(list, "\n")+"\n", statement+"\n") }
	}
	var emails []string
	for _, right := range grants.QueueOperator {
		if object := strings.Split(right, "`")[3]; strings.HasPrefix(object, "shop_emails$") {
			emails = append(emails, right)
			may([]string{right}, func(statement string) bool {
				return isIn(ofEmails)(statement) && strings.Contains(statement, " "+object)
			})
		}
	}
	may(emails, isIn(ofEmails))
	var views int
	for _, right := range grants.Operator {
		if strings.HasPrefix(right, "GRANT SELECT") {
			views++
		}
	}
	dbtest.Same(t, views, 4, "views")
	may(grants.Operator[views:], isIn(ofAll))
}
