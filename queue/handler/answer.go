package handler

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hipq/hipq/queue/job"
)

// answer is what a handler may say about its job, as one JSON object:
//
//	{"outcome": "finished|retry|failed|sent", "result": …, "error": …, "retry_after": "5m"}
//
// result and error are any JSON: a string stands for its text, all else for its JSON text.
type answer struct {
	Outcome    string          `json:"outcome"`
	Result     json.RawMessage `json:"result"`
	Error      json.RawMessage `json:"error"`
	RetryAfter json.RawMessage `json:"retry_after"`
}

// parseAnswer reads a line. It is an answer if it is a JSON object with an outcome; any other is just output.
func parseAnswer(line string) (answer, bool) {
	var a answer
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &a) != nil {
		return answer{}, false
	}
	return a, a.Outcome != ""
}

// amend adds the answer to what is known of an attempt already. It may make the verdict worse, never better: a program
// that says finished and then crashes has not finished.
func (a answer) amend(o *job.Outcome) {
	said := job.Verdict(a.Outcome)
	switch said {
	case job.Finished, job.TryAgain, job.Failed, job.Sent:
	default: // a slip must not pass for success
		if o.Verdict == job.Finished {
			*o = tryAgain(fmt.Sprintf("the handler said %q, which is none of finished, retry, failed, sent", head(a.Outcome, maxReason)))
		}
		return
	}
	if said == job.Failed || said != job.Finished && o.Verdict == job.Finished {
		o.Verdict = said
	}
	if o.Verdict == job.Finished || o.Verdict == job.Sent {
		o.Result = jsonText(a.Result)
		return
	}
	if text := jsonText(a.Error); text != "" {
		o.Error = text
	}
	if o.Error == "" {
		o.Error = "the handler said " + a.Outcome
	}
	if wish := jsonText(a.RetryAfter); wish != "" {
		delay, err := parseDelay(wish)
		if err != nil {
			o.Error += fmt.Sprintf(" (retry_after ignored: %v)", err)
		} else if o.Verdict == job.TryAgain {
			o.RetryAfter = delay
		}
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
