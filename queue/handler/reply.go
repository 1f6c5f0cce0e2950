package handler

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

// reply is what a handler may say about its job, as one JSON object:
//
//	{"outcome": "finished|retry|failed|sent|release", "result": …, "error": …, "retry_after": "5m", "count": true}
//
// result and error may be any JSON: strings stand for their text, other values for their JSON.
type reply struct {
	Outcome    json.RawMessage `json:"outcome"`
	Result     json.RawMessage `json:"result"`
	Error      json.RawMessage `json:"error"`
	RetryAfter json.RawMessage `json:"retry_after"`
	// Count says that a release counts for the retry policy.
	Count json.RawMessage `json:"count"`
	addressee
	said job.Verdict
}

type addressee struct {
	ID    json.RawMessage `json:"id"`
	Token json.RawMessage `json:"token"`
}

// isOf says whether the line can be about the job's attempt.
func (a addressee) isOf(j *job.Job) bool {
	id, token := jsonText(a.ID), jsonText(a.Token)
	return (id == "" || id == strconv.FormatInt(j.ID, 10)) && (token == "" || token == j.AttemptToken)
}

// replyLike matches a possible reply, however malformed: the key outcome, as different languages print it.
var replyLike = texts.Pattern(`(?i)[{,]\s*[:"']?outcome["']?\s*(:|=>)`)

var errLong = fmt.Errorf("it is longer than %d bytes", maxReply)

// parseReply finds a program's reply: the last line or, if that is no reply, the last earlier line with only a reply's keys.
// A reply that names another job is none.
// Text after it often comes from elsewhere, for example a warning on stderr. A last line that looks like a reply and can't be
// read is an error, because it may have reported a failure. A nonzero exit status overrides an earlier reply that differs,
// because it came later.
func parseReply(p printed, j *job.Job, exit job.Verdict) (reply, error) {
	if r, err := readReply(p); err != nil || r.said != "" && r.isOf(j) {
		return r, err
	}
	r := earlierReply(p.whole(), j)
	if exit != job.Finished && r.said != exit {
		return reply{}, nil
	}
	return r, nil
}

// readReply reads the last line. It is a reply if it is a JSON object with an outcome.
func readReply(p printed) (r reply, err error) {
	if !strings.HasPrefix(p.last, "{") {
		return r, misencoded(p.last)
	}
	if err = json.Unmarshal([]byte(p.last), &r); p.long {
		err = errLong
	}
	switch {
	case err != nil && !replyLike().MatchString(p.last):
		return reply{}, nil
	case err != nil || r.Outcome == nil:
		return reply{}, err
	}
	if err = r.judge(); err != nil {
		return reply{}, err
	}
	return r, nil
}

// misencoded returns an error if a line would be a reply in plain UTF-8.
func misencoded(line string) error {
	bare := strings.NewReplacer("\uFEFF", "", replacement, "").Replace(line) // drop byte order marks and the zeros of UTF-16
	if len(bare) < len(line) && strings.HasPrefix(bare, "{") && replyLike().MatchString(bare) {
		return errors.New("it is not plain UTF-8, without a byte order mark")
	}
	return nil
}

func (r *reply) judge() error {
	switch said := job.Verdict(jsonText(r.Outcome)); said {
	case job.Finished, job.TryAgain, job.Failed, job.Sent:
		r.said = said
		return nil
	case job.Released: // no error text could say that a value was ignored
		r.said = said
		if count := jsonText(r.Count); count != "" && count != "true" && count != "false" {
			return fmt.Errorf("its count is %s, which is not true or false", quoted(count))
		}
		_, err := parseRetryAfter(r.RetryAfter)
		return texts.Wrap(err, "its retry_after")
	}
	return fmt.Errorf("its outcome is %s, which is not one of finished, retry, failed, sent, release", quoted(string(r.Outcome)))
}

// earlierReply returns the last line with an outcome that has only a reply's keys and names no other job. Other lines are
// about something else.
func earlierReply(text string, j *job.Job) reply {
	if !strings.Contains(text, `"outcome"`) {
		return reply{}
	}
	lines := strings.FieldsFunc(text, func(c rune) bool { return c == '\n' || c == '\r' })
	for _, line := range slices.Backward(lines) {
		if r, ok := onlyReply(line); ok && r.judge() == nil && r.isOf(j) {
			return r
		}
	}
	return reply{}
}

// onlyReply reads a line that has only a reply's keys.
func onlyReply(line string) (r reply, ok bool) {
	if !strings.HasPrefix(strings.TrimSpace(line), "{") {
		return r, false
	}
	return r, decodeOnly([]byte(line), &r)
}

// decodeOnly reads a line that has only keys of into.
func decodeOnly(line []byte, into any) bool {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	_, behind := d.Token()
	return err == nil && behind == io.EOF
}

// noOutcome is noted after the output if the last line is a reply without its outcome.
const noOutcome = `[the last line has no "outcome", so it is ignored]`

// noted returns the output with this note if needed, and with the processes left behind.
func noted(p printed) string {
	notes := p.left
	if r, ok := onlyReply(p.last); ok && r.Outcome == nil && (r.Result != nil || r.RetryAfter != nil) {
		notes = noOutcome + "\n" + notes
	}
	return p.with(notes)
}

// with returns the kept output followed by notes.
func (p printed) with(notes string) string {
	if text := strings.TrimRight(p.text, "\n"); notes != "" && text != "" {
		return text + "\n" + notes
	}
	return p.text + notes
}

// amend applies the reply to an outcome. It may make the verdict worse, never better: a program that says finished and then
// crashes has failed.
func (r reply) amend(o *job.Outcome) {
	if r.said == job.Failed || r.said != job.Finished && o.Verdict == job.Finished {
		o.Verdict = r.said
	}
	if o.Verdict == job.Finished || o.Verdict == job.Sent {
		*o = finished(o.Verdict, jsonText(r.Result))
		return
	}
	if o.Verdict == job.Released {
		o.RetryAfter, _ = parseRetryAfter(r.RetryAfter) // checked
		o.Count = jsonText(r.Count) == "true"
		return
	}
	o.Error = cmp.Or(head(jsonText(r.Error), job.MaxDataBytes), o.Error, "the handler said "+string(r.said))
	delay, err := parseRetryAfter(r.RetryAfter)
	switch {
	case err != nil:
		o.Error += fmt.Sprintf(" (retry_after ignored: %v)", err)
	case o.Verdict == job.TryAgain:
		o.RetryAfter = delay
	}
}

// jsonText returns a JSON string's text, or other values' JSON; "" for null.
func jsonText(raw json.RawMessage) string {
	var text *string
	if json.Unmarshal(raw, &text) != nil {
		return texts.Clean(string(raw))
	}
	if text == nil {
		return ""
	}
	return texts.Clean(*text)
}

// parseRetryAfter parses retry_after. A number is seconds, and 0 means unset, as in a retry handler's input. A string is a
// duration with units, and "0s" means at once. The result is 0 only if unset.
func parseRetryAfter(raw json.RawMessage) (time.Duration, error) {
	text := jsonText(raw)
	if text == "" {
		return 0, nil
	}
	var seconds float64
	if json.Unmarshal(raw, &seconds) != nil {
		delay, err := texts.ParseDuration(text)
		switch {
		case errors.Is(err, texts.ErrTooLong):
			err = fmt.Errorf("%.40q is too long", text)
		case err != nil:
			err = fmt.Errorf("%.40q is not a duration; write a number and a unit (s, m, h, d, w), or a number of seconds", text)
		}
		return max(delay, 1), err
	}
	switch {
	case seconds < 0:
		return 0, fmt.Errorf("%.40s is negative", text)
	case seconds >= math.MaxInt64/float64(time.Second):
		return 0, fmt.Errorf("%.40s is too long", text)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}
