package schema_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
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
	if err != nil {
		t.Fatal(err)
	}
	// of an administrator's connection the server executes no init_connect
	cfg.User, cfg.Passwd = "hipq_gbk", "secret"
	for _, statement := range []string{
		"CREATE OR REPLACE USER hipq_gbk@'%' IDENTIFIED BY 'secret'", "GRANT ALL ON " + cfg.DBName + ".* TO hipq_gbk@'%'",
		"SET GLOBAL init_connect = 'SET NAMES gbk'",
	} {
		if _, err := root.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _, _ = root.Exec("SET GLOBAL init_connect = ''") })
	for _, options := range []string{"", "?charset=utf8mb4", "?collation=utf8mb4_general_ci"} {
		db := dbtest.Open(t, "mysql", cfg.FormatDSN()+options, "emails")
		for _, text := range inGBK {
			if _, err := db.ExecContext(t.Context(), "DELETE FROM shop_emails"); err != nil {
				t.Fatal(err)
			}
			err := db.Tx(t.Context(), func(tx *schema.Tx) error {
				_, err := tx.ExecContext(t.Context(), "INSERT INTO shop_emails (job_type) VALUES (?)", text)
				return err
			})
			if err != nil {
				t.Fatalf("%s: %v", options, err)
			}
			var there []string
			if err := db.SelectContext(t.Context(), &there, "SELECT job_type FROM shop_emails"); err != nil {
				t.Fatal(err)
			}
			if len(there) != 1 || there[0] != text {
				t.Errorf("%s: %q became %q", options, text, there)
			}
		}
	}
}

// Options that would break what hipq relies on are refused by their names, and nothing else of the DSN is shown.
func TestOptionsOfTheDSN(t *testing.T) {
	for option, want := range map[string]string{
		"character_set_client=gbk":        "hipq sets character_set_client itself",
		"sql_mode=''":                     "hipq sets sql_mode itself",
		"tx_isolation='READ-UNCOMMITTED'": "hipq sets tx_isolation itself",
		"autocommit=0":                    "hipq sets autocommit itself",
		"timeout=1s&charset=gbk":          "charset=\"gbk\" is not utf8mb4",
		"charset=utf8mb4,big5":            "charset=\"utf8mb4,big5\" is not utf8mb4",
		"collation=gbk_chinese_ci":        "collation=\"gbk_chinese_ci\" is not one of utf8mb4",
		"allowAllFiles=true":              "allowAllFiles would let the server read any file of this host",
	} {
		_, err := schema.Open(t.Context(), schema.Options{Driver: "mysql", DSN: "root:secret@tcp(127.0.0.1:1)/shop?" + option}, schema.Names{})
		if !errors.Is(err, schema.ErrConfig) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", option, err)
		}
	}
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
			address := mad(t, answer)
			_, err := schema.Open(t.Context(), schema.Options{Driver: "mysql", DSN: "root@tcp(" + address + ")/shop?readTimeout=1s"}, schema.Names{})
			if trouble, _ := schema.Diagnose(err); err == nil || trouble != schema.TryLater {
				t.Errorf("%v", err)
			}
		})
	}
}

// mad is a server that greets as MySQL does, lets everybody in, and gives the same answer to all that it is asked.
func mad(t *testing.T, answer []byte) (address string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serveMad(conn, answer)
		}
	}()
	return listener.Addr().String()
}

func serveMad(conn net.Conn, answer []byte) {
	defer func() { _ = conn.Close() }()
	send := func(number byte, payload []byte) {
		header := binary.LittleEndian.AppendUint32(nil, uint32(len(payload)))
		header[3] = number
		_, _ = conn.Write(append(header, payload...))
	}
	greeting := append([]byte("\n8.4.0\x00\x01\x00\x00\x00salt5678\x00"), 0xff, 0xff, 45, 2, 0, 0xff, 0xc7, 21)
	greeting = append(greeting, make([]byte, 10)...)
	send(0, append(greeting, "salt90123456\x00mysql_native_password\x00"...))
	for number := byte(2); ; number = 1 {
		header := make([]byte, 4)
		if _, err := io.ReadFull(conn, header); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, conn, int64(header[0])|int64(header[1])<<8|int64(header[2])<<16); err != nil {
			return
		}
		if number == 2 {
			send(number, []byte{0, 0, 0, 2, 0, 0, 0})
		} else {
			send(number, answer)
		}
	}
}
