package schema_test

import (
	"errors"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/schema"
)

// inGBK are texts that break out of a string if their bytes are read as GBK or Big5: the last byte before the quote
// swallows the escaping backslash.
var inGBK = []string{`€'), (DATABASE()) -- `, `€"), (DATABASE()) -- `, "¬'), (DATABASE()) -- "}

// TestCharacterSetIsOurOwn: texts stay texts, whatever character set the server or a DSN gives a connection.
func TestCharacterSetIsOurOwn(t *testing.T) {
	source := dbtest.OwnMySQL(t, "--init-connect=SET NAMES gbk")
	root := dbtest.Open(t, "mysql", source, "emails")
	cfg := dbtest.Must(mysql.ParseDSN(source))(t)
	// the server skips init_connect for an administrator
	cfg.User, cfg.Passwd = "hipq_gbk", "secret"
	for _, statement := range []string{
		"CREATE USER IF NOT EXISTS hipq_gbk@'%' IDENTIFIED BY 'secret'", "GRANT ALL ON " + cfg.DBName + ".* TO hipq_gbk@'%'",
	} {
		dbtest.Exec(t, root.SQL, statement)
	}
	var sent string
	dbtest.OK(t, root.SQL.GetContext(t.Context(), &sent, "SELECT @@init_connect"))
	dbtest.Same(t, sent, "SET NAMES gbk", "what the server does with a connection")
	for _, options := range []string{"", "?charset=utf8mb4", "?collation=utf8mb4_general_ci"} {
		wantTexts(t, cfg.FormatDSN()+options)
	}
}

// wantTexts checks that texts survive unchanged in the database of this DSN.
func wantTexts(t *testing.T, source string) {
	t.Helper()
	db := dbtest.Open(t, "mysql", source, "emails")
	for _, text := range inGBK {
		dbtest.Exec(t, db.SQL, "DELETE FROM shop_emails")
		err := db.SQL.Tx(t.Context(), func(tx *engine.Tx) error {
			_, err := tx.ExecContext(t.Context(), "INSERT INTO shop_emails (job_type) VALUES (?)", text)
			return err
		})
		dbtest.Require(t, err == nil, "%s: %v", source, err)
		var there []string
		dbtest.OK(t, db.SQL.SelectContext(t.Context(), &there, "SELECT job_type FROM shop_emails"))
		dbtest.Ensure(t, len(there) == 1 && there[0] == text, "%s: %q became %q", source, text, there)
	}
}

// TestServerKeepsItsCharacterSet: a server that reports another character set is refused, because it might quote differently.
func TestServerKeepsItsCharacterSet(t *testing.T) {
	field := []byte("\x03def\x00\x00\x00\x01c\x00\x0c\x2d\x00\xff\x00\x00\x00\xfd\x00\x00\x00\x00\x00")
	end := []byte{0xfe, 0, 0, 2, 0, 0, 0}
	address := mad(t, nil, []byte{0, 0, 0, 10, 0, 0, 0}, []byte{2}, field, field, []byte("\x03gbk\x03gbk"), end)
	_, err := schema.Open(t.Context(), schema.Options{Driver: "mysql", DSN: "root@tcp(" + address + ")/shop?readTimeout=1s"}, schema.Named("shop"))
	dbtest.Ensure(t, errors.Is(err, schema.ErrConfig) && strings.Contains(err.Error(), `at "gbk", hipq needs utf8mb4`), "%v", err)
}

// TestServerAsksForAFile: a server that asks for a file of this host gets none of it.
func TestServerAsksForAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	dbtest.OK(t, os.WriteFile(file, []byte(ofNobodys), 0o600))
	address := mad(t, nil, append([]byte{0xfb}, file...))
	_, err := schema.Open(t.Context(), schema.Options{Driver: "mysql", DSN: "root@tcp(" + address + ")/shop?readTimeout=1s"}, schema.Named("shop"))
	dbtest.Ensure(t, err != nil && strings.Contains(err.Error(), "is not registered"), "%v", err)
}

// ofNobodys is the content of a file that no server may get.
const ofNobodys = "nobody's business"

// TestOptionsOfTheDSN: options that would break hipq are refused by name, and the rest of the DSN is not shown.
func TestOptionsOfTheDSN(t *testing.T) {
	for option, want := range map[string]string{
		"character_set_client=gbk":        "hipq sets character_set_client itself",
		"sql_mode=''":                     "hipq sets sql_mode itself",
		"tx_isolation='READ-UNCOMMITTED'": "hipq sets tx_isolation itself",
		"autocommit=0":                    "hipq sets autocommit itself",
		"sql_select_limit=5":              "hipq sets sql_select_limit itself",
		"unique_checks=0":                 "hipq sets unique_checks itself",
		"check_constraint_checks=0":       "hipq sets check_constraint_checks itself",
		"completion_type=2":               "hipq sets completion_type itself",
		"sql_safe_updates=1":              "hipq sets sql_safe_updates itself",
		"sql_auto_is_null=1":              "hipq sets sql_auto_is_null itself",
		"wait_timeout=600":                "hipq sets wait_timeout itself",
		"Timestamp=1":                     "hipq needs Timestamp as the server has it",
		"insert_id=5":                     "hipq needs insert_id as the server has it",
		"tx_read_only=1":                  "hipq needs tx_read_only as the server has it",
		"sql_log_bin=0":                   "hipq needs sql_log_bin as the server has it",
		"wsrep_on=0":                      "hipq needs wsrep_on as the server has it",
		"timeout=1s&charset=gbk":          "charset is not utf8mb4",
		"charset=gbk&sql_notes=1;":        "charset is not utf8mb4",
		"charset=utf8mb4,big5":            "charset is not utf8mb4",
		"charset=secret":                  "charset is not utf8mb4",
		"collation=gbk_chinese_ci":        "collation is not one of utf8mb4",
		"collation=secret":                "collation is not one of utf8mb4",
		"@@sql_mode=''":                   "option 1 is not of the form NAME=value",
		"timeout=1s&session sql_mode=''":  "option 2 is not of the form NAME=value",
		"secret":                          "option 1 is not of the form NAME=value",
		"tls=secret":                      "is not of the form user:password",
		"timeout=secret":                  "is not of the form user:password",
		"serverPubKey=secret":             "is not of the form user:password",
		"allowAllFiles=true":              "allowAllFiles would let the server read any file of this host",
	} {
		_, err := schema.Open(t.Context(), schema.Options{Driver: "mysql", DSN: "root:secret@tcp(127.0.0.1:1)/shop?" + option}, schema.Named("shop"))
		dbtest.Ensure(t, errors.Is(err, schema.ErrConfig) && strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "secret"), "%s: %v", option, err)
	}
}

// TestVariablesOfTheDSN: variables in a DSN are set; if the server refuses one, the error shows neither the value nor
// the server's message, which quotes it.
func TestVariablesOfTheDSN(t *testing.T) {
	source := dbtest.MySQL(t)
	db := dbtest.Open(t, "mysql", source+"?max_sp_recursion_depth=7&sort_buffer_size=65536", "emails")
	var depth, size string
	err := db.SQL.QueryRowContext(t.Context(), "SELECT @@max_sp_recursion_depth, @@sort_buffer_size").Scan(&depth, &size)
	dbtest.Ensure(t, err == nil && depth == "7" && size == "65536", "%s, %s, %v", depth, size, err)
	for option, want := range map[string]string{
		"net_read_timeout=hunter2": "refuses to set net_read_timeout, or the given value (error 1232)", "sql_notes='hunter2'": "refuses to set sql_notes,",
		"nobodys=hunter2": "refuses to set nobodys,", "net_read_timeout=hunter2 hunter3&sql_notes=1": "refuses to set net_read_timeout, sql_notes,",
		"collation=utf8mb4_hunter2": "",
	} {
		db, err := schema.Open(t.Context(), schema.Options{Driver: "mysql", DSN: source + "?" + option}, schema.Named("shop"))
		switch {
		case want == "" && err == nil:
			_ = db.Close()
		case !errors.Is(err, schema.ErrConfig) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter"):
			t.Errorf("%s: %v", option, err)
		}
	}
}

// TestVariablesOfTheSession: hipq's session settings hold, whatever the server's defaults, or variables smuggled in by a DSN.
func TestVariablesOfTheSession(t *testing.T) {
	source := dbtest.MySQL(t)
	other := "65536, unique_checks = 0, completion_type = 2, sql_safe_updates = 1, sql_auto_is_null = 1, sql_select_limit = 1"
	var version string
	dbtest.OK(t, dbtest.Open(t, "mysql", source, "emails").SQL.GetContext(t.Context(), &version, "SELECT @@version"))
	if strings.Contains(version, "MariaDB") { // MySQL doesn't have it
		other += ", check_constraint_checks = 1"
	}
	db := dbtest.Open(t, "mysql", source+"?columnsWithAlias=true&sort_buffer_size="+url.QueryEscape(other), "emails")
	want := map[string]string{
		"unique_checks": "ON", "check_constraint_checks": "OFF", "completion_type": "NO_CHAIN", "sql_safe_updates": "OFF",
		"sql_auto_is_null": "OFF", "sql_select_limit": "18446744073709551615",
	}
	var got []struct {
		Name  string `db:"Variable_name"`
		Value string `db:"Value"`
	}
	names := "'" + strings.Join(slices.Collect(maps.Keys(want)), "', '") + "'"
	if err := db.SQL.SelectContext(t.Context(), &got, "SHOW SESSION VARIABLES WHERE Variable_name IN ("+names+")"); err != nil || len(got) < len(want)-1 {
		t.Fatalf("%+v, %v", got, err) // MySQL has no check_constraint_checks
	}
	for _, v := range got {
		dbtest.Ensure(t, v.Value == want[v.Name], "%s is %s", v.Name, v.Value)
	}
	var rows []struct{ ID, State string }
	dbtest.OK(t, db.SQL.SelectContext(t.Context(), &rows, "SELECT id, state FROM shop_workers"))
}

// TestServerOutOfItsMind: a server's senseless answer is an error, not a panic.
func TestServerOutOfItsMind(t *testing.T) {
	for name, answer := range map[string][]byte{
		"columns": {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"fewer":   {0xfe, 0, 0, 0, 0, 0, 0, 0, 0x40},
		"text":    []byte("HTTP/1.1 400 Bad Request"),
		"nothing": {},
	} {
		t.Run(name, func(t *testing.T) {
			address := mad(t, nil, answer)
			_, err := schema.Open(t.Context(), schema.Options{Driver: "mysql", DSN: "root@tcp(" + address + ")/shop?readTimeout=1s"}, schema.Named("shop"))
			trouble, _ := schema.Diagnose(err)
			dbtest.Ensure(t, err != nil && trouble == schema.TryLater, "%v", err)
		})
	}
}

// TestServerStopsAStatement: a statement that the server stops because it takes too long is to be tried later.
func TestServerStopsAStatement(t *testing.T) {
	db := dbtest.Open(t, "mysql", dbtest.MySQL(t))
	db.SQL.SetMaxOpenConns(1) // which has these settings
	var version string
	dbtest.OK(t, db.SQL.GetContext(t.Context(), &version, "SELECT VERSION()"))
	limit, number := "SET max_execution_time = 100", uint16(3024)
	if strings.Contains(version, "MariaDB") {
		limit, number = "SET max_statement_time = 0.1", 1969
	}
	dbtest.Exec(t, db.SQL, limit)
	var n int64
	err := db.SQL.GetContext(t.Context(), &n, "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"+
		" SELECT COUNT(*) FROM n AS a, n AS b, n AS c, n AS d WHERE a.i + b.i + c.i + d.i = 7")
	refused, ok := errors.AsType[*mysql.MySQLError](err)
	dbtest.Require(t, ok && refused.Number == number, "%d, %v", n, err)
	trouble, hint := schema.Diagnose(err)
	dbtest.Ensure(t, trouble == schema.TryLater && strings.Contains(hint, "max_statement_time"), "%d, %s", trouble, hint)
}

func TestWithoutPassword(t *testing.T) {
	for dsn, want := range map[string]string{
		"hipq:s3cret@tcp(db:3306)/shop?readTimeout=90s":            "hipq:***@tcp(db:3306)/shop?readTimeout=***",
		"hipq@tcp(db)/shop?tls=true&charset=s3cret\x1b[2J":         "hipq@tcp(db:3306)/shop?tls=***&charset=***",
		"hipq@tcp(db)/shop?s3cret&s3\x1bcret=1&@@s3cret=1":         "hipq@tcp(db:3306)/shop?***=***&***=***&***=***",
		"hipq@tcp(db)/shop?" + strings.Repeat("s3cret", 20) + "=1": "hipq@tcp(db:3306)/shop?***=***",
		"hipq@tcp(db)/shop?x=s3cret)/y":                            "***",
		"hipq@tcp(db)/shop?connectionAttributes=a:s3cret":          "hipq@tcp(db:3306)/shop?connectionAttributes=***",
		"hipq:s3:/@c?ret@tcp(db)/shop":                             "hipq:***@tcp(db:3306)/shop",
		"hipq@unix(/run/mysqld.sock)/shop":                         "hipq@unix(/run/mysqld.sock)/shop",
		"hipq:s3cret@/shop":                                        "hipq:***@tcp(127.0.0.1:3306)/shop",
		"mysql://hipq:s3cret@db/shop":                              "***",
		"hipq:s3cret@tcp(db)/shop?loc=s3cret/s3cret":               "***",
		"hipq:s3cret": "***",
		"":            "***",
	} {
		dbtest.Same(t, schema.WithoutPassword(dsn), want, "%q", dsn)
	}
}

// TestCheckOptions: Check refuses what Open would, without a server.
func TestCheckOptions(t *testing.T) {
	loop := filepath.Join(t.TempDir(), "hipq.db")
	dbtest.OK(t, os.Symlink(loop, loop))
	for _, c := range []struct {
		o    schema.Options
		want string
	}{
		{schema.Options{Driver: "sqlite", Path: "/nowhere/hipq.db"}, ""},
		{schema.Options{Driver: "sqlite", Path: "/dev/null/hipq.db"}, ""},
		{schema.Options{Driver: "sqlite", Path: loop}, "database.path: stat "}, // it is unknown who else may write it
		{schema.Options{Driver: "mysql", DSN: "hipq@tcp(127.0.0.1:1)/shop"}, ""},
		{schema.Options{Driver: "mysql", DSN: "hipq@tcp(127.0.0.1:1)/"}, "names no database"},
		{schema.Options{Driver: "mysql", DSN: "hipq:s3cret"}, "is not of the form"},
		{schema.Options{Driver: "mysql", DSN: "hipq@tcp(127.0.0.1:1)/shop", TLS: &schema.TLS{CA: "/nowhere/ca.pem"}}, "database.tls.ca: open /nowhere/ca.pem"},
	} {
		err := c.o.Check()
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, schema.ErrConfig) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
}
