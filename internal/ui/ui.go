// Package ui is hipq's pages in a browser: a server on this host that shows an instance, and acts for a person by the
// functions that the commands use.
package ui

import (
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Instance is what the pages are about. The functions are those of the command line, which knows the config.
type Instance struct {
	Name string
	DB   *schema.DB
	// File is SQLite's file; empty for a server.
	File string
	Zone *time.Location
	// Queues returns all queues that can be used.
	Queues func(context.Context) ([]*queue.Queue, error)
	// Health judges the instance.
	Health func(context.Context) (monitor.Health, error)
	// Alert has the limits of the metrics.
	Alert monitor.Alert
	// Command completes the commands in a text so that they find the config. Mend has the commands
	// for the jobs of a kind of failures; some may be empty.
	Command func(text string) string
	Mend    func(admin.Kind) []string
	// Example is a command that adds a job; empty if the config has no suitable type.
	Example string
	// Schedules are the schedules of the config and the database.
	Schedules func(context.Context) ([]Schedule, error)
	// PauseSchedule pauses or resumes a schedule. RunSchedule enqueues its job now, for a person.
	PauseSchedule func(ctx context.Context, name string, pause bool) error
	RunSchedule   func(ctx context.Context, name, by string) (queue string, added job.Added, err error)
	// Asker says what this config's workers run.
	Asker func(queue string) admin.Asker
	// CheckType refuses a job type that may not be enqueued.
	CheckType func(ctx context.Context, q *queue.Queue, jobType string) error
	// Time parses a time as the commands do: "tomorrow 09:00".
	Time func(ctx context.Context, text string) (time.Time, error)
}

// Schedule is a recurring job. Times that don't exist are zero.
type Schedule struct {
	Name, When, Queue, JobType string
	// Next and Last are slots of the schedule. Missed is the last slot without a job.
	Next, Last, Missed time.Time
	// Overdue is set if no worker handles the next slot. MissedLately is set if someone must hear of the missed slot.
	Overdue, MissedLately bool
	Paused, InConfig      bool
	LastJob               int64
	Remark                string
}

// Options say who may do what.
type Options struct {
	// ReadOnly refuses all changes.
	ReadOnly bool
	// Token lets the browser in that brings it first. It is empty if UserHeader is set.
	Token string
	// UserHeader is the header with the person's name that a proxy sets.
	UserHeader string
	// Base is where a proxy has the pages, such as "/hipq"; empty for a host of their own.
	Base string
	// Port is the port at which the server listens; empty for a socket.
	Port string
}

// Server serves the pages. It is safe for concurrent use.
type Server struct {
	Instance
	Options
	door   *door
	live   *live
	tasks  tasks
	ranges admin.Ranges
	looks  looks
	// queues, health and metrics are kept for a while, because they cost more than the other queries together.
	queues  kept[[]*queue.Queue]
	health  kept[monitor.Health]
	metrics kept[metrics]
	// alive is whether the database answers.
	alive  kept[time.Time]
	groups groups
	// types has the job types of each queue, because each of them costs a statement.
	types sync.Map
	// file is what File was at the beginning.
	file os.FileInfo
}

// New returns a server. Its goroutines end with ctx.
func New(ctx context.Context, i Instance, o Options) *Server {
	s := &Server{Instance: i, Options: o, looks: looks{20 * time.Millisecond, 500 * time.Millisecond}, queues: kept[[]*queue.Queue]{get: i.Queues, age: 10 * time.Second, ctx: ctx}}
	s.door = &door{Options: o, cookie: "hipq-" + rand.Text()[:8], session: rand.Text()}
	s.file, _ = os.Stat(i.File)
	s.live = &live{ctx: ctx, log: activity.New(i.DB), pages: map[chan news]bool{}}
	s.alive = kept[time.Time]{get: i.DB.SQL.Clock, age: time.Second, ctx: ctx}
	s.health = kept[monitor.Health]{get: i.Health, age: 20 * time.Second, ctx: ctx, then: func() { s.live.changed("health") }}
	s.metrics = kept[metrics]{get: i.measure, age: time.Minute, ctx: ctx, then: func() { s.live.changed("metrics") }}
	go func() { // so that the first page waits less
		_, _ = s.metrics.now(ctx)
		if _, err := s.health.now(ctx); err == nil {
			s.health.forget() // it may be opened much later
		}
	}()
	return s
}

// measured has the metrics. While there are none, the next page reads them again.
func (s *Server) measured(ctx context.Context) (metrics, error) {
	m, err := s.metrics.now(ctx)
	if !m.Measured {
		s.metrics.forget()
	}
	return m, err
}

// measure reads the metrics of the last hours, made when the last hour was measured. Before the first one it has the current hour's.
func (i Instance) measure(ctx context.Context) (metrics, error) {
	p := metrics{alert: i.Alert, zone: i.Zone}
	m := monitor.New(i.DB)
	hour, err := m.LastComplete(ctx)
	if err == nil {
		p.Report, err = m.Report(ctx, hour)
	}
	if err == nil {
		p.Made, err = m.Ran(ctx)
	}
	if err == nil && !p.Measured {
		p.Current = new(monitor.Current)
		*p.Current, err = m.Current(ctx)
	}
	return p, err
}

// Handler answers all requests.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	page := func(pattern string, f func(*view) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, f) })
	}
	page("GET /{$}", s.overview)
	ofQueue := func(f func(*view, *queue.Queue) error) func(*view) error {
		return func(v *view) error {
			q, err := v.named(v.r.PathValue("queue"))
			if err != nil {
				return err
			}
			return f(v, q)
		}
	}
	page("GET /queues/{queue}", ofQueue(s.queue))
	page("GET /queues/{queue}/jobs/{id}", ofQueue(s.job))
	page("GET /queues/{queue}/jobs/{id}/{text}", ofQueue(s.download))
	page("GET /queues/{queue}/types", ofQueue(s.typePage))
	page("GET /failures", s.failures)
	page("GET /find", s.find)
	page("GET /wall", s.wall)
	page("GET /schedules", showing("schedules", "Schedules", "*", s.Schedules))
	page("GET /workers", s.workers)
	page("GET /activity", s.activity)
	page("GET /metrics", showing("metrics", "Metrics", "metrics", s.measured))
	page("GET /enqueue", s.enqueueForm)
	page("GET /tasks/{id}", s.task(showTask))
	page("GET /", func(v *view) error { return notFound(v.r.URL.Path) })
	act := func(pattern string, f func(*view) error) {
		page(pattern, func(v *view) error {
			if s.ReadOnly {
				return &problem{http.StatusForbidden, "This page is read-only: hipq ui was started with --read-only."}
			}
			v.r.Body = http.MaxBytesReader(v.w, v.r.Body, 4*job.MaxDataBytes)
			if err := v.r.ParseForm(); err != nil {
				return unusable("The form can't be read: %s.", err)
			}
			return f(v)
		})
	}
	act("POST /queues/{queue}/jobs", ofQueue(s.changeJobs))
	act("POST /failures", s.changeFailures)
	act("POST /tasks/{id}", s.task(s.begin))
	act("POST /queues/{queue}/pause", ofQueue(s.pauseQueue))
	act("POST /schedules/{name}", s.changeSchedule)
	act("POST /enqueue", s.enqueue)
	mux.HandleFunc("GET /events", s.live.serve)
	mux.HandleFunc("GET /files/{name}", serveFile)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		if _, err := s.alive.now(r.Context()); err != nil {
			http.Error(w, "The database doesn't answer.", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	inside := s.door.guard(mux)
	if s.Base == "" {
		return inside
	}
	under := http.StripPrefix(s.Base, inside)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, s.Base+"/"):
			under.ServeHTTP(w, r)
		case r.URL.Path == s.Base:
			http.Redirect(w, r, s.Base+"/", http.StatusSeeOther)
		default: // the proxy has taken the prefix away
			inside.ServeHTTP(w, r)
		}
	})
}

//go:embed files
var files embed.FS

// templates are parsed on first use, because hipq starts each minute and rarely needs them.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"bar": bar, "called": called, "causes": atLeast, "changed": changed, "clip": texts.Clip, "command": command, "count": texts.Count[int64],
		"duration": duration, "list": list, "over": over, "overMS": overMS, "percentile": percentile, "plus": func(a, b int64) int64 { return a + b },
		"query": query, "share": share, "shown": shown, "span": texts.Duration, "thousands": texts.Thousands[int64], "word": word,
	}).ParseFS(files, "files/*.html", "files/ui.css"))
})

// tag is a new one for each version of the files.
var tag = sync.OnceValue(func() string {
	sum := sha256.New()
	_ = fs.WalkDir(files, "files", func(path string, d fs.DirEntry, _ error) error {
		text, _ := files.ReadFile(path)
		sum.Write(text)
		return nil
	})
	return fmt.Sprintf(`"%x"`, sum.Sum(nil)[:12])
})

func serveFile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	text, err := files.ReadFile("files/" + name)
	if err != nil || strings.HasSuffix(name, ".html") {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", tag())
	h.Set("Content-Type", map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}[path.Ext(name)])
	if r.Header.Get("If-None-Match") == tag() {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	send(w, r, http.StatusOK, text)
}

// send answers with a text, compressed if the browser takes that.
func send(w http.ResponseWriter, r *http.Request, status int, text []byte) {
	w.Header().Add("Vary", "Accept-Encoding")
	if len(text) < 1400 || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.WriteHeader(status)
		_, _ = w.Write(text) // a browser that is gone needs none
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	z := gzip.NewWriter(w)
	_, _ = z.Write(text)
	_ = z.Close()
}
