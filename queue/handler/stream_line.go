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

// readLine reads a line, without its end. long says that it is longer than a reply may be: then it is only the beginning.
func readLine(from *bufio.Reader, line []byte) (_ []byte, long bool, err error) {
	for {
		part, err := from.ReadSlice('\n')
		if room := maxReply - len(line); len(part) > room+1 {
			part, long = part[:max(0, room)], true
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			if err != nil && len(line) > 0 && errors.Is(err, io.EOF) {
				err = nil // the next reading says so
			}
			return bytes.TrimRight(line, "\r\n"), long, err
		}
	}
}
