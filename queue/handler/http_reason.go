package handler

import (
	"bytes"
	"encoding/json"
	"html"
	"mime"
	"net/http"
	"regexp"
	"strings"
)

var (
	// title is what a page says that it is, and unseen what a reader of it doesn't see, tags among them.
	title  = regexp.MustCompile(`(?is)<title\b[^>]*>(.*?)</title`)
	unseen = regexp.MustCompile(`(?is)<(?:script\b.*?</script|style\b.*?</style|title\b.*?</title|!--.*?--|[^>]*)>`)
)

// maxWords is how much of a page's words is a reason, in bytes.
const maxWords = 200

// reasonIn is what a body says to people of what went wrong, in one line: JSON as it is, of a page its title, or its first words
// where it has none, and of a text the first line.
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

// likePage says whether a text begins like HTML, whatever the server calls it.
func likePage(text string) bool {
	begin := strings.ToLower(head(text, 20))
	return strings.HasPrefix(begin, "<!doctype html") || strings.HasPrefix(begin, "<html")
}

// wordsOf are those of a page that say what it is about.
func wordsOf(page string) string {
	words := ""
	if found := title.FindStringSubmatch(page); found != nil {
		words = plain(found[1])
	}
	if words == "" {
		words = plain(unseen.ReplaceAllString(page, " "))
	}
	return head(words, maxWords)
}

// plain is a text of HTML without entities, in one line.
func plain(text string) string { return strings.Join(strings.Fields(html.UnescapeString(text)), " ") }
