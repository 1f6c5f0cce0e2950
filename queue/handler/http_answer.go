package handler

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

// comesAsLines says whether an answer is lines of JSON written during the work, with the reply last.
func comesAsLines(answer *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	return kind == "application/x-ndjson"
}

// readAnswer reads an answer's body, up to a byte more than allowed. For lines, body is the last line, and log has the
// earlier ones except progress.
func readAnswer(ctx context.Context, answer *http.Response, j *job.Job) (body []byte, log *output, err error) {
	if !comesAsLines(answer) {
		body, err = io.ReadAll(io.LimitReader(answer.Body, maxBody+1))
		return body, nil, err
	}
	limited := &io.LimitedReader{R: answer.Body}
	from, take := bufio.NewReader(limited), progressIn(ctx, j)
	var line streamLine
	for {
		limited.N = maxBody + 2*int64(from.Size()) // a line is too long beyond this
		line, err = readLine(from, line.text)
		switch {
		case errors.Is(err, io.EOF):
			return body, log, nil
		case err != nil:
			if len(body) > 0 { // a partial answer has no reply
				log = logged(log, append(slices.Clip(body), '\n'))
			}
			return body, log, err
		case line.rest != nil:
			return append(line.text, '\n'), log, nil
		case len(bytes.TrimSpace(line.text)) == 0, take != nil && take(line.text):
			continue
		}
		if len(body) > 0 {
			log = logged(log, append(body, '\n'))
		}
		body = append(body[:0], line.text...)
	}
}

// noteRequest shows developers what is sent besides the job, without the config's headers, which may be secret.
func (h *HTTP) noteRequest(ctx context.Context, r *http.Request) {
	note := handling.Of(ctx).Note
	if note == nil {
		return
	}
	text := r.Method + " " + r.URL.String() + "\n" + headerLines(r.Header, func(name string) bool {
		_, own := h.Header[http.CanonicalHeaderKey(name)]
		return own
	})
	note(func(heard *handling.Heard) { heard.Request = text })
}

func noteAnswer(ctx context.Context, answer *http.Response, body string) {
	note := handling.Of(ctx).Note
	if note == nil {
		return
	}
	by := fmt.Sprintf("the status %d", answer.StatusCode)
	if said, err := readReply(printed{last: strings.TrimSpace(body)}); err != nil || said.said != "" {
		by += ", and the reply in the body"
	}
	text := statusOf(answer) + "\n" + headerLines(answer.Header, func(name string) bool { return name == "Set-Cookie" }) + "\n" + head(body, keepOutput)
	note(func(heard *handling.Heard) { heard.Answer, heard.ReadFrom = text, by })
}

func headerLines(header http.Header, secret func(name string) bool) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			if secret(name) {
				value = "(not shown)"
			}
			fmt.Fprintf(&text, "%s: %s\n", name, texts.Clean(value))
		}
	}
	return text.String()
}

var (
	title = texts.Pattern(`(?is)<title\b[^>]*>(.*?)</title`)
	// unseen matches what readers don't see, such as tags.
	unseen = texts.Pattern(`(?is)<(?:script\b.*?</script|style\b.*?</style|title\b.*?</title|!--.*?--|[^>]*)>`)
)

const maxWords = 200

// reasonIn returns one line on what went wrong: JSON as it is, a page's title or first words, or a text's first line.
func reasonIn(answer *http.Response, text string) string {
	text = strings.TrimSpace(text)
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	var line bytes.Buffer
	switch {
	case strings.HasPrefix(text, "{") && json.Compact(&line, []byte(text)) == nil:
		return line.String()
	case kind == "text/html", likePage(text):
		return wordsOf(text)
	}
	text, _, _ = strings.Cut(text, "\n")
	return strings.TrimSpace(text)
}

// likePage says whether a text begins like HTML, whatever its Content-Type.
func likePage(text string) bool {
	begin := strings.ToLower(head(text, 20))
	return strings.HasPrefix(begin, "<!doctype html") || strings.HasPrefix(begin, "<html")
}

func wordsOf(page string) string {
	words := ""
	if found := title().FindStringSubmatch(page); found != nil {
		words = plain(found[1])
	}
	if words == "" {
		words = plain(unseen().ReplaceAllString(page, " "))
	}
	return head(words, maxWords)
}

// plain returns HTML text on one line, with entities decoded.
func plain(text string) string { return strings.Join(strings.Fields(html.UnescapeString(text)), " ") }
