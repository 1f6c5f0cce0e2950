package handler

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/hipq/hipq/internal/handling"
)

// noteRequest tells who develops an endpoint what is sent besides the job. The config's headers may be secrets.
func (h *HTTP) noteRequest(ctx context.Context, r *http.Request) {
	note := handling.Note(ctx)
	if note == nil {
		return
	}
	text := r.Method + " " + r.URL.String() + "\n" + headerLines(r.Header, func(name string) bool {
		_, own := h.Header[http.CanonicalHeaderKey(name)]
		return own
	})
	note(func(heard *handling.Heard) { heard.Request = text })
}

// noteAnswer tells what came back, and by what it counts.
func noteAnswer(ctx context.Context, answer *http.Response, body string) {
	note := handling.Note(ctx)
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

// headerLines are headers, by their names, without the values of secret ones.
func headerLines(header http.Header, secret func(name string) bool) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			if secret(name) {
				value = "(not shown)"
			}
			fmt.Fprintf(&text, "%s: %s\n", name, clean(value))
		}
	}
	return text.String()
}
