package handler

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/hipq/hipq/queue/job"
)

// streamReply is a program's answer to one of its jobs, and which.
type streamReply struct {
	reply
	id int64
	// progress is what it says of how far the job is, instead of an answer; nil if it is none. understood says that one can be made
	// out.
	progress   *progressLine
	understood bool
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
		return r, fmt.Errorf("its id is %s, which is none", head(string(r.ID), maxReason))
	}
	if r.Outcome == nil {
		if p, is, understood := parseProgress(line); is {
			r.progress, r.understood = &p, understood
			return r, nil
		}
		return r, errors.New("it has no outcome")
	}
	if r.said = r.verdict(); r.said == "" {
		return r, fmt.Errorf("its outcome is %s, which is none of finished, retry, failed, sent", head(string(r.Outcome), maxReason))
	}
	return r, nil
}

// outcome is what the answer makes of the attempt.
func (r streamReply) outcome() job.Outcome {
	o := job.Outcome{Verdict: job.Finished}
	r.amend(&o)
	return o
}

// streamLine is a line of a program's stdout.
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

// addTo adds the line to a log.
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
