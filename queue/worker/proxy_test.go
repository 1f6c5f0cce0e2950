package worker_test

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
)

// proxy stands between a worker and its MySQL server, and can fail as networks do.
type proxy struct {
	t           *testing.T
	path        string
	net, server string
	all         sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]struct{}
	// silent, if not nil, holds up all that is sent until it is closed.
	silent chan struct{}
	// lose says of the statements of a transaction that is committed whether the answer gets lost, and the connection.
	// lost, if not nil, is called when that has happened.
	lose func(statements string) bool
	lost func()
}

// proxied opens a shop of its own behind a proxy. Its elsewhere is past it.
func proxied(t *testing.T) (shop, *proxy) {
	t.Helper()
	source := dbtest.MySQL(t)
	cfg := must[*mysql.Config](t)(mysql.ParseDSN(source))
	dir := must[string](t)(os.MkdirTemp("", "hipq")) // the path of a socket must be short
	p := &proxy{t: t, path: filepath.Join(dir, "sql"), net: cfg.Net, server: cfg.Addr, conns: map[net.Conn]struct{}{}}
	p.mend()
	t.Cleanup(func() {
		p.resume()
		p.cut()
		p.all.Wait()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	cfg.Net, cfg.Addr = "unix", p.path
	s := openShop(t, "mysql", cfg.FormatDSN())
	s.source = source
	return s, p
}

// mend lets connections through again.
func (p *proxy) mend() {
	p.t.Helper()
	listener, err := net.Listen("unix", p.path)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener = listener
	p.all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.all.Go(func() { p.serve(client) })
		}
	})
}

// cut ends all connections and refuses new ones.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil {
		return
	}
	if err := p.listener.Close(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.t.Error(err)
	}
	p.listener = nil
	for c := range p.conns {
		_ = c.Close()
	}
}

// stall lets connections stand and new ones come, but nothing gets through.
func (p *proxy) stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = make(chan struct{})
}

// resume ends a stall.
func (p *proxy) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent != nil {
		close(p.silent)
		p.silent = nil
	}
}

// loses says which commits' answers get lost from now on, and the connection with each, and what happens then.
func (p *proxy) loses(which func(statements string) bool, then func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose, p.lost = which, then
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial(p.net, p.server)
	if err != nil {
		p.t.Error(err)
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	if p.listener == nil {
		_ = client.Close() // accepted while it was cut
	}
	p.mu.Unlock()
	tap := &tap{proxy: p}
	var both sync.WaitGroup
	both.Go(func() { p.pass(client, server, tap.ask) })
	both.Go(func() { p.pass(server, client, tap.answer) })
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, client)
	delete(p.conns, server)
}

// pass hands on what from sends while the tap lets it, and hangs up on both sides then.
func (p *proxy) pass(from, to net.Conn, let func([]byte) bool) {
	defer func() {
		_ = from.Close()
		_ = to.Close()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			p.mu.Lock()
			silent := p.silent
			p.mu.Unlock()
			if silent != nil {
				<-silent
			}
			if !let(buf[:n]) {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// tap listens to the statements of one connection.
type tap struct {
	proxy *proxy
	mu    sync.Mutex
	// since is what was sent since the transaction began.
	since strings.Builder
	// mute means that the next answer is the one to lose.
	mute bool
}

// ask hears what the client sends.
func (t *tap) ask(sent []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if bytes.Contains(sent, []byte("\x03START TRANSACTION")) {
		t.since.Reset()
	}
	t.since.Write(sent)
	if !bytes.Contains(sent, []byte("\x03COMMIT")) {
		return true
	}
	t.proxy.mu.Lock()
	lose := t.proxy.lose
	t.proxy.mu.Unlock()
	t.mute = lose != nil && lose(t.since.String())
	t.since.Reset()
	return true
}

// answer hears what the server sends: when it answers, the commit is done.
func (t *tap) answer([]byte) bool {
	t.mu.Lock()
	mute := t.mute
	t.mu.Unlock()
	if !mute {
		return true
	}
	t.proxy.mu.Lock()
	lost := t.proxy.lost
	t.proxy.mu.Unlock()
	if lost != nil {
		lost()
	}
	return false
}
