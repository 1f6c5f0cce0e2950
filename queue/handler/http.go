package handler

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hipq/hipq/queue/job"
)

// HTTP sends each job to a URL, as the JSON that a program reads on its stdin. The answer's status decides: 2xx is finished, and
// the body its result; 202 means that the work was only sent, and an answer will come otherwise; 408, 425, 429 and 5xx are
// errors to be tried again, when Retry-After says, up to a day; all else has failed for good, redirects too, which are not
// followed. A body that is a reply, as a program may print one, makes the outcome worse or adds to it. An answer whose
// Content-Type is application/x-ndjson is read line by line as it comes: lines of progress, others that are the log, and in the
// end the reply, which must be there.
//
// Of an error the Output is the status and the beginning of the body, 16 KiB of it.
//
// Connections are kept for a few seconds, and a server's certificate is always verified. The request ends with its context; then it is
// unknown whether the server has done the work.
//
// Its fields must not change once the first job runs. An HTTP is safe for concurrent use. Close it when the worker has ended.
type HTTP struct {
	// URL is where to send jobs: http or https, without a user.
	URL string
	// Method is POST where it is empty.
	Method string
	// Header is sent with each request. No request is repeated within an attempt, unless nothing of it was sent.
	Header http.Header
	// Secret signs each request in the form of Standard Webhooks, with the headers webhook-id, webhook-timestamp and
	// webhook-signature; empty is no signature.
	Secret []byte
	// Networks are those with addresses that are not public (private, loopback, link-local and the like) to which a connection
	// may go anyway. It is checked on the address that is connected to, so a name can't lead elsewhere.
	Networks []netip.Prefix
	// Proxy has the environment's proxy used (HTTPS_PROXY and so on), whose own address is checked then.
	Proxy bool
	// RootCAs are the authorities whose certificates are trusted; nil are the system's.
	RootCAs *x509.CertPool

	// ping is pingAfter where it is 0.
	ping   time.Duration
	once   sync.Once
	client *http.Client
}

const (
	// maxBody is how long an answer may be, in bytes, when it has been decompressed.
	maxBody = job.MaxDataBytes
	// maxRetryAfter is the longest time for which an answer's Retry-After counts.
	maxRetryAfter = 24 * time.Hour
	// idleFor is how long an unused connection is kept: less than servers do by default (5 s and more), for a request on
	// one that the server is about to close is an error, and it is unknown whether it was taken. What is between the two, such as a
	// NAT, forgets no connection in that time.
	idleFor = 4 * time.Second
	// pingAfter is how long a connection of HTTP/2 may be silent while requests wait on it; then it has to answer a ping, or is
	// dead for all of them, and isn't used again.
	pingAfter = 15 * time.Second
)

// Handle sends the job once.
func (h *HTTP) Handle(ctx context.Context, j *job.Job) (outcome job.Outcome) {
	h.once.Do(h.dialled)
	began := time.Now()
	defer func() { outcome.Ran = time.Since(began) }()
	request, err := h.request(ctx, j)
	if err != nil {
		return job.Outcome{Verdict: job.Failed, Error: clean(err.Error())}
	}
	h.noteRequest(ctx, request)
	answer, err := h.client.Do(request)
	if err != nil {
		return tryAgain(reasonOf(ctx, err))
	}
	defer func() { _ = answer.Body.Close() }()
	body, log, err := readAnswer(ctx, answer, j)
	if log != nil {
		defer func() { outcome.Output = log.end().text }()
	}
	text := clean(string(body))
	noteAnswer(ctx, answer, text)
	switch finished := verdictOf(answer.StatusCode) == job.Finished; {
	case !finished && (err != nil || len(text) > maxBody):
		text = head(text, keepOutput) // no reply; the status has said it all
	case err != nil && ctx.Err() != nil:
		return tryAgain(reasonOf(ctx, err))
	case err != nil:
		return tryAgain(fmt.Sprintf("%s, and its body can't be read: %s", statusOf(answer), reasonOf(ctx, err)))
	case len(text) > maxBody:
		what := "its body"
		if comesAsLines(answer) {
			what = "a line of its body"
		}
		return tryAgain(fmt.Sprintf("%s, and %s has more than %d bytes", statusOf(answer), what, maxBody))
	}
	if outcome = outcomeOfAnswer(answer, text, j, j.StartTime.Add(time.Since(began))); outcome.Verdict.IsError() && !comesAsLines(answer) {
		outcome.Output = statusOf(answer) + "\n" + head(text, keepOutput)
	}
	return outcome
}

// Close closes the connections that are kept.
func (h *HTTP) Close() {
	if h.client != nil {
		h.client.CloseIdleConnections()
	}
}

func (h *HTTP) request(ctx context.Context, j *job.Job) (*http.Request, error) {
	body := Message(j)
	request, err := http.NewRequestWithContext(mayWrite(ctx), cmp.Or(h.Method, http.MethodPost), h.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(request.Header, h.Header.Clone())
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		// by these names the library would repeat a request whose connection broke, without a trace; servers take any case
		if values, ok := request.Header[name]; ok {
			delete(request.Header, name)
			request.Header[strings.ToLower(name)] = values
		}
	}
	request.Header.Set("Content-Type", "application/json")
	if request.Header.Get("User-Agent") == "" {
		request.Header.Set("User-Agent", "hipq")
	}
	if len(h.Secret) > 0 {
		h.sign(request, j, body, time.Now())
	}
	return request, nil
}

// sign adds the headers of Standard Webhooks. The id is the same at each attempt, so that the other side may know a job again.
func (h *HTTP) sign(request *http.Request, j *job.Job, body []byte, now time.Time) {
	id := j.Queue + "-" + strconv.FormatInt(j.ID, 10) + "-" + strconv.FormatInt(j.CreateTime.UnixMicro(), 10)
	at := strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, h.Secret)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	request.Header.Set("Webhook-Id", id)
	request.Header.Set("Webhook-Timestamp", at)
	request.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// outcomeOfAnswer turns an answer into an outcome. now is by the database's clock.
func outcomeOfAnswer(answer *http.Response, text string, j *job.Job, now time.Time) job.Outcome {
	said, err := readReply(printed{last: strings.TrimSpace(text)})
	outcome := job.Outcome{Verdict: verdictOf(answer.StatusCode)}
	finished := outcome.Verdict == job.Finished
	switch {
	case finished && err != nil:
		return tryAgain(fmt.Sprintf("the endpoint's reply can't be read: %v: %s", err, quoted(text)))
	case said.said != "" && !said.isOf(j):
		return tryAgain("the endpoint's reply is for another job, or another attempt: " + quoted(text))
	case finished && said.said == "" && comesAsLines(answer):
		// the status was sent before the work was done
		if text == "" {
			return tryAgain("the endpoint's answer has ended without a reply")
		}
		return tryAgain("the endpoint's answer has no reply as its last line: " + quoted(text))
	case !finished:
		outcome.Error = failureOf(answer, text, said)
	case said.said == "":
		outcome.Result = text
	}
	if said.said != "" {
		said.amend(&outcome)
	}
	switch {
	case outcome.Verdict == job.TryAgain && outcome.RetryAfter == 0:
		outcome.RetryAfter = retryAfter(answer.Header, now)
	case outcome.Verdict == job.Finished && answer.StatusCode == http.StatusAccepted:
		outcome.Verdict = job.Sent
	}
	return outcome
}

// failureOf says what went wrong, as far as the answer told.
func failureOf(answer *http.Response, text string, said reply) string {
	where, why := answer.Header.Get("Location"), ""
	switch {
	case answer.StatusCode/100 == 3 && where != "":
		why = "redirects are not followed: " + where
	case said.said == "":
		why = reasonIn(answer, text)
	}
	if why == "" || strings.Contains(strings.ToLower(statusOf(answer)), strings.ToLower(why)) {
		return statusOf(answer)
	}
	return clean(statusOf(answer) + ": " + quoted(why))
}

// statusOf is an answer's status as far as it is of interest: the server may say anything behind the number.
func statusOf(answer *http.Response) string { return clean(quoted(answer.Status)) }

func verdictOf(status int) job.Verdict {
	switch {
	case status/100 == 2:
		return job.Finished
	case status/100 == 5, status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests:
		return job.TryAgain
	}
	return job.Failed
}

// retryAfter reads a Retry-After, of seconds or a date; what can't be read is none. A date goes by the clock of the answer's own
// Date, or by now if there is none.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text, after := header.Get("Retry-After"), time.Duration(0)
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil || errors.Is(err, strconv.ErrRange) { // then it is the largest
		after = max(1, time.Duration(seconds)*time.Second)
	} else if at, err := http.ParseTime(text); err == nil {
		if date, err := http.ParseTime(header.Get("Date")); err == nil {
			now = date
		}
		after = max(1, at.Sub(now))
	}
	return min(after, maxRetryAfter)
}

// reasonOf is why a request failed: the context's end, whatever it ran into then, or the error without the method and the URL,
// which the config has.
func reasonOf(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		return context.Cause(ctx).Error()
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		if err = failed.Err; errors.Is(err, io.EOF) {
			return "the endpoint has closed the connection without an answer"
		}
	}
	return err.Error()
}

// CheckURL says whether a URL can be that of an HTTP.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "":
		return errors.New("it is no URL as https://example.org/jobs is")
	case u.User != nil:
		return errors.New("it has a user in it; give that as a header")
	case u.Fragment != "":
		return errors.New("it has a fragment (#), which no server sees")
	}
	return nil
}
