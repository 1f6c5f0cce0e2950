package handler

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hipq/hipq/queue/job"
)

// answer is what a handler may say about its job, as one JSON object:
//
//	{"outcome": "finished|retry|failed|sent", "result": …, "error": …, "retry_after": "5m"}
//
// result and error are any JSON: a string stands for its text, all else for its JSON text.
type answer struct {
	Outcome    json.RawMessage `json:"outcome"`
	Result     json.RawMessage `json:"result"`
	Error      json.RawMessage `json:"error"`
	RetryAfter json.RawMessage `json:"retry_after"`
	// ID and Token are which job's it is, and of which attempt, where it says so.
	ID    json.RawMessage `json:"id"`
	Token json.RawMessage `json:"token"`
	said  job.Verdict
}

// answerLike is what an answer has in it, whatever is wrong with it: the key outcome, as a language may print an object's.
var answerLike = regexp.MustCompile(`(?i)[{,]\s*[:"']?outcome["']?\s*(:|=>)`)

// errLong is the error of a last line that is longer than maxAnswer.
var errLong = fmt.Errorf("it is longer than %d bytes", maxAnswer)

// parseAnswer finds what a program says of its job in what it printed: in its last line, or, where that is no answer, in the
// last line before that is one and nothing else. What comes behind is often not the handler's own: a warning on standard error, a
// notice of its language's. A last line that looks like an answer and can't be read is an error, for it may have said that the job
// failed. Where exit, the verdict of the exit status, is no success and an earlier line says something else, the exit status came
// later and holds.
func parseAnswer(p printed, j *job.Job, exit job.Verdict) (answer, error) {
	if a, err := readAnswer(p); err != nil || a.said != "" {
		return a, err
	}
	a := earlierAnswer(p.whole(), j)
	if exit != job.Finished && a.said != exit {
		return answer{}, nil
	}
	return a, nil
}

// readAnswer reads the last line. It is an answer if it is a JSON object with an outcome; of any other nothing is said.
func readAnswer(p printed) (a answer, err error) {
	if !strings.HasPrefix(p.last, "{") {
		return a, nil
	}
	if err = json.Unmarshal([]byte(p.last), &a); p.long {
		err = errLong
	}
	switch {
	case err != nil && !answerLike.MatchString(p.last):
		return answer{}, nil
	case err != nil || a.Outcome == nil:
		return answer{}, err
	}
	if a.said = a.verdict(); a.said == "" {
		return answer{}, fmt.Errorf("its outcome is %s, which is none of finished, retry, failed, sent", head(string(a.Outcome), maxReason))
	}
	return a, nil
}

// verdict is the outcome, if it is one.
func (a answer) verdict() job.Verdict {
	switch said := job.Verdict(jsonText(a.Outcome)); said {
	case job.Finished, job.TryAgain, job.Failed, job.Sent:
		return said
	}
	return ""
}

// isOf says whether the answer can be that of the job's attempt.
func (a answer) isOf(j *job.Job) bool {
	id, token := jsonText(a.ID), jsonText(a.Token)
	return (id == "" || id == strconv.FormatInt(j.ID, 10)) && (token == "" || token == j.AttemptToken)
}

// earlierAnswer is the last line with an outcome that has no key but those of an answer, and names no other job: others tell of
// something else.
func earlierAnswer(text string, j *job.Job) answer {
	if !strings.Contains(text, `"outcome"`) {
		return answer{}
	}
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for _, line := range slices.Backward(lines) {
		if a, ok := onlyAnswer(line); ok && a.verdict() != "" && a.isOf(j) {
			a.said = a.verdict()
			return a
		}
	}
	return answer{}
}

// onlyAnswer reads a line that has keys of an answer and no others.
func onlyAnswer(line string) (a answer, ok bool) {
	if !strings.HasPrefix(strings.TrimSpace(line), "{") {
		return a, false
	}
	d := json.NewDecoder(strings.NewReader(line))
	d.DisallowUnknownFields()
	err := d.Decode(&a)
	_, behind := d.Token()
	return a, err == nil && behind == io.EOF
}

// noOutcome is what is noted behind the output of a program whose last line has the rest of an answer.
const noOutcome = `[the last line has no "outcome", so it counts for nothing]`

// noted is the output with such a note, where the last line wants one.
func noted(p printed) string {
	a, ok := onlyAnswer(p.last)
	if !ok || a.Outcome != nil || a.Result == nil && a.RetryAfter == nil {
		return p.text
	}
	return strings.TrimRight(p.text, "\n") + "\n" + noOutcome + "\n"
}

// amend adds the answer to what is known of an attempt already. It may make the verdict worse, never better: a program
// that says finished and then crashes has not finished.
func (a answer) amend(o *job.Outcome) {
	if a.said == job.Failed || a.said != job.Finished && o.Verdict == job.Finished {
		o.Verdict = a.said
	}
	if o.Verdict == job.Finished || o.Verdict == job.Sent {
		if o.Result = jsonText(a.Result); len(o.Result) > job.MaxDataBytes {
			*o = tryAgain(fmt.Sprintf("the handler's result has %d bytes, allowed are %d", len(o.Result), job.MaxDataBytes))
		}
		return
	}
	if text := jsonText(a.Error); text != "" {
		o.Error = head(text, job.MaxDataBytes)
	}
	if o.Error == "" {
		o.Error = "the handler said " + string(a.said)
	}
	delay, err := parseRetryAfter(a.RetryAfter)
	switch {
	case err != nil:
		o.Error += fmt.Sprintf(" (retry_after ignored: %v)", err)
	case o.Verdict == job.TryAgain:
		o.RetryAfter = delay
	}
}

// jsonText is the text of a JSON string, and the JSON of anything else. null is nothing.
func jsonText(raw json.RawMessage) string {
	var text *string
	if json.Unmarshal(raw, &text) != nil {
		return clean(string(raw))
	}
	if text == nil {
		return ""
	}
	return clean(*text)
}
