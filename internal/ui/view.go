package ui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/schema"
)

// view is one request and what its page shows.
type view struct {
	*Server
	r *http.Request
	// asked is the request without the time limit.
	asked *http.Request
	w     http.ResponseWriter
	Now   time.Time
	User  string
	// File is set for a page that is written to a file: it has no script, and no server to link to.
	File bool
	// Title and Page name the page. Live says what it shows: it is fetched again when that has changed.
	Title, Page, Live string
	// Every is how often the page is also fetched without a change; 0 means seldom.
	Every time.Duration
	// Pace is the shortest time between two fetches.
	Pace time.Duration
	// Seen is how many news the page knows.
	Seen int
	// status is the answer's.
	status int
	// Data is the page's own.
	Data any
	// Said is what the last action did. Bad says that it didn't do what it should.
	Said string
	Bad  bool
}

// problem is an error with its status for the browser.
type problem struct {
	status int
	text   string
}

func (p *problem) Error() string { return p.text }

func notFound(what string) error {
	return &problem{http.StatusNotFound, fmt.Sprintf("There is no %s.", what)}
}

func unusable(format string, args ...any) error {
	return &problem{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// patience is how long a page waits for the database. pace is how often an open page is fetched at most, so that it costs few
// statements.
const patience, pace = 10 * time.Second, 3 * time.Second

// serve makes a page, or tells what is wrong.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, f func(*view) error) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	v := &view{
		Server: s, r: r.WithContext(ctx), asked: r, w: w, status: http.StatusOK, Now: time.Now(), Pace: pace, User: r.Header.Get(s.UserHeader),
		Seen: s.live.seen(),
	}
	v.Said, v.Bad = s.door.said(w, r)
	err := s.fileGone()
	if err == nil {
		if err = f(v); err == nil {
			return
		}
	}
	text := sentence(err.Error())
	v.status = http.StatusInternalServerError
	var p *problem
	switch {
	case errors.As(err, &p):
		v.status, text = p.status, p.text
	case errors.Is(err, queue.ErrNotFound):
		v.status = http.StatusNotFound
	case errors.Is(err, context.DeadlineExceeded):
		v.status, text, v.Live = http.StatusServiceUnavailable, fmt.Sprintf("The database didn't answer within %s.", texts.Duration(patience)), "*"
	default:
		if trouble, remedy := schema.Diagnose(err); trouble != schema.NoTrouble {
			v.status, v.Live = http.StatusServiceUnavailable, "*" // it recovers by itself
			text += " " + sentence(remedy)
		}
	}
	if r.Method != http.MethodGet {
		v.Live = "" // the address is no page
	}
	_ = v.show("error", http.StatusText(v.status), text)
}

// fileGone is an error if SQLite's file is another one by now: connections would go on in the old one.
func (s *Server) fileGone() error {
	if is, err := os.Stat(s.File); s.file == nil || err == nil && os.SameFile(is, s.file) {
		return nil
	}
	return &problem{http.StatusGone, fmt.Sprintf("%s was deleted or replaced. End hipq ui, and start it again.", s.File)}
}

func (v *view) show(page, title string, data any) error {
	v.Page, v.Title, v.Data = page, title, data
	var b bytes.Buffer
	if err := templates().ExecuteTemplate(&b, "layout", v); err != nil {
		return fmt.Errorf("make the page %s: %w", v.Page, err)
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	send(v.w, v.r, v.status, v.finished(b.String()))
	return nil
}

// finished is a page with hidden characters made visible, and links that have the base path.
func (v *view) finished(text string) []byte {
	var b bytes.Buffer
	shown := 0
	for _, at := range append(field().FindAllStringIndex(text, -1), []int{len(text), len(text)}) {
		b.WriteString(texts.Visible(text[shown:at[0]]) + text[at[0]:at[1]])
		shown = at[1]
	}
	if v.Base == "" {
		return b.Bytes()
	}
	return links().ReplaceAll(b.Bytes(), []byte("${1}"+v.Base+"/"))
}

// links finds addresses of this server. Texts have no quotes, because templates escape them.
var links = texts.Pattern(`(\b(?:href|src|action|formaction|data-copy)=")/`)

// field finds what a form sends back, which stays as it is.
var field = texts.Pattern(`value="[^"]*"|<textarea[^<]*`)

// saidBytes is how much of a message a cookie takes, escaped: browsers drop one of more than 4096 bytes.
const saidBytes = 1200

// back sends the browser on after an action, with what it did, unless the action failed.
func (v *view) back(err error, to, said string) error {
	if err != nil {
		return err
	}
	http.SetCookie(v.w, &http.Cookie{
		Name: v.door.cookie + "-said", Value: map[bool]string{true: bad}[v.Bad] + url.QueryEscape(texts.Clip(said, saidBytes)),
		Path: v.Base + "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: 30,
	})
	http.Redirect(v.w, v.r, v.Base+to, http.StatusSeeOther)
	return nil
}

// bad begins the cookie of bad news. QueryEscape leaves no "!".
const bad = "!"

// said takes what the last action did, so that it is shown once.
func (d *door) said(w http.ResponseWriter, r *http.Request) (text string, isBad bool) {
	name := d.cookie + "-said"
	c, err := r.Cookie(name)
	if err != nil || c.Value == "" || r.Method != http.MethodGet || r.Header.Get("X-Live") != "" { // another page that renews itself leaves it
		return "", false
	}
	http.SetCookie(w, &http.Cookie{Name: name, Path: d.Base + "/", MaxAge: -1})
	value, isBad := strings.CutPrefix(c.Value, bad)
	text, _ = url.QueryUnescape(value)
	return text, isBad
}

// Body is the page's own part.
func (v *view) Body() (template.HTML, error) {
	var b bytes.Buffer
	err := templates().ExecuteTemplate(&b, v.Page, v)
	return template.HTML(b.String()), err //nolint:gosec // a template has escaped it
}

// complain tells above the page what is wrong with its address. The page has the form with what was typed, and no list.
func (v *view) complain(err error) {
	if err != nil {
		v.status, v.Said, v.Bad = http.StatusBadRequest, err.Error(), true
	}
}

// IsUsable reports whether there was nothing to complain about.
func (v *view) IsUsable() bool { return v.status == http.StatusOK }

// Form is what somebody typed or chose.
func (v *view) Form(name string) string { return v.r.FormValue(name) }

// Here is the address of the page, to come back to.
func (v *view) Here() string { return v.r.URL.RequestURI() }

// named returns a queue by its name.
func (v *view) named(name string) (*queue.Queue, error) {
	for range 2 {
		all, err := v.queues.now(v.r.Context())
		if err != nil {
			return nil, err
		}
		if n := slices.IndexFunc(all, func(q *queue.Queue) bool { return q.Name == name }); n >= 0 {
			return all[n], nil
		}
		v.queues.forget() // it may be new
	}
	return nil, notFound("queue " + name)
}

// typeNames are the job types of a queue, with also if that is not empty.
func (v *view) typeNames(q *queue.Queue, also string) ([]string, error) {
	k, _ := v.types.LoadOrStore(q.Name, &kept[[]string]{get: admin.Of(q).TypeNames, age: time.Minute, ctx: v.live.ctx})
	names, err := k.(*kept[[]string]).now(v.r.Context())
	if also != "" && !slices.Contains(names, also) {
		names = append(slices.Clone(names), also)
	}
	return names, err
}
