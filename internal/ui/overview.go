package ui

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

type queueRow struct {
	Name string
	admin.Tally
}

func (v *view) rows(queues ...*queue.Queue) (rows []queueRow, err error) {
	tallies, err := admin.Tallies(v.r.Context(), admin.TallyMost, queues...)
	for n, tally := range tallies {
		rows = append(rows, queueRow{queues[n].Name, tally})
	}
	return rows, err
}

// standing is how the instance stands.
type standing struct {
	Health  monitor.Health
	Queues  []queueRow
	Metrics metrics
	Hosts   []workers.Host
	// Last is the worker that started last; nil if none ever did.
	Last *workers.Row
	// Never says that no worker has ever run.
	Never bool
}

func (v *view) standing() (s standing, err error) {
	if s.Health, err = v.health.now(v.r.Context()); err != nil {
		return s, err
	}
	queues, err := v.queues.now(v.r.Context())
	if err != nil {
		return s, err
	}
	if s.Queues, err = v.rows(queues...); err != nil {
		return s, err
	}
	if s.Metrics, err = v.metrics.now(v.r.Context()); err != nil {
		return s, err
	}
	s.Hosts, s.Last, err = v.hosts()
	if s.Never = s.Last == nil && len(s.Hosts) == 0; s.Never && s.Health.Severity == monitor.OK {
		s.Health.Severity = monitor.Warning
	}
	return s, err
}

type overview struct {
	standing
	// Judged is when Health was true, if that is a while ago; nil if not.
	Judged    *time.Time
	Schedules []Schedule
}

func (s *Server) overview(v *view) (err error) {
	var o overview
	if o.standing, err = v.standing(); err != nil {
		return err
	}
	if at := s.health.seenAt(); v.Now.Sub(at) > s.health.age {
		o.Judged = &at
	}
	if o.Schedules, err = s.Schedules(v.r.Context()); err != nil {
		return err
	}
	slices.SortStableFunc(o.Schedules, func(a, b Schedule) int { return a.Next.Compare(b.Next) })
	o.Schedules = slices.DeleteFunc(o.Schedules, func(s Schedule) bool { return s.Next.IsZero() && !s.Overdue })
	o.Schedules = o.Schedules[:min(len(o.Schedules), 5)]
	v.Live = "*"
	return v.show("overview", "Overview", o)
}

// Cause is the page that shows what a finding is about, or the part of the file.
func (v *view) Cause(f monitor.Finding) string {
	page := v.cause(f)
	if !v.File || page == "" {
		return page
	}
	page, _, _ = strings.Cut(page, "?")
	return "#" + strings.ReplaceAll(page[1:], "/", "-")
}

func (v *view) cause(f monitor.Finding) string {
	with := func(pairs ...any) string { return "?" + string(query(pairs...)) }
	queue, jobType := *cmp.Or(f.Queue, new("")), *cmp.Or(f.JobType, new(""))
	switch f.What {
	case "failed":
		return "/failures" + with("queue", queue, "type", jobType)
	case "error_rate":
		return "/failures" + with("queue", queue, "type", jobType, "state", "retry")
	case "backlog", "oldest_due", "wait_p95", "shard_oldest_due", "misplaced":
		return "/queues/" + queue + with("status", "due", "type", jobType)
	case "run_p95":
		return "/queues/" + queue + with("status", "running", "type", jobType)
	case "no_tick_for", "dead_workers":
		return "/workers"
	case "schedules":
		return "/schedules"
	case "missed_hours":
		return "/metrics"
	}
	return ""
}

// advice is the command that a finding ends with. The page has links and buttons instead.
var advice = texts.Pattern(`[:;] (?:see:? )?hipq [^;(]*`)

// Brief is a finding's text, without commands if a page of the server shows its cause.
func (v *view) Brief(f monitor.Finding) string {
	if v.File || v.Cause(f) == "" || f.What == "missed_hours" {
		return f.Text
	}
	return strings.TrimSpace(strings.ReplaceAll(advice().ReplaceAllString(f.Text, " "), " ;", ";"))
}

type workersPage struct {
	Hosts []workers.Host
	Last  *workers.Row
	// Clock is the database's time.
	Clock time.Time
	// Jobs are the jobs that run, the one that has run longest first.
	Jobs []*job.Job
}

// Of are the jobs that a worker runs.
func (p workersPage) Of(workerID string) (jobs []*job.Job) {
	for _, j := range p.Jobs {
		if j.WorkerID == workerID {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// working has the workers and what they do.
func (v *view) working(queues []*queue.Queue) (p workersPage, err error) {
	if p.Hosts, p.Last, err = v.hosts(); err == nil {
		p.Clock, err = v.DB.SQL.Clock(v.r.Context())
	}
	for _, q := range queues {
		if err != nil {
			return p, err
		}
		var jobs []*job.Job
		jobs, err = admin.Of(q).Running(v.r.Context())
		p.Jobs = append(p.Jobs, jobs...)
	}
	slices.SortStableFunc(p.Jobs, func(a, b *job.Job) int { return a.StartTime.Compare(b.StartTime) })
	return p, err
}

func (s *Server) workers(v *view) error {
	queues, err := v.queues.now(v.r.Context())
	if err != nil {
		return err
	}
	p, err := v.working(queues)
	if err != nil {
		return err
	}
	metrics, err := s.metrics.now(v.r.Context())
	if err != nil {
		return err
	}
	v.Live = "workers"
	return v.show("workers", "Workers", list(p, metrics))
}

func (p workersPage) Silent(w workers.Row) bool {
	_, silent := w.Silent(p.Clock)
	return silent
}

// showing serves what one function reads.
func showing[T any](page, title, live string, read func(context.Context) (T, error)) func(*view) error {
	return func(v *view) error {
		data, err := read(v.r.Context())
		if err != nil {
			return err
		}
		v.Live = live
		return v.show(page, title, data)
	}
}

// Of writes the number of jobs of a status; empty if there is none.
func (q queueRow) Of(status string) string {
	if n := q.Tally[admin.Status(status)]; n > 0 {
		return admin.AtLeast(n, admin.TallyMost(admin.Status(status)))
	}
	return ""
}
