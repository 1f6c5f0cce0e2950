package dbtest

import (
	"bytes"
	"net"
	"strings"
	"sync"
)

// tap reads the statements of one connection.
type tap struct {
	proxy          *Proxy
	client, server net.Conn
	mu             sync.Mutex
	// since is what was sent since the transaction began.
	since strings.Builder
	// mute means that the next reply is the one to lose.
	mute bool
	// heard is what arrived of it.
	heard []byte
	// broken, if not nil, breaks the connection once the server has answered.
	broken *broken
}

// ask judges what the client sends.
func (t *tap) ask(sent []byte) verdict {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := t.proxy.breaks(sent); b != nil && b.part <= HalfTheQuestion {
		if b.part == HalfTheQuestion {
			_, _ = t.server.Write(sent[:len(sent)/2])
		}
		b.happens()
		return hangUp
	} else if b != nil {
		t.broken = b
	}
	if bytes.Contains(sent, []byte("\x03START TRANSACTION")) {
		t.since.Reset()
	}
	t.since.Write(sent)
	// alone, or after statements sent with it
	if !bytes.HasSuffix(sent, []byte("\x03COMMIT")) && !bytes.HasSuffix(sent, []byte(";COMMIT")) {
		return passOn
	}
	t.proxy.mu.Lock()
	lose, questions, lost := t.proxy.lose, t.proxy.questions, t.proxy.lost
	t.proxy.mu.Unlock()
	doomed := lose != nil && lose(t.since.String())
	t.since.Reset()
	if doomed && questions {
		if lost != nil {
			lost()
		}
		return hangUp
	}
	t.mute = doomed
	return passOn
}

// answer judges what the server sends. Once the server has answered everything, the commit is done.
func (t *tap) answer(sent []byte) verdict {
	t.mu.Lock()
	if t.broken != nil {
		defer t.mu.Unlock()
		return t.swallows(sent)
	}
	mute := t.mute
	if mute {
		t.heard = append(t.heard, sent...)
	}
	heard := t.heard
	t.mu.Unlock()
	switch {
	case !mute:
		return passOn
	case !complete(heard):
		return swallow
	}
	t.proxy.mu.Lock()
	lost := t.proxy.lost
	t.proxy.mu.Unlock()
	if lost != nil {
		lost()
	}
	return hangUp
}

// moreResults is the status bit that says that another result follows.
const moreResults = 8

// complete says whether these packets answer all statements sent together. None returns rows: each packet says OK, and
// whether more follow.
func complete(packets []byte) bool {
	for len(packets) >= 4 {
		n := int(packets[0]) | int(packets[1])<<8 | int(packets[2])<<16
		if len(packets) < 4+n {
			return false
		}
		payload := packets[4 : 4+n]
		packets = packets[4+n:]
		if payload[0] != 0 {
			return true // an error ends everything
		}
		status := skipNumber(skipNumber(payload[1:])) // after the affected rows and the last id
		if status[0]&moreResults == 0 {
			return true
		}
	}
	return false
}

// skipNumber skips a length-encoded number: one byte, or one that says how many follow.
func skipNumber(b []byte) []byte {
	switch b[0] {
	case 0xfc:
		return b[3:]
	case 0xfd:
		return b[4:]
	case 0xfe:
		return b[9:]
	}
	return b[1:]
}
