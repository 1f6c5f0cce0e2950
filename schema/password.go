package schema

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/files"
)

// Most plugins prove that hipq has the password without sending it. Some send it, and the server chooses the plugin. So
// only an assured server gets the password itself. A known key (serverPubKey) doesn't assure it: for sha256_password
// the driver uses the key that the server sends.
var (
	errInFull = fmt.Errorf("%w: the server asks for the password itself (caching_sha2_password or sha256_password),"+
		" and nothing proves which server it is: set database.tls", ErrConfig)
	errInClear = fmt.Errorf("%w: the server asks for the password in clear text (mysql_clear_password): check that database.dsn"+
		" leads to the right server, and which plugin the user has there; docs/howto/mysql.md says when hipq sends it", ErrConfig)
	errOldPassword = fmt.Errorf("%w: the server asks for the password in the format of MySQL 4.0, which makes it easy to guess:"+
		" give the user another plugin", ErrConfig)
)

// noKey replaces the key that the driver would request from the server: encrypting with it fails with errNoKey.
var (
	noKey       = rsa.PublicKey{N: big.NewInt(3), E: 65537}
	_, errNoKey = rsa.EncryptOAEP(sha256.New(), rand.Reader, &noKey, []byte{0}, nil)
)

const noKeyName = "hipq has none"

// assured reports whether a server may have the password: it is proven, or on this host.
func assured(cfg *mysql.Config) bool {
	host, _, _ := net.SplitHostPort(cfg.Addr)
	ip, err := netip.ParseAddr(host)
	return proven(cfg) || isTCP(cfg) && (host == "localhost" || err == nil && ip.Unmap().IsLoopback())
}

// proven reports whether a socket's path, or a certificate that TLS verifies, identifies the server.
func proven(cfg *mysql.Config) bool {
	return cfg.Net == "unix" || cfg.TLS != nil && !cfg.TLS.InsecureSkipVerify && !cfg.AllowFallbackToPlaintext
}

// isTCP reports whether Go dials the server. Nets other than unix and TCP are an application's own.
func isTCP(cfg *mysql.Config) bool { return slices.Contains([]string{"tcp", "tcp4", "tcp6"}, cfg.Net) }

func hidePassword(cfg *mysql.Config) error {
	if host, port, _ := net.SplitHostPort(cfg.Addr); cfg.Net == "tcp" && host == "localhost" {
		// Go tries ::1 first, where any user may listen if the server doesn't
		cfg.Addr = net.JoinHostPort("127.0.0.1", port)
	}
	if assured(cfg) {
		return nil
	}
	if cfg.AllowCleartextPasswords || cfg.AllowOldPasswords {
		return fmt.Errorf("%w: database.dsn: allowCleartextPasswords and allowOldPasswords would give the password to any server"+
			" that answers; leave them out, or set database.tls", ErrConfig)
	}
	key := noKey // the driver needs its own copy
	mysql.RegisterServerPubKey(noKeyName, &key)
	cfg.ServerPubKey = noKeyName
	if cfg.TLS == nil || !cfg.TLS.InsecureSkipVerify {
		return nil
	}
	if !isTCP(cfg) { // only the driver can dial it, so nothing would read the greeting
		return fmt.Errorf("%w: database.dsn: TLS is not verified (skip-verify or preferred), which hipq allows only with tcp(…):"+
			" set database.tls", ErrConfig)
	}
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		g := ctx.Value(greetingKey{}).(*greeting)
		var err error
		g.Conn, err = new(net.Dialer).DialContext(ctx, network, addr)
		return g, err
	}
	return nil
}

// beforeConnect readies the driver's copy of the config for one connection. Without a copy for each, one fallback to plain text
// would apply to all.
func (o Options) beforeConnect(ctx context.Context, cfg *mysql.Config) error {
	if !assured(cfg) && cfg.TLS != nil && cfg.TLS.InsecureSkipVerify {
		cfg.TLS.VerifyConnection = func(tls.ConnectionState) error {
			cfg.TLS = nil // from here on the driver only checks whether TLS hides a password
			return ctx.Value(greetingKey{}).(*greeting).check()
		}
	}
	if o.DSNFile == "" {
		return nil
	}
	text, _, err := files.ReadTrusted(o.DSNFile)
	if now, invalid := mysql.ParseDSN(strings.TrimRight(string(text), "\r\n")); err == nil && invalid == nil { // else it is being written
		cfg.User, cfg.Passwd = now.User, now.Passwd
	}
	return nil
}

// greeting is a connection that keeps the server's first packet: if it asks for sha256_password, the driver would send
// the password as soon as TLS has begun.
type greeting struct {
	net.Conn
	said  []byte
	whole bool
}

type greetingKey struct{}

// mostGreeting is longer than any server's greeting.
const mostGreeting = 1 << 16

func (g *greeting) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if !g.whole {
		if g.said = append(g.said, p[:n]...); len(g.said) >= 4 {
			length := min(4+(int(g.said[0])|int(g.said[1])<<8|int(g.said[2])<<16), mostGreeting)
			g.whole = len(g.said) >= length
			g.said = g.said[:min(len(g.said), length)]
		}
	}
	return n, err
}

// SyscallConn is for the driver, which checks a connection before it reuses it.
func (g *greeting) SyscallConn() (syscall.RawConn, error) { return g.Conn.(syscall.Conn).SyscallConn() }

func (g *greeting) check() error {
	if len(g.said) >= mostGreeting || bytes.Contains(g.said, []byte("sha256_password")) {
		return errInFull
	}
	g.said = nil
	return nil
}

// ownWords replaces the driver's advice, which is to send the password anyway.
func ownWords(err error) error {
	switch {
	case errors.Is(err, mysql.ErrCleartextPassword):
		return errInClear
	case errors.Is(err, mysql.ErrOldPassword):
		return errOldPassword
	case err.Error() == errNoKey.Error():
		return errInFull
	}
	return err
}

// TLS configures the encrypted connection to MySQL. It is a section of the config, so its fields have the config's
// names. The server's certificate is always verified.
type TLS struct {
	// CA is a PEM file of certificates, one of which signed the server's; empty means the system's.
	CA string `key:"ca" file:"yes"`
	// Cert and Key are PEM files of hipq's client certificate; empty means none.
	Cert string `key:"cert" file:"yes"`
	Key  string `key:"key" file:"yes"`
	// ServerName is the name in the server's certificate; empty means the host of the DSN.
	ServerName string `key:"server_name"`
}

// Unverified says what is wrong if nothing proves the identity of a MySQL server on another host; otherwise empty. It
// doesn't connect.
func (o Options) Unverified() string {
	for _, cfg := range o.ways() {
		switch {
		case assured(cfg):
		case cfg.TLS == nil:
			return "the connection to the database goes to another host and is not encrypted"
		default:
			return "the connection to the database is encrypted, but the server isn't verified"
		}
	}
	return ""
}

// OnLoopback is the address of a MySQL server on this host if only its port identifies it: while the server is down,
// another user may listen there. Otherwise it is empty.
func (o Options) OnLoopback() string {
	for _, cfg := range o.ways() {
		if assured(cfg) && !proven(cfg) {
			return cfg.Addr
		}
	}
	return ""
}

// ways are the DSN's configs, one per server; none if database.tls verifies them.
func (o Options) ways() (all []*mysql.Config) {
	cfg, err := mysql.ParseDSN(o.DSN)
	if err != nil || o.TLS != nil {
		return nil
	}
	all, err = o.servers(cfg)
	if err != nil { // a node of the wrong form is a mistake of its own
		o.Nodes = nil
		all, _ = o.servers(cfg)
	}
	return all
}

func (t *TLS) config(addr string) (*tls.Config, error) {
	c := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if c.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, fmt.Errorf("%w: database.tls needs a server_name, because %q is not a host and port", ErrConfig, addr)
		}
		c.ServerName = host
	}
	if t.CA != "" {
		pem, _, err := files.Read(t.CA)
		if err != nil {
			return nil, fmt.Errorf("%w: database.tls.ca: %w", ErrConfig, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%w: database.tls.ca: %s has no PEM certificate", ErrConfig, t.CA)
		}
	}
	if t.Cert == "" && t.Key == "" {
		return c, nil
	}
	if t.Cert == "" || t.Key == "" {
		return nil, fmt.Errorf("%w: database.tls: cert and key belong together", ErrConfig)
	}
	cert, _, err := files.Read(t.Cert)
	if err != nil {
		return nil, fmt.Errorf("%w: database.tls.cert: %w", ErrConfig, err)
	}
	key, _, err := files.Read(t.Key)
	if err != nil {
		return nil, fmt.Errorf("%w: database.tls.key: %w", ErrConfig, err)
	}
	own, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%w: database.tls: cert %s and key %s: %w", ErrConfig, t.Cert, t.Key, err)
	}
	c.Certificates = []tls.Certificate{own}
	return c, nil
}
