package handler

import (
	"encoding/json"
	"fmt"
	"regexp"
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
	said       job.Verdict
}

// answerLike is what an answer has in it, whatever is wrong with it: the key outcome, as a language may print an object's.
var answerLike = regexp.MustCompile(`(?i)[{,]\s*[:"']?outcome["']?\s*(:|=>)`)

// errLong is the error of a last line that is longer than maxAnswer.
var errLong = fmt.Errorf("it is longer than %d bytes", maxAnswer)

// parseAnswer reads the last line of what a program printed. It is an answer if it is a JSON object with an outcome; any
// other is just output, of which nothing is said. One that looks like an answer and can't be read is an error, for it may
// have said that the job failed.
func parseAnswer(p printed) (a answer, err error) {
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
	switch a.said = job.Verdict(jsonText(a.Outcome)); a.said {
	case job.Finished, job.TryAgain, job.Failed, job.Sent:
		return a, nil
	}
	return answer{}, fmt.Errorf("its outcome is %s, which is none of finished, retry, failed, sent", head(string(a.Outcome), maxReason))
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
