package dbtest

import (
	"sync/atomic"
	"time"
)

// Part says where a connection breaks.
type Part int

// The parts of a question with its answer. The server does what was asked if all of the question arrives.
const (
	TheQuestion Part = iota
	HalfTheQuestion
	HalfTheAnswer
	TheAnswer
)

func (p Part) String() string {
	return []string{"before the question", "in the middle of the question", "in the middle of the answer", "before the answer"}[p]
}

// broken is where a connection breaks.
type broken struct {
	// left is how many questions are still to come.
	left int
	part Part
	// then, if not nil, is called when it happens.
	then  func()
	done  atomic.Bool
	quiet *time.Timer
}

// BreaksAt breaks one connection once, at the n-th question of all clients from now on. A question is what a client sends and
// gets an answer to, so the first is its login. then, if not nil, is called with it. happened says whether it has.
func (p *Proxy) BreaksAt(n int, part Part, then func()) (happened func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = &broken{left: n, part: part, then: then}
	return p.broken.done.Load
}

func (b *broken) happens() {
	b.done.Store(true)
	if b.then != nil {
		b.then()
	}
}

// Commands of the protocol without an answer.
const (
	comQuit     = 0x01
	comLongData = 0x18
	comClose    = 0x19
)

// breaks returns the break if this is its question.
func (p *Proxy) breaks(sent []byte) *broken {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.broken
	if b == nil || b.left == 0 {
		return nil
	}
	if n := int(sent[0]) | int(sent[1])<<8 | int(sent[2])<<16; len(sent) == 4+n && sent[3] == 0 &&
		(sent[4] == comQuit || sent[4] == comLongData || sent[4] == comClose) {
		return nil
	}
	if b.left--; b.left > 0 {
		return nil
	}
	return b
}

// pause is how long a server says nothing more when it has answered everything.
const pause = 20 * time.Millisecond

// swallows collects the server's answer, and breaks the connection when it is complete. t is locked.
func (t *tap) swallows(sent []byte) verdict {
	t.heard = append(t.heard, sent...)
	if b := t.broken; b.quiet == nil {
		b.quiet = time.AfterFunc(pause, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			if b.part == HalfTheAnswer {
				_, _ = t.client.Write(t.heard[:len(t.heard)/2])
			}
			b.happens()
			_, _ = t.client.Close(), t.server.Close()
		})
	} else {
		b.quiet.Reset(pause)
	}
	return swallow
}
