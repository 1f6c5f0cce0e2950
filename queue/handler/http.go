package handler

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
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

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

// HTTP sends each job to a URL, as the JSON that Exec's programs read. The status decides. 2xx is finished, with the body as
// result; 202 means sent. 408, 425, 429 and 5xx are retried, after Retry-After up to a day. All others fail without retry,
// including redirects, which aren't followed. A body that is a reply, as for Exec, may add to the outcome or make it worse.
// An application/x-ndjson answer is read line by line: progress, log lines, and finally the required reply.
//
// After an error, Output is the status and the first 16 KiB of the body.
//
// Idle connections stay open for a few seconds, and certificates are always verified. The request ends with ctx; the server
// may have done the work even so.
//
// Don't change the fields after the first job. An HTTP is safe for concurrent use. Close it when the worker has ended.
type HTTP struct {
	// URL is http or https, without a user.
	URL string
	// Method defaults to POST.
	Method string
	// Header is sent with each request. An attempt repeats its request only if nothing of it was sent.
	Header http.Header
	// Secret signs requests as in Standard Webhooks, with the headers webhook-id, webhook-timestamp and webhook-signature;
	// empty means unsigned.
	Secret []byte
	// Networks are allowed although their addresses aren't public (private, loopback, link-local and others). The connected
	// address is checked, so DNS can't bypass this.
	Networks []netip.Prefix
	// Proxy uses the environment's proxy (HTTPS_PROXY and others); its own address is then checked instead.
	Proxy bool
	// RootCAs are the trusted authorities; nil means the system's.
	RootCAs *x509.CertPool

	// ping is the ping interval; 0 means pingAfter.
	ping      time.Duration
	once      sync.Once
	transport *http.Transport
}

const (
	// maxBody is the largest decompressed answer, in bytes.
	maxBody = job.MaxDataBytes
	// maxRetryAfter is the longest Retry-After that counts.
	maxRetryAfter = 24 * time.Hour
	// idleFor is how long an idle connection stays open. Most servers keep it for 5 s or more. A request on a connection that
	// the server is closing fails with an unknown result. NATs and the like keep connections longer.
	idleFor = 4 * time.Second
	// pingAfter is how long an HTTP/2 connection may be silent during requests. Then it must answer a ping, or fails for all
	// of them and isn't used again.
	pingAfter = 15 * time.Second
)

// Handle sends the job once.
func (h *HTTP) Handle(ctx context.Context, j *job.Job) (outcome job.Outcome) {
	h.once.Do(h.dialled)
	began := time.Now()
	defer func() { outcome.Ran = time.Since(began) }()
	request, err := h.request(ctx, j)
	if err != nil {
		return job.Outcome{Verdict: job.Failed, Error: texts.Clean(err.Error())}
	}
	h.noteRequest(ctx, request)
	answer, err := h.transport.RoundTrip(request)
	if err != nil {
		return tryAgain(reasonOf(ctx, err))
	}
	defer func() { _ = answer.Body.Close() }()
	body, log, err := readAnswer(ctx, answer, j)
	if log != nil {
		defer func() { outcome.Output = log.end().text }()
	}
	text := texts.Clean(string(body))
	noteAnswer(ctx, answer, text)
	switch finished := verdictOf(answer.StatusCode) == job.Finished; {
	case !finished && (err != nil || len(text) > maxBody):
		text = head(text, keepOutput) // no reply; the status decides
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

// Close closes idle connections.
func (h *HTTP) Close() {
	if h.transport != nil {
		h.transport.CloseIdleConnections()
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
		// with these names net/http would silently repeat a request after a broken connection; servers accept any case
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

// sign adds the Standard Webhooks headers. All attempts of a job have the same id, so that the receiver can recognize it.
func (h *HTTP) sign(request *http.Request, j *job.Job, body []byte, now time.Time) {
	id := j.Queue + "-" + strconv.FormatInt(j.ID, 10) + "-" + strconv.FormatInt(j.CreateTime.UnixMicro(), 10)
	at := strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, h.Secret)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	request.Header.Set("Webhook-Id", id)
	request.Header.Set("Webhook-Timestamp", at)
	request.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// outcomeOfAnswer turns an answer into an outcome. now is the database's time.
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
		// the status came before the work was done
		if text == "" {
			return tryAgain("the endpoint's answer ended without a reply")
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
	case (outcome.Verdict == job.TryAgain || outcome.Verdict == job.Released) && outcome.RetryAfter == 0:
		outcome.RetryAfter = retryAfter(answer.Header, now)
	case outcome.Verdict == job.Finished && answer.StatusCode == http.StatusAccepted:
		outcome.Verdict = job.Sent
	}
	return outcome
}

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
	return texts.Clean(statusOf(answer) + ": " + quoted(why))
}

// statusOf returns a bounded status, because the server may put any text after the number.
func statusOf(answer *http.Response) string { return texts.Clean(quoted(answer.Status)) }

func verdictOf(status int) job.Verdict {
	switch {
	case status/100 == 2:
		return job.Finished
	case status/100 == 5, status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests:
		return job.TryAgain
	}
	return job.Failed
}

// retryAfter parses Retry-After, as seconds or a date; 0 if unreadable. A date is relative to the answer's own Date, or else
// to now.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text, after := header.Get("Retry-After"), time.Duration(0)
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil || errors.Is(err, strconv.ErrRange) { // out of range gives the largest number
		after = max(1, time.Duration(seconds)*time.Second)
	} else if at, err := http.ParseTime(text); err == nil {
		if date, err := http.ParseTime(header.Get("Date")); err == nil {
			now = date
		}
		after = max(1, at.Sub(now))
	}
	return min(after, maxRetryAfter)
}

// reasonOf returns why a request failed: the context's cause, or the error.
func reasonOf(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		return context.Cause(ctx).Error()
	}
	switch answer, ok := errors.AsType[tls.RecordHeaderError](err); {
	case ok && string(answer.RecordHeader[:]) == "HTTP/":
		err = http.ErrSchemeMismatch
	case errors.Is(err, io.EOF):
		return "the endpoint has closed the connection without an answer"
	}
	return err.Error()
}

// CheckURL returns an error if the URL can't be an HTTP's.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "":
		return errors.New("it is not a URL such as https://example.org/jobs")
	case u.User != nil:
		return errors.New("it contains a user; write a header instead")
	case u.Fragment != "":
		return errors.New("it has a fragment (#), which no server sees")
	}
	return nil
}
