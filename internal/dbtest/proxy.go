package dbtest

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// Proxy stands between a test and a database on a MySQL server, and can fail as networks do.
type Proxy struct {
	// Source is the database behind the proxy, Direct the same past it.
	Source, Direct string

	t           testing.TB
	path        string
	net, server string
	all         sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]struct{}
	// silent, if not nil, holds up all that is sent until it is closed.
	silent chan struct{}
	// lose says of the statements of a transaction that is committed whether the answer gets lost, and the connection; or
	// the question itself, if questions says so. lost, if not nil, is called when that has happened.
	lose      func(statements string) bool
	questions bool
	lost      func()
	// trap, if not nil, says what makes the proxy fall silent; caught gets the number of the connection, prey, when the server has it.
	trap   func(statements string) bool
	caught chan uint32
	prey   uint32
}

// NewProxy makes a database, and lets connections through to it until the test ends.
func NewProxy(t testing.TB) *Proxy {
	t.Helper()
	return ProxyTo(t, MySQL(t))
}

// ProxyTo lets connections through to the database of this DSN until the test ends.
func ProxyTo(t testing.TB, direct string) *Proxy {
	t.Helper()
	cfg, err := mysql.ParseDSN(direct)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "hipq") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
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

// Mend lets connections through again.
func (p *Proxy) Mend() {
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

// Cut ends all connections and refuses new ones.
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

// Stall lets connections stand and new ones come, but nothing gets through, not even that somebody has hung up.
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

// Catch stalls in the middle of a transaction: when a client sends such statements, which the server still gets. What it
// returns gets the server's number of that connection then.
func (p *Proxy) Catch(these func(statements string) bool) (caught <-chan uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap, p.caught = these, make(chan uint32, 1)
	return p.caught
}

// catches says whether these are the statements to be caught, and falls silent then.
func (p *Proxy) catches(sent []byte, number uint32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trap == nil || !p.trap(string(sent)) {
		return false
	}
	p.trap, p.prey = nil, number
	p.stall()
	return true
}

// Loses says which commits' answers get lost from now on, and the connection with each, and what happens then.
func (p *Proxy) Loses(which func(statements string) bool, then func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose, p.lost = which, then
}

// LosesFirst makes the answer to the first of these commits get lost, and the connection with it. What it returns is closed
// when then, if not nil, has been called.
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

// LosesQuestions makes those commits get lost before they happen.
func (p *Proxy) LosesQuestions(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.questions = yes
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

// verdict is what happens to something that was sent.
type verdict int

const (
	passOn verdict = iota
	swallow
	hangUp
	catch // hand it on; the silence has begun
)

// pass hands on what from sends while the tap lets it, and hangs up on both sides then.
func (p *Proxy) pass(from, to net.Conn, judge func([]byte) verdict) {
	defer func() {
		_ = from.Close()
		_ = to.Close()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		silent := p.silent
		p.mu.Unlock()
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
			case catch:
				if _, err := to.Write(buf[:n]); err != nil {
					p.t.Error(err)
				}
				p.caught <- p.prey
			}
		}
		if err != nil {
			return
		}
	}
}
