package schema

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
)

// TLS says how the connection to MySQL is encrypted. It is a section of the config, so its fields have the config's names.
// The server's certificate is always verified.
type TLS struct {
	// CA is a file of certificates, in PEM, of which one has signed the server's; empty is those of the system.
	CA string
	// Cert and Key are files, in PEM, by which hipq proves who it is; empty is not at all.
	Cert, Key string
	// ServerName is the name in the server's certificate; empty is the host of the DSN.
	ServerName string
}

// config reads the files. addr is the server's.
func (t *TLS) config(addr string) (*tls.Config, error) {
	c := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if c.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, fmt.Errorf("%w: database.tls needs a server_name, for %q is no host and port", ErrConfig, addr)
		}
		c.ServerName = host
	}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("%w: database.tls.ca: %w", ErrConfig, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%w: database.tls.ca: %s holds no certificate in PEM", ErrConfig, t.CA)
		}
	}
	if t.Cert == "" && t.Key == "" {
		return c, nil
	}
	if t.Cert == "" || t.Key == "" {
		return nil, fmt.Errorf("%w: database.tls: cert and key belong together", ErrConfig)
	}
	own, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		// of a key's file only the fault, in case it quotes something
		return nil, fmt.Errorf("%w: database.tls: cert %s and key %s: %w", ErrConfig, t.Cert, t.Key, errors.Unwrap(err))
	}
	c.Certificates = []tls.Certificate{own}
	return c, nil
}
