package schema

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/files"
)

// TLS configures the encrypted connection to MySQL. It is a section of the config, so its fields have the config's
// names. The server's certificate is always verified.
type TLS struct {
	// CA is a PEM file of certificates, one of which signed the server's; empty means the system's.
	CA string
	// Cert and Key are PEM files of hipq's client certificate; empty means none.
	Cert, Key string
	// ServerName is the name in the server's certificate; empty means the host of the DSN.
	ServerName string
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

// config reads the files. addr is the server's.
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
