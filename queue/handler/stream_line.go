package handler

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

type streamReply struct {
	reply
	id int64
	// progress is what it says of how far the job is, instead of an answer; nil if it is none.
	progress *progressLine
}

// parseLine reads a line of a program that may be an answer. Without an error and an id it is none.
func parseLine(line []byte) (r streamReply, err error) {
	if !likeReply(line) {
		return r, nil
	}
	if err := json.Unmarshal(line, &r.reply); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && syntax.Offset == int64(len(line)) {
			err = errors.New("its JSON goes on behind its end, and a reply is one line")
		}
		return r, err
	}
	if r.ID == nil {
		if r.Outcome == nil {
			return r, nil // it logs in JSON
		}
		return r, errors.New("it has an outcome and no id")
	}
	if r.id, err = strconv.ParseInt(jsonText(r.ID), 10, 64); err != nil || r.id < 1 {
		return r, fmt.Errorf("its id is %s, which is none", quoted(string(r.ID)))
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

type streamLine struct {
	text []byte // without its end
	// rest is what comes behind text in a line that is longer than a reply may be, its end too; nil if it is not. Of that only the
	// end is kept.
	rest *output
	// open says that it has no end: the program has none behind it.
	open bool
}

// readLine reads a line, into the memory of the one before.
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
				err = nil // the next reading says so
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
		log.cut += l.rest.cut // if there is any, the rest has more than a log keeps
		return logged(log, l.rest.buf[:l.rest.n])
	case l.open:
		return log
	}
	return logged(log, []byte("\n"))
}

// marks are the beginnings of texts by which some programs say how they are encoded: UTF-8, and the two kinds of UTF-16.
var marks = [][]byte{{0xEF, 0xBB, 0xBF}, {0xFF, 0xFE}, {0xFE, 0xFF}}

// missed says what is wrong with a line that seems to be meant as an answer, and is not taken for one; "" is nothing.
func missed(line streamLine) string {
	hint, text := "", bytes.TrimLeft(line.text, " \t")
	if bytes.HasPrefix(text, []byte("[")) {
		hint = "the program printed a list: a reply is an object, {\"id\": …, \"outcome\": …}, on a line of its own"
	}
	for _, mark := range marks {
		if bytes.HasPrefix(text, mark) {
			hint = "the program printed a byte order mark: a reply is UTF-8 without one"
		}
	}
	if hint == "" || !replyLike().Match(bytes.ReplaceAll(text, []byte{0}, nil)) { // UTF-16 has zeros between its letters
		return ""
	}
	return hint
}

// hintOf says what else may be wrong with a line, where jobs stay without an answer; "" is nothing. Of a program that has answered
// before, only an answer that is not a whole line is of interest.
func hintOf(line streamLine, answered bool) string {
	switch text := bytes.TrimLeft(line.text, " \t"); {
	case line.open && (likeReply(text) || !answered):
		return "the last line that the program printed has no end: a reply ends with a newline, and must be flushed"
	case answered, likeReply(text), len(text) == 0:
		return ""
	}
	return "the program has printed lines, and no reply: that is {\"id\": …, \"outcome\": …} on a line of its own"
}
