package dbtest

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Proxy stands between a test and a MySQL database, and fails like a network.
type Proxy struct {
	// Source is the database through the proxy, Direct the same database without it.
	Source, Direct string

	t           testing.TB
	path        string
	net, server string
	all         sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]struct{}
	// silent, if not nil, blocks all traffic until it is closed.
	silent chan struct{}
	// lose says, by a committed transaction's statements, whether its reply and the connection get lost.
	lose func(statements string) bool
	// questions makes the COMMIT itself get lost instead.
	questions bool
	// lost, if not nil, is called when that has happened.
	lost func()
	// broken is the cut of BreaksAt, if any.
	broken *broken
	// slow delays all that is forwarded.
	slow time.Duration
}

// NewProxy creates a database and forwards connections to it until the test ends.
func NewProxy(t testing.TB) *Proxy {
	t.Helper()
	return ProxyTo(t, MySQL(t))
}

// ProxyTo forwards connections to this DSN's database until the test ends.
func ProxyTo(t testing.TB, direct string) *Proxy {
	t.Helper()
	cfg, err := mysql.ParseDSN(direct)
	OK(t, err)
	dir, err := os.MkdirTemp("", "hipq") // the path of a socket must be short
	OK(t, err)
	p := &Proxy{Direct: direct, t: t, path: filepath.Join(dir, "sql"), net: cfg.Net, server: cfg.Addr, conns: map[net.Conn]struct{}{}}
	cfg.Net, cfg.Addr = "unix", p.path
	p.Source = cfg.FormatDSN()
	p.Mend()
	t.Cleanup(func() {
		p.Resume()
		p.Cut()
		p.all.Wait()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return p
}

// Mend forwards connections again, after a Cut.
func (p *Proxy) Mend() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return
	}
	listener := Must(net.Listen("unix", p.path))(p.t)
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

// Cut closes all connections and refuses new ones.
func (p *Proxy) Cut() {
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

// Stall keeps connections and accepts new ones, but forwards nothing, not even a hang-up.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stall()
}

func (p *Proxy) stall() {
	if p.silent == nil {
		p.silent = make(chan struct{})
	}
}

// Resume ends a stall.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent != nil {
		close(p.silent)
		p.silent = nil
	}
}

// Loses selects the commits whose replies get lost from now on, each with its connection. then is called after each.
func (p *Proxy) Loses(which func(statements string) bool, then func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose, p.lost = which, then
}

// LosesFirst loses the reply to the first of these commits, with its connection. The channel is closed after the call of
// then, if any.
func (p *Proxy) LosesFirst(which func(statements string) bool, then func()) <-chan struct{} {
	var once sync.Once
	lost := make(chan struct{})
	p.Loses(func(statements string) (lose bool) {
		if which(statements) {
			once.Do(func() { lose = true })
		}
		return lose
	}, func() {
		if then != nil {
			then()
		}
		close(lost)
	})
	return lost
}

// LosesQuestions loses those commits before they happen.
func (p *Proxy) LosesQuestions(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.questions = yes
}

// Slow delays everything that is forwarded by so much.
func (p *Proxy) Slow(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slow = by
}

func (p *Proxy) serve(client net.Conn) {
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
	tap := &tap{proxy: p, client: client, server: server}
	var both sync.WaitGroup
	both.Go(func() { p.pass(client, server, tap.ask) })
	both.Go(func() { p.pass(server, client, tap.answer) })
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, client)
	delete(p.conns, server)
}

// verdict is what happens to sent data.
type verdict int

const (
	passOn verdict = iota
	swallow
	hangUp
)

// pass forwards what from sends while the tap allows it, then closes both sides.
func (p *Proxy) pass(from, to net.Conn, judge func([]byte) verdict) {
	defer func() {
		_ = from.Close()
		_ = to.Close()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		silent, slow := p.silent, p.slow
		p.mu.Unlock()
		time.Sleep(slow)
		if silent != nil {
			<-silent
		}
		if n > 0 {
			switch judge(buf[:n]) {
			case hangUp:
				return
			case passOn:
				if _, err := to.Write(buf[:n]); err != nil {
					return
				}
			}
		}
		if err != nil {
			return
		}
	}
}
