package schema_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/schema"
)

// TestOwnServer: these tests change settings of a whole server, so they have their own.
func TestOwnServer(t *testing.T) {
	t.Parallel()
	source := dbtest.OwnMySQL(t, "--log-bin", "--server-id=1", "--binlog-format=STATEMENT", "--character-set-server=gbk",
		"--loose-skip-character-set-client-handshake")
	for _, test := range []struct {
		name string
		run  func(*testing.T, string)
	}{
		{"binary log by statement", binaryLogByStatement},
		{"character set", characterSetOfTheServer},
		{"read-only", readOnlyServer},
		{"nodes of which one writes", nodesOfWhichOneWrites},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, source) })
	}
}

// binaryLogByStatement: a server whose binary log forbids writes in READ COMMITTED is refused before anything is created.
func binaryLogByStatement(t *testing.T, source string) {
	_, err := schema.Open(t.Context(), schema.Options{Driver: "mysql", DSN: source, Create: true}, schema.Named("shop"))
	dbtest.Ensure(t, errors.Is(err, schema.ErrConfig) && strings.Contains(err.Error(), "SET GLOBAL binlog_format = ROW"), "%v", err)
	server := dbtest.Must(sql.Open("mysql", source))(t)
	defer func() { _ = server.Close() }()
	dbtest.Must(server.ExecContext(t.Context(), "SET GLOBAL binlog_format = MIXED"))(t)
	dbtest.Exec(t, dbtest.Open(t, "mysql", source, "emails").SQL, "INSERT INTO shop_emails (job_type) VALUES ('send')")
}

// characterSetOfTheServer: texts survive if the server gives each client its own character set, whatever the client
// asks for. MySQL 9 no longer has that setting.
func characterSetOfTheServer(t *testing.T, source string) {
	root := dbtest.Open(t, "mysql", source)
	for _, charset := range []string{"gbk", "big5"} {
		dbtest.Exec(t, root.SQL, "SET GLOBAL character_set_client = "+charset, "SET GLOBAL collation_connection = "+charset+"_bin")
		db := dbtest.Must(sql.Open("mysql", source))(t)
		defer func() { _ = db.Close() }()
		var got, version string
		err := db.QueryRowContext(t.Context(), "SELECT @@character_set_client, VERSION()").Scan(&got, &version)
		dbtest.Require(t, err == nil && (got == charset || strings.HasPrefix(version, "9.")), "another's connection has %q, want %q: %v", got, charset, err)
		wantTexts(t, source)
	}
}

// readOnlyServer: a write that a read-only server refuses succeeds once the server writes again, on a new connection,
// maybe to another server; until then the error is the server's own.
func readOnlyServer(t *testing.T, source string) {
	root := dbtest.Open(t, "mysql", source)
	dbtest.Exec(t, root.SQL, "CREATE USER plain@'%' IDENTIFIED BY 'x'", "GRANT ALL ON *.* TO plain@'%'",
		"REVOKE SUPER /*M!, READ_ONLY ADMIN */ /*!80000 , CONNECTION_ADMIN */ ON *.* FROM plain@'%'")
	cfg := dbtest.Must(mysql.ParseDSN(source))(t)
	cfg.User, cfg.Passwd = "plain", "x"
	db := dbtest.Open(t, "mysql", cfg.FormatDSN())
	connection := func() (id int64) {
		t.Helper()
		dbtest.OK(t, db.SQL.GetContext(t.Context(), &id, "SELECT CONNECTION_ID()"))
		return id
	}
	write := func(ctx context.Context) error {
		return db.SQL.Tx(ctx, func(tx *engine.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO shop_queues (queue) VALUES ('x')")
			return err
		})
	}
	first := connection()
	dbtest.Exec(t, root.SQL, "SET GLOBAL read_only = 1")
	short := dbtest.Within(t, 500*time.Millisecond)
	err := write(short)
	dbtest.Ensure(t, err != nil && strings.Contains(err.Error(), "read-only") && engine.IsAnswer(err), "the error is %v", err)
	done, refused := make(chan error, 1), make(chan struct{}, 100)
	go func() { done <- write(engine.Hearing(t.Context(), func(error) { refused <- struct{}{} })) }()
	<-refused
	dbtest.Exec(t, root.SQL, "SET GLOBAL read_only = 0")
	dbtest.OK(t, <-done)
	dbtest.Ensure(t, connection() != first, "the connection is the same")
	var n int
	err = root.SQL.GetContext(t.Context(), &n, "SELECT COUNT(*) FROM shop_queues WHERE queue = 'x'")
	dbtest.Ensure(t, err == nil && n == 1, "%d rows, %v", n, err)
}

// nodesOfWhichOneWrites: of servers that replicate to each other, the one that writes is used.
func nodesOfWhichOneWrites(t *testing.T, reader string) {
	writer := dbtest.MySQL(t)
	cfg := dbtest.Must(mysql.ParseDSN(writer))(t)
	its := dbtest.Must(mysql.ParseDSN(reader))(t)
	dbtest.Exec(t, dbtest.Open(t, "mysql", reader).SQL, "CREATE DATABASE "+cfg.DBName+" CHARACTER SET utf8mb4", "SET GLOBAL read_only = 1")
	its.DBName = cfg.DBName
	reader = its.FormatDSN()
	o := schema.Options{Driver: "mysql", DSN: dbtest.AnyOf(t, reader, writer)}
	var readOnly bool
	err := opened(t, o).SQL.GetContext(t.Context(), &readOnly, "SELECT @@GLOBAL.read_only")
	dbtest.Ensure(t, err == nil && !readOnly, "read-only: %t, %v", readOnly, err)
	// if none writes, the error is to be tried later
	o.DSN = dbtest.AnyOf(t, reader, reader)
	short := dbtest.Within(t, 500*time.Millisecond)
	_, err = schema.Open(short, o, schema.Named("shop"))
	trouble, _ := schema.Diagnose(err)
	dbtest.Ensure(t, trouble == schema.TryLater && strings.Contains(err.Error(), "the server is read-only"), "%v", err)
}

// mad is a server that greets as MySQL does, accepts each login, and answers each query with the same packets. It uses
// TLS if it has a certificate and the client asks for it. No test may send it a file.
func mad(t *testing.T, certificate *tls.Config, answer ...[]byte) (address string) {
	address, _ = serve(t, func(c *client) {
		c.greet("mysql_native_password", certificate)
		c.send("\x00\x00\x00\x02\x00\x00\x00") // OK
		for said := c.listen(); said != nil; said = c.listen() {
			dbtest.Ensure(t, !bytes.Contains(said, []byte(ofNobodys)), "the server got a file: %q", said)
			for _, packet := range answer {
				c.send(string(packet))
			}
		}
	})
	return address
}

// thief is a server that tries to get a password: by the plugin of its greeting, and one that it changes to. got is all
// that it received and can read.
func thief(t *testing.T, key *rsa.PrivateKey, certificate *tls.Config, greets, changes string) (address string, got func() string) {
	t.Helper()
	var heard strings.Builder
	address, end := serve(t, func(c *client) {
		said := c.greet(greets, certificate)
		_, _ = heard.Write(said)
		listen := func() []byte {
			said = c.listen()
			_, _ = heard.Write(said)
			return said
		}
		if changes != "" {
			c.send("\xfe" + changes + "\x00" + salt + "\x00")
			listen()
		}
		if cmp.Or(changes, greets) == "caching_sha2_password" {
			c.send("\x01\x04") // asks for the password in full
			listen()
		}
		if len(said) != 1 && cmp.Or(changes, greets) != "sha256_password" { // doesn't ask for a key
			return
		}
		public, _ := x509.MarshalPKIXPublicKey(&key.PublicKey)
		c.send("\x01" + string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})))
		if text, err := rsa.DecryptOAEP(sha1.New(), nil, key, listen(), nil); err == nil {
			for i := range text {
				text[i] ^= salt[i%len(salt)]
			}
			_, _ = heard.Write(text)
		}
	})
	return address, func() string {
		end()
		return heard.String()
	}
}

// serve talks to each client in turn; end waits until all are done.
func serve(t *testing.T, talk func(*client)) (address string, end func()) {
	t.Helper()
	listener := dbtest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			talk(&client{Conn: conn})
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String(), func() {
		_ = listener.Close()
		<-served
	}
}

// client is a client of a fake server, which numbers its packets.
type client struct {
	net.Conn
	number byte
}

const salt = "salt5678salt90123456"

// greet greets with a plugin, encrypts if the client wants it, and returns the client's reply.
func (c *client) greet(plugin string, certificate *tls.Config) (said []byte) {
	knows := "\xff\xf7"
	if certificate != nil {
		knows = "\xff\xff" // TLS too
	}
	c.send("\n8.4.0\x00\x01\x00\x00\x00" + salt[:8] + "\x00" + knows + "\x2d\x02\x00\xff\xc7\x15" + strings.Repeat("\x00", 10) + salt[8:] + "\x00" + plugin + "\x00")
	said = c.listen()
	if certificate != nil && len(said) == 32 { // a request for TLS, before the name
		c.Conn = tls.Server(c.Conn, certificate)
		said = c.listen()
	}
	return said
}

func (c *client) send(payload string) {
	header := binary.LittleEndian.AppendUint32(nil, uint32(len(payload)))
	header[3] = c.number
	c.number++
	_, _ = c.Write(append(header, payload...))
}

// listen returns nil after the client has gone.
func (c *client) listen() (said []byte) {
	header := make([]byte, 4)
	if _, err := io.ReadFull(c, header); err != nil {
		return nil
	}
	said = make([]byte, int(header[0])|int(header[1])<<8|int(header[2])<<16)
	_, _ = io.ReadFull(c, said)
	c.number = header[3] + 1
	return said
}
