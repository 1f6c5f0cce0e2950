package schema_test

import (
	"bytes"
	"cmp"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
)

// mad is a server that greets as MySQL does, lets everybody in, and gives the same answer, of some packets, to all that it is
// asked. It is encrypted if it has a certificate and the client wants it. No test may let it have a file.
func mad(t *testing.T, certificate *tls.Config, answer ...[]byte) (address string) {
	address, _ = serve(t, func(c *client) {
		c.greet("mysql_native_password", certificate)
		c.send("\x00\x00\x00\x02\x00\x00\x00") // that is right
		for said := c.listen(); said != nil; said = c.listen() {
			dbtest.Ensure(t, !bytes.Contains(said, []byte(ofNobodys)), "the server got a file: %q", said)
			for _, packet := range answer {
				c.send(string(packet))
			}
		}
	})
	return address
}

// thief is a server that does what it can to get a password: by a plugin that it greets with, and one that it changes to. got is
// all that it was sent, and can read.
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
			c.send("\x01\x04") // in full, please
			listen()
		}
		if len(said) != 1 && cmp.Or(changes, greets) != "sha256_password" { // no wish for a key
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

// serve talks to each client, one after the other; end waits until it is done with all.
func serve(t *testing.T, talk func(*client)) (address string, end func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	dbtest.OK(t, err)
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

// client is one to whom a server talks, in packets that are numbered.
type client struct {
	net.Conn
	number byte
}

const salt = "salt5678salt90123456"

// greet greets with a plugin, encrypts if the client wants it, and gives what the client says then.
func (c *client) greet(plugin string, certificate *tls.Config) (said []byte) {
	knows := "\xff\xf7"
	if certificate != nil {
		knows = "\xff\xff" // TLS too
	}
	c.send("\n8.4.0\x00\x01\x00\x00\x00" + salt[:8] + "\x00" + knows + "\x2d\x02\x00\xff\xc7\x15" + strings.Repeat("\x00", 10) + salt[8:] + "\x00" + plugin + "\x00")
	said = c.listen()
	if certificate != nil && len(said) == 32 { // a wish for TLS, before the name
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

// listen is nil when the client has gone.
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
