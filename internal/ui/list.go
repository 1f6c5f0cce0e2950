package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor/report"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// pageJobs is how many jobs a page lists. pageWithin is how long it looks for them before it offers to go on.
const (
	pageJobs   = 50
	pageWithin = 20 * time.Millisecond
)

// selection is which jobs a list shows, and an action changes. The address has it.
type selection struct {
	admin.Filter
	// Since is the filter's, as it was typed.
	Since string
	// Sort is "oldest", or empty.
	Sort string
	// After is where the page before ended.
	After string
}

func (v *view) selected(form url.Values) (s selection, err error) {
	s = selection{Since: form.Get("since"), Sort: form.Get("sort"), After: form.Get("after"), Filter: admin.Filter{
		Status: admin.Status(form.Get("status")), Type: form.Get("type"), Key: form.Get("key"),
		Error: form.Get("text"), Fingerprint: form.Get("fingerprint"),
	}}
	if s.Status != "" && !slices.Contains(admin.Statuses, s.Status) {
		return s, unusable("%q is not a status.", s.Status)
	}
	if s.Fingerprint != "" && !texts.IsFingerprint(s.Fingerprint) {
		return s, unusable("%q is not a fingerprint.", s.Fingerprint)
	}
	if s.Since == "" {
		return s, nil
	}
	if s.Filter.Since, err = v.Time(v.r.Context(), "-"+s.Since); err != nil { // no age, such as 2h
		s.Filter.Since, err = v.Time(v.r.Context(), s.Since)
	}
	if err != nil {
		return s, unusable("%q is no age and no time: write 30m, 2h, 7d, or 2026-12-31 23:00.", s.Since)
	}
	return s, nil
}

// Narrow reports whether it selects only some of the jobs of a status.
func (s selection) Narrow() bool { return s.Type+s.Key+s.Error+s.Fingerprint+s.Since != "" }

// Remark is what a list says of a job: its error, or what it has reached.
func (v *view) Remark(j *job.Job) string {
	if p, ok := j.Reached(); ok && !j.Status.IsFinal() {
		return p.String()
	}
	return map[bool]string{false: j.Error}[j.Error == job.None]
}

type queuePage struct {
	queueRow
	selection
	admin.List
	Tabs, Types []string
	// Chart is the week of the queue; nil if nothing was measured.
	Chart *report.QueueView
	// Can are the actions that fit the status.
	Can []action
}

// Partly reports whether the page ended before it was full.
func (p queuePage) Partly() bool { return p.Next != "" && len(p.Jobs) < pageJobs }

// tabs are the statuses that a page has a tab for, in the order of a job's life. Each needs a range in admin's tallied.
var tabs = []string{"due", "held", "scheduled", "locked", "running", "waiting", "error", "failed", "closed", "finished"}

func (s *Server) queue(v *view) error {
	q, err := v.named(v.r.PathValue("queue"))
	if err != nil {
		return err
	}
	sel, err := v.selected(v.r.URL.Query())
	if err != nil {
		return err
	}
	ctx := v.r.Context()
	rows, err := v.rows(q)
	if err != nil {
		return err
	}
	p := queuePage{queueRow: rows[0], selection: sel, Tabs: tabs}
	sel.Limit = pageJobs
	o := admin.PageOptions{After: sel.After, Oldest: sel.Sort == "oldest", Within: pageWithin, Ranges: &s.ranges}
	p.List, err = admin.Of(q).Page(ctx, sel.Filter, o)
	if errors.Is(err, admin.ErrPage) {
		return unusable("%q is not where a page ended.", sel.After)
	}
	if err != nil {
		return err
	}
	if p.Types, err = v.typeNames(q, sel.Type); err != nil {
		return err
	}
	metrics, err := s.metrics.now(ctx)
	if err != nil {
		return err
	}
	p.Chart, p.Can = metrics.Queue(q.Name), actionsFor(sel.Status)
	v.Live = map[bool]string{true: q.Name}[sel.After == ""] // a page of old jobs stays as it is
	if slices.ContainsFunc(p.Jobs, func(j *job.Job) bool { return j.State() == job.Running }) {
		v.Every = jobPace
	}
	return v.show("queue", q.Name, p)
}

type failuresPage struct {
	selection
	Queue, State string
	Queues       []string
	Kinds        []failure
	Others       int64
	// More says that older jobs were left out. Counting says that they are counted just now.
	More, Counting bool
}

type failure struct {
	Queue string
	admin.Failure
}

// Spark is a chart of the last week by hours.
func (f failure) Spark(now time.Time) string {
	hours := make([]int64, 7*24)
	for at, n := range f.Hours {
		if ago := max(0, int(now.Sub(at)/time.Hour)); ago < len(hours) { // a clock may be ahead of the database's
			hours[len(hours)-1-ago] += n
		}
	}
	return report.Spark(hours)
}

// failuresAmong is how many failed jobs of a queue are grouped, and failuresWithin how long that may take. kindsMost is how many
// kinds a page shows.
const (
	failuresAmong  = 5000
	failuresWithin = 500 * time.Millisecond
	kindsMost      = 30
)

func (s *Server) failures(v *view) error {
	form := v.r.URL.Query()
	sel, err := v.selected(form)
	if err != nil {
		return err
	}
	p := failuresPage{selection: sel, Queue: form.Get("queue"), State: cmp.Or(form.Get("state"), string(admin.Failed))}
	if !slices.Contains([]admin.Status{admin.Failed, admin.Retry, admin.Closed}, admin.Status(p.State)) {
		return unusable("%q is not a state of failures.", p.State)
	}
	by := sel.Filter
	by.Status, by.Limit = admin.Status(p.State), pageJobs
	all, err := v.queues.now(v.r.Context())
	if err != nil {
		return err
	}
	asked := slices.DeleteFunc(slices.Clone(all), func(q *queue.Queue) bool { return p.Queue != "" && p.Queue != q.Name })
	age, names := time.Duration(len(asked)+1)*groupsAge, texts.Map(asked, func(q *queue.Queue) string { return q.Name })
	of := fmt.Sprintf("%q", []any{form, names}) // not by, whose time goes on
	found, complete, err := s.look(v.r.Context(), of, age, func(ctx context.Context, among int, within time.Duration) (all []admin.Failures, err error) {
		for _, q := range asked {
			f, err := admin.Of(q).NewestFailures(ctx, by, among, within)
			if err != nil {
				return nil, err
			}
			all = append(all, f)
		}
		return all, nil
	})
	if err != nil {
		return err
	}
	p.Queues, p.Counting = texts.Map(all, func(q *queue.Queue) string { return q.Name }), !complete
	for n, q := range asked {
		p.More = p.More || found[n].More
		for _, k := range found[n].Kinds {
			p.Kinds = append(p.Kinds, failure{q.Name, k})
		}
		p.Others += found[n].Others
	}
	slices.SortStableFunc(p.Kinds, func(a, b failure) int { return cmp.Compare(b.Jobs, a.Jobs) })
	for _, k := range p.Kinds[min(len(p.Kinds), kindsMost):] {
		p.Others += k.Jobs
	}
	p.Kinds = p.Kinds[:min(len(p.Kinds), kindsMost)]
	v.Live, v.Pace = "*", age
	if p.Counting {
		v.Pace = time.Second
	}
	return v.show("failures", "Failures", p)
}

// groups keeps failures that were grouped a moment ago, because thousands take longer than a page may.
type groups struct {
	mu  sync.Mutex
	all map[string]*kept[[]admin.Failures]
}

// groupsAge is how long failures are kept for each queue and once more, and groupsMost for how many filters.
const groupsAge, groupsMost = 5 * time.Second, 50

// forget groups all failures again, because somebody acted.
func (g *groups) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = nil
}

// grouper groups failures among some jobs of each queue, within a time.
type grouper func(ctx context.Context, among int, within time.Duration) ([]admin.Failures, error)

// look returns the failures that group finds. If that takes too long, it returns those that are found at once.
func (s *Server) look(ctx context.Context, of string, age time.Duration, group grouper) (found []admin.Failures, complete bool, err error) {
	g := &s.groups
	g.mu.Lock()
	k := g.all[of]
	if k == nil {
		if len(g.all) >= groupsMost || g.all == nil {
			g.all = map[string]*kept[[]admin.Failures]{}
		}
		k = &kept[[]admin.Failures]{ctx: s.live.ctx, then: func() { s.live.changed("failures") }, age: age}
		g.all[of] = k
	}
	g.mu.Unlock()
	found, complete, err = k.within(ctx, keptWait, func(ctx context.Context) ([]admin.Failures, error) {
		return group(ctx, failuresAmong, failuresWithin)
	})
	if !complete && err == nil {
		found, err = group(ctx, failuresAmong/10, 0)
	}
	return found, complete, err
}

type activityPage struct {
	Queue, Type, State, Text, Job string
	States                        []activity.State
	Queues                        []string
	Entries                       []activity.Entry
	// Back is where older entries begin.
	Back activity.Entry
}

func (s *Server) activity(v *view) (err error) {
	form := v.r.URL.Query()
	p := activityPage{Queue: form.Get("queue"), Type: form.Get("type"), State: form.Get("state"), Text: form.Get("text"), Job: form.Get("job"), States: activity.States}
	by := activity.Filter{Queue: p.Queue, JobType: p.Type, State: activity.State(p.State), Error: p.Text, Limit: 2 * pageJobs}
	if p.State != "" && !slices.Contains(activity.States, by.State) {
		return unusable("%q is not a state.", p.State)
	}
	for name, id := range map[string]*int64{"job": &by.JobID, "before": &by.Before} {
		if text := form.Get(name); text != "" {
			if *id, err = strconv.ParseInt(text, 10, 64); err != nil {
				return unusable("%q is not the number of a job or an entry.", text)
			}
		}
	}
	if by.JobType != "" || by.JobID != 0 {
		by.Kind = activity.Job
	}
	all, err := v.queues.now(v.r.Context())
	if err != nil {
		return err
	}
	p.Queues = texts.Map(all, func(q *queue.Queue) string { return q.Name })
	log := activity.New(v.DB)
	if by.JobID == 0 {
		p.Entries, p.Back, err = log.Newest(v.r.Context(), by, pageWithin)
	} else { // has an index
		err = log.Find(v.r.Context(), by, func(e activity.Entry) error { p.Entries = append(p.Entries, e); return nil })
	}
	if err != nil {
		return err
	}
	if n := len(p.Entries); p.Back.ID == 0 && n == by.Limit {
		p.Back = p.Entries[0]
	}
	slices.Reverse(p.Entries)
	v.Live = map[bool]string{true: "*"}[by.Before == 0]
	return v.show("activity", "Activity", p)
}
