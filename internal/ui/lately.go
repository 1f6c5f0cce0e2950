package ui

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
)

// findStep is how long a search looks before it tells more, and foundMost how many jobs one page finds.
const findStep, foundMost = 400 * time.Millisecond, 200

// find writes a page of what it finds while it searches all queues to the end. It ends when the browser doesn't read on.
func (s *Server) find(v *view) error {
	text, after, ctx := strings.TrimSpace(v.Form("q")), v.Form("after"), v.asked.Context()
	queues, err := v.queues.now(v.r.Context())
	if err != nil {
		return err
	}
	if text == "" {
		return v.show("find", "Find", nil)
	}
	v.Page, v.Title = "find", "Find "+texts.Clip(text, 80)
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.Header().Set("X-Accel-Buffering", "no")
	write := func(name string, data any) error {
		var b bytes.Buffer
		if err := templates().ExecuteTemplate(&b, name, data); err != nil {
			return err
		}
		if _, err := v.w.Write(v.finished(b.String())); err != nil {
			return err
		}
		return http.NewResponseController(v.w).Flush()
	}
	p := struct {
		Text, Next, Failed string
		admin.Found
		Passed, Count int64
		Over          bool
	}{Text: text}
	err = write("head", v)
	for name := "searching"; err == nil; name = "found" {
		if err = write(name, list(v, p)); err != nil || p.Over {
			break
		}
		if p.Found, err = admin.Find(ctx, queues, admin.Search{Text: text, After: after, Within: findStep}); err != nil {
			p.Failed, p.Over, p.Found, err = sentence(err.Error()), true, admin.Found{}, ctx.Err()
			continue
		}
		after, p.Passed, p.Count = p.Found.Next, p.Passed+p.Looked, p.Count+int64(len(p.Hits))
		if p.Over = after == "" || p.Count >= foundMost; p.Over {
			p.Next = after
		}
	}
	if err == nil {
		_ = write("foot", v)
	}
	return nil // the page was begun
}

func list(all ...any) []any { return all }

type wall struct {
	standing
	// Jobs are those of all queues.
	Jobs  queueRow
	Slots int64
	Day   *monitor.Sums
}

func (s *Server) wall(v *view) error {
	now, err := v.standing()
	if err != nil {
		return err
	}
	p := wall{standing: now, Jobs: queueRow{Tally: admin.Tally{}}}
	for _, r := range now.Queues {
		for status, n := range r.Tally {
			p.Jobs.Tally[status] += n
		}
	}
	for _, h := range now.Hosts {
		p.Slots += h.Slots
	}
	if day := now.Metrics.Window("1d"); day != nil && now.Metrics.Measured {
		p.Day = new(day.Total())
	}
	v.Live = "*"
	return v.show("wall", "Wall", p)
}

// hosts are the hosts with workers, and the worker that started last.
func (v *view) hosts() (hosts []workers.Host, last *workers.Row, err error) {
	if hosts, err = workers.New(v.DB).Hosts(v.r.Context()); err == nil {
		last, err = workers.New(v.DB).Last(v.r.Context())
	}
	return hosts, last, err
}

// lately are the numbers of days that the page of a type can show.
var lately = []int{1, 7, 30}

type typePage struct {
	Queue, Type string
	Days        int
	Windows     []monitor.TypeSums
	Chart       *queueMetrics
	Measured    bool
	Metrics     metrics
}

func (s *Server) typePage(v *view, q *queue.Queue) error {
	p := typePage{Queue: q.Name, Type: v.Form("type"), Days: 7}
	metrics, err := s.measured(v.r.Context())
	if err != nil {
		return err
	}
	p.Metrics = metrics
	to := metrics.Hour.Add(time.Hour)
	sums, hours, err := monitor.New(v.DB).Type(v.r.Context(), q.Name, p.Type, to, lately...)
	if err != nil {
		return err
	}
	if n := slices.IndexFunc(lately, func(days int) bool { return v.Form("days") == strconv.Itoa(days) }); n >= 0 {
		p.Days = lately[n]
	}
	p.Windows, p.Measured = sums, metrics.Measured || sums[len(sums)-1].Started > 0
	p.Chart = metrics.ofType(p.Type, to.AddDate(0, 0, -p.Days), hours[len(hours)-24*p.Days:])
	return v.show("lately", p.Type, p)
}
