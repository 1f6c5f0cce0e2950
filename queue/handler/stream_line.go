package handler

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

type streamReply struct {
	reply
	id int64
	// progress is the line's progress if it is no answer; else nil.
	progress *progressLine
}

// parseLine parses a line that may be an answer. Without error and id, it is none.
func parseLine(line []byte) (r streamReply, err error) {
	if !likeReply(line) {
		return r, nil
	}
	if err := json.Unmarshal(line, &r.reply); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && syntax.Offset == int64(len(line)) {
			err = errors.New("its JSON is incomplete; a reply is one line")
		}
		return r, err
	}
	if r.ID == nil {
		if r.Outcome == nil {
			return r, nil // a log line in JSON
		}
		return r, errors.New("it has an outcome but no id")
	}
	if r.id, err = strconv.ParseInt(jsonText(r.ID), 10, 64); err != nil || r.id < 1 {
		return r, fmt.Errorf("its id %s is not valid", quoted(string(r.ID)))
	}
	if r.Outcome == nil {
		if p, is := parseProgress(line); is {
			r.progress = &p
			return r, nil
		}
		return r, errors.New("it has no outcome")
	}
	err = r.judge()
	return r, err
}

// isReady says whether a line says that its program has started: {"ready": true}.
func isReady(line []byte) bool {
	var r struct {
		Ready bool `json:"ready"`
	}
	return bytes.Contains(line, []byte(`"ready"`)) && decodeOnly(line, &r) && r.Ready
}

type streamLine struct {
	text []byte // without its line end
	// rest is the end of what exceeds a reply's length, with the line end; nil if nothing does.
	rest *output
	// open says that the line has no newline, because the output ended.
	open bool
}

// readLine reads a line into the memory of the previous one.
func readLine(from *bufio.Reader, before []byte) (l streamLine, err error) {
	l.text = before[:0]
	for {
		part, err := from.ReadSlice('\n')
		if room := maxReply - len(l.text); l.rest != nil || len(part) > room+1 {
			room = max(0, room)
			l.rest, part = logged(l.rest, part[room:]), part[:room]
		}
		l.text = append(l.text, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			if l.open = err != nil; l.open && len(l.text) > 0 && errors.Is(err, io.EOF) {
				err = nil // the next read returns it
			}
			if l.rest == nil {
				l.text = bytes.TrimRight(l.text, "\r\n")
			}
			return l, err
		}
	}
}

func (l streamLine) addTo(log *output) *output {
	log = logged(log, l.text)
	switch {
	case l.rest != nil:
		log.cut += l.rest.cut // if anything was cut, rest alone fills the log
		return logged(log, l.rest.buf[:l.rest.n])
	case l.open:
		return log
	}
	return logged(log, []byte("\n"))
}

// marks are the byte order marks of UTF-8 and of UTF-16 in both orders.
var marks = [][]byte{{0xEF, 0xBB, 0xBF}, {0xFF, 0xFE}, {0xFE, 0xFF}}

// missed returns a hint about a line that seems meant as an answer but isn't; "" means none.
func missed(line streamLine) string {
	hint, text := "", bytes.TrimLeft(line.text, " \t")
	switch {
	case bytes.HasPrefix(text, []byte("[")):
		hint = "the program printed a list: a reply is an object, {\"id\": …, \"outcome\": …}, on a line of its own"
	case slices.ContainsFunc(marks, func(mark []byte) bool { return bytes.HasPrefix(text, mark) }):
		hint = "the program printed a byte order mark: a reply is UTF-8 without one"
	}
	if hint == "" || !replyLike().Match(bytes.ReplaceAll(text, []byte{0}, nil)) { // UTF-16 has zeros between letters
		return ""
	}
	return hint
}

// hintOf returns a hint about a line if jobs stay unanswered; "" means none. For a program that has answered before, only an
// incomplete answer matters.
func hintOf(line streamLine, answered bool) string {
	switch text := bytes.TrimLeft(line.text, " \t"); {
	case line.open && (likeReply(text) || !answered):
		return "the program's last line has no newline: end each reply with one, and flush it"
	case answered, likeReply(text), len(text) == 0:
		return ""
	}
	return "the program printed lines but no reply: a reply is {\"id\": …, \"outcome\": …} on a line of its own"
}
