package schema

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
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

// hidePassword keeps the password from a server that isn't assured.
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
