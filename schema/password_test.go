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
	"math/big"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/schema"
)

// TestTLS: if the config wants TLS, only a server that proves its name is used.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	certificate, ca := certify(t, dir, "db.example.org")
	_, other := certify(t, t.TempDir(), "db.example.org")
	for name, c := range map[string]struct {
		want    *schema.TLS
		trouble schema.Trouble // TryLater: it reached the senseless answer
		text    string
	}{
		"right":                {&schema.TLS{CA: ca, ServerName: "db.example.org"}, schema.TryLater, ""},
		"another's name":       {&schema.TLS{CA: ca, ServerName: "evil.example.org"}, schema.Misconfigured, "evil.example.org"},
		"the host's name":      {&schema.TLS{CA: ca}, schema.Misconfigured, "127.0.0.1"},
		"another's signature":  {&schema.TLS{CA: other, ServerName: "db.example.org"}, schema.Misconfigured, "unknown authority"},
		"the system's":         {&schema.TLS{ServerName: "db.example.org"}, schema.Misconfigured, "unknown authority"},
		"no certificate":       {&schema.TLS{CA: dir + "/key.pem"}, schema.Misconfigured, "has no PEM certificate"},
		"no certificate's end": {&schema.TLS{CA: "/dev/zero"}, schema.Misconfigured, "is not a regular file"},
		"no key's end":         {&schema.TLS{CA: ca, Cert: ca, Key: "/dev/zero"}, schema.Misconfigured, "is not a regular file"},
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
			trouble, _ := schema.Diagnose(err)
			dbtest.Ensure(t, err != nil && trouble == c.trouble && strings.Contains(err.Error(), c.text), "%v", err)
		})
	}
	for _, option := range []string{"tls=preferred", "tls=skip-verify"} { // a password that is only proved may go to any server
		address := mad(t, &tls.Config{Certificates: []tls.Certificate{certificate}}, []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
		_, port, _ := net.SplitHostPort(address)
		o := schema.Options{Driver: "mysql", DSN: "root:x@tcp(0.0.0.0:" + port + ")/shop?readTimeout=1s&" + option}
		_, err := schema.Open(t.Context(), o, schema.Named("shop"))
		trouble, _ := schema.Diagnose(err)
		dbtest.Ensure(t, trouble == schema.TryLater && !strings.Contains(err.Error(), "password"), "%s: %v", option, err)
	}
	for _, option := range []string{"", "?tls=preferred", "?allowFallbackToPlaintext=true"} {
		address := mad(t, nil, nil) // without TLS
		o := schema.Options{Driver: "mysql", DSN: "root@tcp(" + address + ")/shop" + option, TLS: &schema.TLS{CA: ca}}
		_, err := schema.Open(t.Context(), o, schema.Named("shop"))
		trouble, _ := schema.Diagnose(err)
		dbtest.Ensure(t, trouble == schema.Misconfigured, "%s: %v", option, err)
	}
}

// TestServerAsksForThePassword: an unverified server gets no password, however it asks. 0.0.0.0 is this host by a name other than loopback.
func TestServerAsksForThePassword(t *testing.T) {
	certificate, ca := certify(t, t.TempDir(), "db.example.org")
	certified := &tls.Config{Certificates: []tls.Certificate{certificate}}
	const caching, sha256, clearText, native = "caching_sha2_password", "sha256_password", "mysql_clear_password", "mysql_native_password"
	const far, near, hop = "tcp(0.0.0.0:%s)", "tcp(127.0.0.1:%s)", "hop(127.0.0.1:%s)"
	const inFull, inClear = "the server asks for the password itself", "the server asks for the password in clear text"
	key := dbtest.Must(rsa.GenerateKey(rand.Reader, 2048))(t)
	mysql.RegisterServerPubKey("known", &rsa.PublicKey{N: new(big.Int).Add(key.N, big.NewInt(2)), E: key.E}) // another server's key
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
		{far, "", nil, native, "mysql_old_password", "in the format of MySQL 4.0", false},
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
		{hop, "?tls=skip-verify", certified, sha256, "", "not verified", false}, // by an application's own net
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
			has := strings.Contains(got(), ofNobodys)
			dbtest.Ensure(t, err != nil && has == (c.want == ""), "the server has it: %v; %v", has, err)
			if c.want == "" {
				return
			}
			trouble, _ := schema.Diagnose(err)
			dbtest.Ensure(t, trouble == schema.Misconfigured && strings.Contains(err.Error(), c.want) && !strings.Contains(err.Error(), "please"), "%v", err)
		})
	}
}

// TestLocalhostIsIPv4: if the server listens only at 127.0.0.1, any user may listen at ::1, often localhost's first address.
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
			dbtest.Ensure(t, errors.Is(err, errors.ErrUnsupported) && dialled == want, "%s: %s, want %s; %v", address, dialled, want, err)
		}
	}
}

// TestGreetingIsKeptAlone: only the greeting is kept, however it arrives. Otherwise each connection would keep the first answers for good.
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
			dbtest.Ensure(t, (err != nil) == (want < 0) && (err != nil || kept == want),
				"%.20q in chunks of %d: %d kept, want %d; %v", said, chunk, kept, want, err)
		}
	}
}

// certify makes a self-signed certificate for a name, and its files.
func certify(t *testing.T, dir, name string) (_ tls.Certificate, file string) {
	t.Helper()
	key := dbtest.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der := dbtest.Must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	private := dbtest.Must(x509.MarshalPKCS8PrivateKey(key))(t)
	file = dir + "/cert.pem"
	for path, block := range map[string]*pem.Block{file: {Type: "CERTIFICATE", Bytes: der}, dir + "/key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		dbtest.OK(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}
