// Package ui is hipq's pages in a browser: a server on this host that shows an instance, and acts for a person by the
// functions that the commands use.
package ui

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/monitor/report"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Instance is what the pages are about. The functions are those of the command line, which knows the config.
type Instance struct {
	Name string
	DB   *schema.DB
	Zone *time.Location
	// Queues returns all queues that can be used.
	Queues func(context.Context) ([]*queue.Queue, error)
	// Health judges the instance.
	Health func(context.Context) (monitor.Health, error)
	// Report has the metrics of the last hours.
	Report func(context.Context) (report.Page, error)
	// Schedules are the schedules of the config and the database.
	Schedules func(context.Context) ([]Schedule, error)
	// PauseSchedule pauses or resumes a schedule. RunSchedule enqueues its job now.
	PauseSchedule func(ctx context.Context, name string, pause bool) error
	RunSchedule   func(ctx context.Context, name string) (queue string, added job.Added, err error)
	// Asker says what this config's workers run.
	Asker func(queue string) admin.Asker
	// CheckType refuses a job type that may not be enqueued.
	CheckType func(ctx context.Context, q *queue.Queue, jobType string) error
	// Time parses a time as the commands do: "tomorrow 09:00".
	Time func(ctx context.Context, text string) (time.Time, error)
}

// Schedule is a schedule with its last job.
type Schedule struct {
	report.Schedule
	Paused, InConfig bool
	LastJob          int64
}

// Options say who may do what.
type Options struct {
	// ReadOnly refuses all changes.
	ReadOnly bool
	// Token lets the browser in that brings it first. It is empty if UserHeader is set.
	Token string
	// UserHeader is the header with the person's name that a proxy sets.
	UserHeader string
	// Port is the port at which the server listens; empty for a socket.
	Port string
}

// Server serves the pages. It is safe for concurrent use.
type Server struct {
	Instance
	Options
	door   *door
	live   *live
	work   *work
	ranges admin.Ranges
	// queues, health and metrics are kept for a while, because they cost more than the other queries together.
	queues  kept[[]*queue.Queue]
	health  kept[monitor.Health]
	metrics kept[report.Page]
	groups  groups
	// types has the job types of each queue, because each of them costs a statement.
	types sync.Map
}

// New returns a server. Its goroutines end with ctx.
func New(ctx context.Context, i Instance, o Options) *Server {
	s := &Server{Instance: i, Options: o, door: newDoor(o), live: newLive(ctx, i.DB), work: &work{ctx: ctx}, queues: kept[[]*queue.Queue]{get: i.Queues, age: 10 * time.Second, ctx: ctx}}
	s.health = kept[monitor.Health]{get: i.Health, age: 20 * time.Second, ctx: ctx, then: func() { s.live.changed("health") }}
	s.metrics = kept[report.Page]{get: i.Report, age: time.Minute, ctx: ctx, then: func() { s.live.changed("metrics") }}
	s.groups = groups{ctx: ctx, then: func() { s.live.changed("failures") }}
	go func() { // so that the first page waits less
		_, _ = s.metrics.now(ctx)
		if _, err := s.health.now(ctx); err == nil {
			s.health.forget() // it may be opened much later
		}
	}()
	return s
}

// Handler answers all requests.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	page := func(pattern string, f func(*view) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, f) })
	}
	page("GET /{$}", s.overview)
	page("GET /queues/{queue}", s.queue)
	page("GET /queues/{queue}/jobs/{id}", s.job)
	page("GET /queues/{queue}/jobs/{id}/{text}", s.download)
	page("GET /failures", s.failures)
	page("GET /schedules", s.schedules)
	page("GET /workers", s.workers)
	page("GET /activity", s.activity)
	page("GET /metrics", s.metricsPage)
	page("GET /enqueue", s.enqueueForm)
	page("GET /work/{id}", s.showWork)
	page("GET /", func(v *view) error { return notFound(v.r.URL.Path) })
	act := func(pattern string, f func(*view) error) {
		page(pattern, func(v *view) error {
			if s.ReadOnly {
				return &problem{http.StatusForbidden, "This page is read-only: hipq ui was started with --read-only."}
			}
			return f(v)
		})
	}
	act("POST /queues/{queue}/jobs", s.changeJobs)
	act("POST /queues/{queue}/pause", s.pauseQueue)
	act("POST /schedules/{name}", s.changeSchedule)
	act("POST /enqueue", s.enqueue)
	mux.HandleFunc("GET /events", s.live.serve)
	mux.HandleFunc("GET /files/{name}", serveFile)
	return s.door.guard(mux)
}

//go:embed files
var files embed.FS

var templates = sync.OnceValue(func() *template.Template {
	return template.Must(report.Templates().Funcs(template.FuncMap{
		"ago": ago, "datetime": datetime, "list": func(all ...any) []any { return all }, "query": query, "shown": shown, "span": texts.Duration, "word": word,
	}).ParseFS(files, "files/*.html"))
})

// view is one request and what its page shows.
type view struct {
	*Server
	r    *http.Request
	w    http.ResponseWriter
	Now  time.Time
	User string
	// Title and Page name the page. Live says what it shows: it is fetched again when that has changed.
	Title, Page, Live string
	// Every is how often the page is also fetched without a change; 0 means seldom.
	Every time.Duration
	// Pace is the shortest time until then.
	Pace time.Duration
	// Seen is how many news the page knows.
	Seen int
	// Data is the page's own.
	Data any
	// Said is what the last action did.
	Said string
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
	v := &view{Server: s, r: r.WithContext(ctx), w: w, Now: time.Now(), Pace: pace, User: r.Header.Get(s.UserHeader), Said: s.door.said(w, r), Seen: s.live.seen()}
	err := f(v)
	if err == nil {
		return
	}
	status, text := http.StatusInternalServerError, sentence(err.Error())
	var p *problem
	switch {
	case errors.As(err, &p):
		status, text = p.status, p.text
	case errors.Is(err, queue.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, context.DeadlineExceeded):
		status, text, v.Live = http.StatusServiceUnavailable, fmt.Sprintf("The database didn't answer within %s.", texts.Duration(patience)), "*"
	default:
		if trouble, remedy := schema.Diagnose(err); trouble != schema.NoTrouble {
			status, v.Live = http.StatusServiceUnavailable, "*" // it recovers by itself
			text += " " + sentence(remedy)
		}
	}
	v.Title, v.Page, v.Data = http.StatusText(status), "error", text
	_ = v.render(status)
}

// render writes the page.
func (v *view) render(status int) error {
	var b bytes.Buffer
	if err := templates().ExecuteTemplate(&b, "layout", v); err != nil {
		return fmt.Errorf("make the page %s: %w", v.Page, err)
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = v.w.Write([]byte(texts.Visible(b.String()))) // a browser that is gone needs no page
	return nil
}

// show renders a page of this name.
func (v *view) show(page, title string, data any) error {
	v.Page, v.Title, v.Data = page, title, data
	return v.render(http.StatusOK)
}

// saidBytes is how much of a message a cookie takes, escaped: browsers drop one of more than 4096 bytes.
const saidBytes = 1200

// back sends the browser on after an action, with what it did.
func (v *view) back(to, said string) error {
	http.SetCookie(v.w, &http.Cookie{Name: v.door.cookie + "-said", Value: url.QueryEscape(texts.Clip(said, saidBytes)), Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: 30})
	http.Redirect(v.w, v.r, to, http.StatusSeeOther)
	return nil
}

// said takes what the last action did, so that it is shown once.
func (d *door) said(w http.ResponseWriter, r *http.Request) string {
	name := d.cookie + "-said"
	c, err := r.Cookie(name)
	if err != nil || c.Value == "" || r.Method != http.MethodGet || r.Header.Get("X-Live") != "" { // another page that renews itself leaves it
		return ""
	}
	http.SetCookie(w, &http.Cookie{Name: name, Path: "/", MaxAge: -1})
	text, _ := url.QueryUnescape(c.Value)
	return text
}

// Body is the page's own part.
func (v *view) Body() (template.HTML, error) {
	var b bytes.Buffer
	err := templates().ExecuteTemplate(&b, v.Page, v)
	return template.HTML(b.String()), err //nolint:gosec // a template has escaped it
}

// Here is the address of the page, to come back to.
func (v *view) Here() string { return v.r.URL.RequestURI() }

// Stamp is a time for an address.
func (v *view) Stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

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

// kept is a value that is read again when it is old.
type kept[T any] struct {
	get func(context.Context) (T, error)
	age time.Duration
	ctx context.Context
	// then, if set, lets pages have the old value if a new one takes long. It is called when they would get the new one.
	then func()

	mu    sync.Mutex
	value T
	err   error
	at    time.Time
	// readAt is when the value was read.
	readAt time.Time
	// reading is closed when a new value is there; nil if none is read. forgotten says that somebody has acted meanwhile, and
	// missed that a page didn't wait.
	reading           chan struct{}
	forgotten, missed bool
}

// keptWait is how long a page waits for a new value if it may have the old one, oldMost how old that may be, and keptMost how
// long reading may take.
const keptWait, oldMost, keptMost = 15 * time.Millisecond, 5 * time.Minute, time.Minute

// now returns the value.
func (k *kept[T]) now(ctx context.Context) (T, error) {
	value, known, err := k.within(ctx, keptWait)
	if k.then == nil || err == nil && !known {
		value, _, err = k.within(ctx, keptMost)
	}
	return value, err
}

// within returns a new value, or after a time the old one, if one is known.
func (k *kept[T]) within(ctx context.Context, most time.Duration) (value T, known bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.at) < k.age {
		return k.value, true, nil
	}
	if k.reading == nil {
		k.reading, k.forgotten, k.missed = make(chan struct{}), false, false
		go k.read(k.reading)
	}
	reading := k.reading
	k.mu.Unlock()
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-reading:
	case <-late.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	k.mu.Lock()
	if k.reading == reading {
		k.missed = true
		return k.value, time.Since(k.readAt) < oldMost, err
	}
	return k.value, time.Since(k.readAt) < oldMost, k.err
}

func (k *kept[T]) read(reading chan struct{}) {
	ctx, cancel := context.WithTimeout(k.ctx, keptMost)
	defer cancel()
	value, err := k.get(ctx)
	k.mu.Lock()
	if k.err = err; err == nil {
		k.value, k.readAt = value, time.Now()
		if !k.forgotten {
			k.at = time.Now()
		}
	}
	k.reading = nil
	missed := k.missed
	k.mu.Unlock()
	close(reading)
	if missed && err == nil && k.then != nil {
		k.then()
	}
}

// forget makes the next page read the value again, because somebody acted.
func (k *kept[T]) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.at, k.forgotten = time.Time{}, true
}

func serveFile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	w.Header().Set("Cache-Control", "no-cache")
	if name == "report.css" {
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		_ = templates().ExecuteTemplate(w, "page.css", nil) // a browser that is gone needs none
		return
	}
	if strings.HasSuffix(name, ".html") {
		http.NotFound(w, r)
		return
	}
	http.ServeFileFS(w, r, files, "files/"+name)
}
