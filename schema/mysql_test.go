package schema_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/schema"
)

// inGBK are texts that leave a string if their bytes are read as GBK (or Big5): the last byte before the quote swallows the
// backslash that is to protect it.
var inGBK = []string{`€'), (DATABASE()) -- `, `€"), (DATABASE()) -- `, "¬'), (DATABASE()) -- "}

// Whatever character set the server, or a DSN, gives a connection, what is a text stays one.
func TestCharacterSetIsOurOwn(t *testing.T) {
	source := dbtest.MySQL(t)
	root := dbtest.Open(t, "mysql", source, "emails")
	cfg, err := mysql.ParseDSN(source)
	must(t, err)
	// of an administrator's connection the server executes no init_connect
	cfg.User, cfg.Passwd = "hipq_gbk", "secret"
	for _, statement := range []string{
		"CREATE USER IF NOT EXISTS hipq_gbk@'%' IDENTIFIED BY 'secret'", "GRANT ALL ON " + cfg.DBName + ".* TO hipq_gbk@'%'",
		"SET GLOBAL init_connect = 'SET NAMES gbk'",
	} {
		execute(t, root, statement)
	}
	t.Cleanup(func() { _, _ = root.SQL.Exec("SET GLOBAL init_connect = ''") })
	for _, options := range []string{"", "?charset=utf8mb4", "?collation=utf8mb4_general_ci"} {
		wantTexts(t, cfg.FormatDSN()+options)
	}
}

// wantTexts wants texts to stay what they are in the database of this DSN.
func wantTexts(t *testing.T, source string) {
	t.Helper()
	db := dbtest.Open(t, "mysql", source, "emails")
	for _, text := range inGBK {
		execute(t, db, "DELETE FROM shop_emails")
		err := db.SQL.Tx(t.Context(), func(tx *engine.Tx) error {
			_, err := tx.ExecContext(t.Context(), "INSERT INTO shop_emails (job_type) VALUES (?)", text)
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		var there []string
		must(t, db.SQL.SelectContext(t.Context(), &there, "SELECT job_type FROM shop_emails"))
		if len(there) != 1 || there[0] != text {
			t.Errorf("%s: %q became %q", source, text, there)
		}
	}
}

// A server that says that the connection's character set is another than it was told to is not believed to quote as hipq does.
func TestServerKeepsItsCharacterSet(t *testing.T) {
	field := []byte("\x03def\x00\x00\x00\x01c\x00\x0c\x2d\x00\xff\x00\x00\x00\xfd\x00\x00\x00\x00\x00")
	end := []byte{0xfe, 0, 0, 2, 0, 0, 0}
	address := mad(t, nil, []byte{0, 0, 0, 10, 0, 0, 0}, []byte{2}, field, field, []byte("\x03gbk\x03gbk"), end)
	_, err := schema.Open(t.Context(), schema.Options{Driver: "mysql", DSN: "root@tcp(" + address + ")/shop?readTimeout=1s"}, schema.Named("shop"))
	if !errors.Is(err, schema.ErrConfig) || !strings.Contains(err.Error(), `at "gbk", hipq needs utf8mb4`) {
		t.Errorf("%v", err)
	}
}

// A server that answers with the wish for a file of this host gets none of it.
func TestServerAsksForAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, []byte(ofNobodys), 0o600))
	address := mad(t, nil, append([]byte{0xfb}, file...))
	_, err := schema.Open(t.Context(), schema.Options{Driver: "mysql", DSN: "root@tcp(" + address + ")/shop?readTimeout=1s"}, schema.Named("shop"))
	if err == nil || !strings.Contains(err.Error(), "is not registered") {
		t.Errorf("%v", err)
	}
}

// ofNobodys is the content of a file that no server may get.
const ofNobodys = "nobody's business"

// Options that would break what hipq relies on are refused by their names, and nothing else of the DSN is shown.
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
		if !errors.Is(err, schema.ErrConfig) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", option, err)
		}
	}
}

// Variables of the server's that a DSN names are set; of one that the server refuses neither the value is shown nor what the
// server says, which quotes it.
func TestVariablesOfTheDSN(t *testing.T) {
	source := dbtest.MySQL(t)
	db := dbtest.Open(t, "mysql", source+"?max_sp_recursion_depth=7&sort_buffer_size=65536", "emails")
	var depth, size string
	err := db.SQL.QueryRowContext(t.Context(), "SELECT @@max_sp_recursion_depth, @@sort_buffer_size").Scan(&depth, &size)
	if err != nil || depth != "7" || size != "65536" {
		t.Errorf("%s, %s, %v", depth, size, err)
	}
	for option, want := range map[string]string{
		"net_read_timeout=hunter2": "refuses to set net_read_timeout, or what to (error 1232)", "sql_notes='hunter2'": "refuses to set sql_notes,",
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

// What hipq sets on a connection it has, whatever the server has by default, or a DSN slips in behind another variable.
func TestVariablesOfTheSession(t *testing.T) {
	source := dbtest.MySQL(t)
	other := "65536, unique_checks = 0, completion_type = 2, sql_safe_updates = 1, sql_auto_is_null = 1, sql_select_limit = 1"
	var version string
	must(t, dbtest.Open(t, "mysql", source, "emails").SQL.GetContext(t.Context(), &version, "SELECT @@version"))
	if strings.Contains(version, "MariaDB") { // MySQL hasn't got it
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
		if v.Value != want[v.Name] {
			t.Errorf("%s is %s", v.Name, v.Value)
		}
	}
	var rows []struct{ ID, State string }
	must(t, db.SQL.SelectContext(t.Context(), &rows, "SELECT id, state FROM shop_workers"))
}

// A server whose answers make no sense is an error, not the end of the program.
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
			if trouble, _ := schema.Diagnose(err); err == nil || trouble != schema.TryLater {
				t.Errorf("%v", err)
			}
		})
	}
}

// A statement that the server stops, for it takes too long, is for later.
func TestServerStopsAStatement(t *testing.T) {
	db := dbtest.Open(t, "mysql", dbtest.MySQL(t))
	db.SQL.SetMaxOpenConns(1) // whose settings these are
	var version string
	must(t, db.SQL.GetContext(t.Context(), &version, "SELECT VERSION()"))
	limit, number := "SET max_execution_time = 100", uint16(3024)
	if strings.Contains(version, "MariaDB") {
		limit, number = "SET max_statement_time = 0.1", 1969
	}
	execute(t, db, limit)
	var n int64
	err := db.SQL.GetContext(t.Context(), &n, "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"+
		" SELECT COUNT(*) FROM n AS a, n AS b, n AS c, n AS d WHERE a.i + b.i + c.i + d.i = 7")
	if refused, ok := errors.AsType[*mysql.MySQLError](err); !ok || refused.Number != number {
		t.Fatalf("%d, %v", n, err)
	}
	if trouble, hint := schema.Diagnose(err); trouble != schema.TryLater || !strings.Contains(hint, "max_statement_time") {
		t.Errorf("%d, %s", trouble, hint)
	}
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
		if got := schema.WithoutPassword(dsn); got != want {
			t.Errorf("%q: %q, want %q", dsn, got, want)
		}
	}
}

// Check refuses what Open would, without a server.
func TestCheckOptions(t *testing.T) {
	loop := filepath.Join(t.TempDir(), "hipq.db")
	must(t, os.Symlink(loop, loop))
	for _, c := range []struct {
		o    schema.Options
		want string
	}{
		{schema.Options{Driver: "sqlite", Path: "/nowhere/hipq.db"}, ""},
		{schema.Options{Driver: "sqlite", Path: "/dev/null/hipq.db"}, ""},
		{schema.Options{Driver: "sqlite", Path: loop}, "database.path: stat "}, // nobody can tell who else may write it
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

// Only a server that proves its name is talked to, where the config wants it encrypted.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	certificate, ca := certify(t, dir, "db.example.org")
	_, other := certify(t, t.TempDir(), "db.example.org")
	for name, c := range map[string]struct {
		want    *schema.TLS
		trouble schema.Trouble // TryLater: it came to the answer that makes no sense
		text    string
	}{
		"right":                {&schema.TLS{CA: ca, ServerName: "db.example.org"}, schema.TryLater, ""},
		"another's name":       {&schema.TLS{CA: ca, ServerName: "evil.example.org"}, schema.Misconfigured, "evil.example.org"},
		"the host's name":      {&schema.TLS{CA: ca}, schema.Misconfigured, "127.0.0.1"},
		"another's signature":  {&schema.TLS{CA: other, ServerName: "db.example.org"}, schema.Misconfigured, "unknown authority"},
		"the system's":         {&schema.TLS{ServerName: "db.example.org"}, schema.Misconfigured, "unknown authority"},
		"no certificate":       {&schema.TLS{CA: dir + "/key.pem"}, schema.Misconfigured, "holds no certificate"},
		"no certificate's end": {&schema.TLS{CA: "/dev/zero"}, schema.Misconfigured, "is no regular file"},
		"no key's end":         {&schema.TLS{CA: ca, Cert: ca, Key: "/dev/zero"}, schema.Misconfigured, "is no regular file"},
		"another's key":        {&schema.TLS{CA: ca, Cert: ca, Key: ca}, schema.Misconfigured, "a certificate rather than a key"},
		"no file":              {&schema.TLS{CA: dir + "/none"}, schema.Misconfigured, "no such file"},
		"a key of our own":     {&schema.TLS{CA: ca, ServerName: "db.example.org", Cert: ca, Key: dir + "/key.pem"}, schema.TryLater, ""},
		"a key without a cert": {&schema.TLS{CA: ca, Key: dir + "/key.pem"}, schema.Misconfigured, "belong together"},
	} {
		t.Run(name, func(t *testing.T) {
			certified := &tls.Config{Certificates: []tls.Certificate{certificate}}
			address := mad(t, certified, []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
			o := schema.Options{Driver: "mysql", DSN: "root@tcp(" + address + ")/shop?readTimeout=1s", TLS: c.want}
			_, err := schema.Open(t.Context(), o, schema.Named("shop"))
			if trouble, _ := schema.Diagnose(err); err == nil || trouble != c.trouble || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v", err)
			}
		})
	}
	for _, option := range []string{"tls=preferred", "tls=skip-verify"} { // a password that is only proved is for any server
		address := mad(t, &tls.Config{Certificates: []tls.Certificate{certificate}}, []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
		_, port, _ := net.SplitHostPort(address)
		o := schema.Options{Driver: "mysql", DSN: "root:x@tcp(0.0.0.0:" + port + ")/shop?readTimeout=1s&" + option}
		_, err := schema.Open(t.Context(), o, schema.Named("shop"))
		if trouble, _ := schema.Diagnose(err); trouble != schema.TryLater || strings.Contains(err.Error(), "password") {
			t.Errorf("%s: %v", option, err)
		}
	}
	for _, option := range []string{"", "?tls=preferred", "?allowFallbackToPlaintext=true"} {
		address := mad(t, nil, nil) // which knows no TLS
		o := schema.Options{Driver: "mysql", DSN: "root@tcp(" + address + ")/shop" + option, TLS: &schema.TLS{CA: ca}}
		_, err := schema.Open(t.Context(), o, schema.Named("shop"))
		if trouble, _ := schema.Diagnose(err); trouble != schema.Misconfigured {
			t.Errorf("%s: %v", option, err)
		}
	}
}

// A server that nobody has verified gets no password, however it asks for it. 0.0.0.0 is this host by another name than loopback.
func TestServerAsksForThePassword(t *testing.T) {
	certificate, ca := certify(t, t.TempDir(), "db.example.org")
	certified := &tls.Config{Certificates: []tls.Certificate{certificate}}
	const caching, sha256, clearText, native = "caching_sha2_password", "sha256_password", "mysql_clear_password", "mysql_native_password"
	const far, near, hop = "tcp(0.0.0.0:%s)", "tcp(127.0.0.1:%s)", "hop(127.0.0.1:%s)"
	const inFull, inClear = "the server asks for the password itself", "the server asks for the password in clear text"
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	mysql.RegisterServerPubKey("known", &rsa.PublicKey{N: new(big.Int).Add(key.N, big.NewInt(2)), E: key.E}) // another's
	mysql.RegisterDialContext("hop", func(ctx context.Context, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	})
	t.Cleanup(func() { mysql.DeregisterServerPubKey("known"); mysql.DeregisterDialContext("hop") })
	for _, c := range []struct {
		at, options     string
		tls             *tls.Config
		greets, changes string
		want            string // empty: the server gets it
		verified        bool
	}{
		{far, "", nil, caching, "", inFull, false},
		{far, "", nil, native, caching, inFull, false},
		{far, "", nil, native, sha256, inFull, false},
		{far, "", nil, native, clearText, inClear, false},
		{far, "", nil, native, "mysql_old_password", "in the form of MySQL 4.0", false},
		{far, "?tls=preferred", nil, native, caching, inFull, false},
		{far, "?tls=preferred", nil, sha256, sha256, inFull, false},
		{far, "?tls=preferred", certified, native, caching, inFull, false},
		{far, "?tls=skip-verify", certified, caching, "", inFull, false},
		{far, "?tls=skip-verify", certified, native, sha256, inFull, false},
		{far, "?tls=skip-verify", certified, sha256, "", inFull, false},
		{far, "?tls=skip-verify", certified, native, clearText, inClear, false},
		{far, "?allowCleartextPasswords=true", nil, native, clearText, "allowCleartextPasswords", false},
		{far, "?tls=skip-verify&allowOldPasswords=true", nil, native, clearText, "allowOldPasswords", false},
		{near, "", nil, native, clearText, inClear, false},
		{near, "", nil, native, caching, "", false},
		{near, "?tls=skip-verify", certified, sha256, "", "", false},
		{"tcp4(localhost:%s)", "", nil, caching, "", "", false},
		{"tcp4(0.0.0.0:%s)", "?tls=skip-verify", certified, native, sha256, inFull, false},
		{far, "?serverPubKey=known", nil, native, sha256, inFull, false},
		{far, "?serverPubKey=known", nil, caching, "", inFull, false},
		{hop, "?tls=skip-verify", certified, sha256, "", "not verified", false}, // by a net of the application's own
		{hop, "?tls=preferred", certified, sha256, "", "not verified", false},
		{hop, "", nil, native, caching, inFull, false},
		{far, "", certified, native, caching, "", true},
		{far, "?allowCleartextPasswords=true", certified, native, clearText, "", true},
	} {
		t.Run(fmt.Sprintf("%s%s tls=%v %s %s", c.at, c.options, c.tls != nil, c.greets, c.changes), func(t *testing.T) {
			address, got := thief(t, key, c.tls, c.greets, c.changes)
			_, port, _ := net.SplitHostPort(address)
			o := schema.Options{Driver: "mysql", DSN: "root:" + ofNobodys + "@" + fmt.Sprintf(c.at, port) + "/shop" + c.options}
			if c.verified {
				o.TLS = &schema.TLS{CA: ca, ServerName: "db.example.org"}
			}
			_, err := schema.Open(t.Context(), o, schema.Named("shop"))
			if has := strings.Contains(got(), ofNobodys); err == nil || has != (c.want == "") {
				t.Errorf("the server has it: %v; %v", has, err)
			}
			if c.want == "" {
				return
			}
			if trouble, _ := schema.Diagnose(err); trouble != schema.Misconfigured || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "please") {
				t.Errorf("%v", err)
			}
		})
	}
}

// Where the server listens only at 127.0.0.1, any user may listen at ::1, which is the first address of localhost on many hosts.
func TestLocalhostIsIPv4(t *testing.T) {
	dialled := ""
	mysql.RegisterDialContext("tcp", func(_ context.Context, address string) (net.Conn, error) {
		dialled = address
		return nil, errors.ErrUnsupported
	})
	t.Cleanup(func() { mysql.DeregisterDialContext("tcp") })
	for address, want := range map[string]string{
		"localhost": "127.0.0.1:3306", "localhost:3307": "127.0.0.1:3307", "[::1]:3306": "[::1]:3306", "localhost.example.org": "localhost.example.org:3306",
	} {
		for _, o := range []schema.Options{
			{Driver: "mysql", DSN: "root@tcp(" + address + ")/shop"},
			{Driver: "mysql", DSN: "root@tcp(db)/shop", Nodes: []string{address}},
		} {
			_, err := schema.Open(t.Context(), o, schema.Named("shop"))
			if !errors.Is(err, errors.ErrUnsupported) || dialled != want {
				t.Errorf("%s: %s, want %s; %v", address, dialled, want, err)
			}
		}
	}
}

// Of what a server says only the greeting is kept, however it arrives: else each connection would hold the first answers for good.
func TestGreetingIsKeptAlone(t *testing.T) {
	const greets, asks = "\x08\x00\x00\x00greeting", "\x0f\x00\x00\x00sha256_password"
	for said, want := range map[string]int{
		"": 0, greets: len(greets), greets + strings.Repeat("rows", 1<<20): len(greets), greets + "sha256_password": len(greets), asks: -1, asks + "rows": -1,
		"\xff\xff\xff\x00" + strings.Repeat("x", 1<<20) + "sha256_password": -1,
	} {
		for _, chunk := range []int{1, 5, 1 << 12} {
			ours, theirs := net.Pipe()
			go func() {
				for rest := []byte(said[:min(len(said), 1<<16+100)]); len(rest) > 0; rest = rest[min(chunk, len(rest)):] {
					_, _ = theirs.Write(rest[:min(chunk, len(rest))])
				}
				_ = theirs.Close()
			}()
			kept, err := schema.Kept(ours)
			if (err != nil) != (want < 0) || err == nil && kept != want {
				t.Errorf("%.20q in chunks of %d: %d kept, want %d; %v", said, chunk, kept, want, err)
			}
		}
	}
}

// certify makes a certificate for a name, which has signed itself, and its files.
func certify(t *testing.T, dir, name string) (_ tls.Certificate, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	file = dir + "/cert.pem"
	for path, block := range map[string]*pem.Block{file: {Type: "CERTIFICATE", Bytes: der}, dir + "/key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		must(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}
