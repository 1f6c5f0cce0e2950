package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// pageJobs is how many jobs a page lists.
const pageJobs = 50

// looks is how long a page looks for jobs before it offers to go on.
type looks struct {
	page time.Duration
	// found is how long it looks while it has found none.
	found time.Duration
}

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
		return s, unusable("%q is neither an age nor a time: write 30m, 2h, 7d, or 2026-12-31 23:00.", s.Since)
	}
	return s, nil
}

// Narrow reports whether it selects only some of the jobs of a status.
func (s selection) Narrow() bool { return s.Type+s.Key+s.Error+s.Fingerprint+s.Since != "" }

// Remark is a job's error.
func (v *view) Remark(j *job.Job) string { return map[bool]string{false: j.Error}[j.Error == job.None] }

// Progress is what a live job has reached, or nil.
func (v *view) Progress(j *job.Job) *job.Progress {
	if p, ok := j.Reached(); ok && !j.Status.IsFinal() {
		return &p
	}
	return nil
}

// Worker is the id of the worker that runs a job; empty if none does.
func (v *view) Worker(j *job.Job) string {
	return map[bool]string{true: j.WorkerID}[j.Status == job.StatusRunning && j.WorkerID != job.None]
}

// When is the time that matters of a job: when it runs, has started, or has changed.
func (v *view) When(j *job.Job) template.HTML {
	t := j.UpdateTime
	switch shown(j) {
	case "due", "scheduled", "held":
		t = j.ScheduledRunTime
	case "running":
		t = j.StartTime
	}
	return v.Ago(t)
}

type queuePage struct {
	queueRow
	selection
	admin.List
	Tabs, Types []string
	// Chart is the week of the queue; nil if nothing was measured.
	Chart *queueMetrics
	// Can are the actions that fit the status.
	Can []action
	// Matching is how many jobs match, such as "5,000+".
	Matching string
}

// Partly reports whether the page ended before it was full.
func (p queuePage) Partly() bool { return p.Next != "" && len(p.Jobs) < pageJobs }

// tabs are the statuses that a page has a tab for, in the order of a job's life. Each needs a range in admin's tallied.
var tabs = []string{"due", "held", "scheduled", "locked", "running", "waiting", "error", "failed", "closed", "finished"}

func (s *Server) queue(v *view, q *queue.Queue) error {
	sel, err := v.selected(v.r.URL.Query())
	v.complain(err)
	ctx := v.r.Context()
	rows, err := v.rows(q)
	if err != nil {
		return err
	}
	p := queuePage{queueRow: rows[0], selection: sel, Tabs: tabs}
	if p.Types, err = v.typeNames(q, sel.Type); err != nil {
		return err
	}
	sel.Limit = pageJobs
	if !v.IsUsable() {
		return v.show("queue", q.Name, p)
	}
	o := admin.PageOptions{After: sel.After, Oldest: sel.Sort == "oldest", Within: s.looks.page, Ranges: &s.ranges}
	p.List, err = admin.Of(q).Page(ctx, sel.Filter, o)
	for until := v.Now.Add(s.looks.found); err == nil && len(p.Jobs) == 0 && p.Next != "" && time.Now().Before(until); {
		looked := p.Looked
		o.After = p.Next
		p.List, err = admin.Of(q).Page(ctx, sel.Filter, o)
		p.Looked += looked
	}
	if errors.Is(err, admin.ErrPage) {
		return unusable("%q is not where a page ended.", sel.After)
	}
	if err != nil {
		return err
	}
	metrics, err := s.metrics.now(ctx)
	if err != nil {
		return err
	}
	p.Chart, p.Can = metrics.Queue(q.Name), actionsFor(sel.Status)
	if p.Can != nil && !s.ReadOnly {
		if p.Matching, err = v.matching(q, p); err != nil {
			return err
		}
	}
	v.Live = map[bool]string{true: q.Name}[sel.After == ""] // a page of old jobs stays as it is
	if slices.ContainsFunc(p.Jobs, func(j *job.Job) bool { return j.State() == job.Running }) {
		v.Every = jobPace
	}
	return v.show("queue", q.Name, p)
}

// matching says how many jobs a page's filter selects, as far as they are soon counted.
func (v *view) matching(q *queue.Queue, p queuePage) (string, error) {
	if n := p.Tally[p.Status]; !p.Narrow() && slices.Contains(tabs, string(p.Status)) {
		return admin.AtLeast(n, admin.TallyMost(p.Status)), nil
	}
	if p.After == "" && p.Next == "" {
		return texts.Thousands(len(p.Jobs)), nil
	}
	n, next, err := admin.Of(q).Count(v.r.Context(), p.Filter, admin.PageOptions{Within: v.looks.page, Ranges: &v.ranges})
	return texts.Thousands(n) + map[bool]string{true: "+"}[next != ""], err
}

type failuresPage struct {
	selection
	Queue, State string
	Queues       []string
	Causes       []admin.Cause
	// Jobs is how many jobs failed. More is how many of them the page doesn't show. Counted says that there are no others.
	Jobs, More int64
	Counted    bool
}

// have takes the first causes, and counts the jobs of the others.
func (p *failuresPage) have(causes []admin.Cause) {
	p.Causes = causes[:min(len(causes), causesMost)]
	for _, c := range causes[len(p.Causes):] {
		p.More += c.Jobs
	}
}

// Week is a chart of how many jobs failed in each hour of the last week.
func (v *view) Week(failed map[time.Time]int64) string {
	hours := make([]int64, 7*24)
	for at, n := range failed {
		if ago := max(0, int(v.Now.Sub(at)/time.Hour)); ago < len(hours) { // a clock may be ahead of the database's
			hours[len(hours)-1-ago] += n
		}
	}
	return measure{}.bars(hours)
}

// causesMost is how many causes a page shows.
const causesMost = 30

func (s *Server) failures(v *view) error {
	form := v.r.URL.Query()
	sel, err := v.selected(form)
	v.complain(err)
	p := failuresPage{selection: sel, Queue: form.Get("queue"), State: cmp.Or(form.Get("state"), string(admin.Failed))}
	if !slices.Contains([]admin.Status{admin.Failed, admin.Retry, admin.Closed}, admin.Status(p.State)) {
		return unusable("%q is not a state of failures.", p.State)
	}
	by := sel.Filter
	by.Status = admin.Status(p.State)
	all, err := v.queues.now(v.r.Context())
	if err != nil {
		return err
	}
	asked := slices.DeleteFunc(slices.Clone(all), func(q *queue.Queue) bool { return p.Queue != "" && p.Queue != q.Name })
	names := texts.Map(all, func(q *queue.Queue) string { return q.Name })
	if p.Queues = names; !v.IsUsable() {
		return v.show("failures", "Failures", p)
	}
	found, err := s.look(v.r.Context(), fmt.Sprintf("%q", []any{form, names}), func() *admin.Grouping { return admin.NewGrouping(by, asked...) }) // not by, whose time goes on
	if err != nil {
		return err
	}
	var causes []admin.Cause
	causes, p.Jobs, p.Counted = found.Causes()
	p.have(causes)
	v.Live, v.Pace = "*", groupsAge
	if !p.Counted {
		v.Every, v.Pace = time.Second, time.Second
	}
	return v.show("failures", "Failures", p)
}

// groups keeps failures that were grouped a moment ago, because thousands take longer than a page may.
type groups struct {
	mu  sync.Mutex
	all map[string]*group
}

// group is one filter's failures. now are those that are being grouped. differs says that the latest are not what pages have.
type group struct {
	kept[*admin.Grouping]
	now     atomic.Pointer[admin.Grouping]
	differs bool
}

// groupsAge is how long failures are kept at least, and groupsMost for how many filters. They are kept ten times as long as grouping
// them took. groupsStep is how long one step of it takes.
const groupsAge, groupsMost, groupsStep = 5 * time.Second, 50, 50 * time.Millisecond

// forget groups all failures again, because somebody acted.
func (g *groups) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = nil
}

// look returns failures: all of them, or those that are grouped so far. It goes on with them behind the page.
func (s *Server) look(ctx context.Context, of string, begin func() *admin.Grouping) (*admin.Grouping, error) {
	g := &s.groups
	g.mu.Lock()
	k := g.all[of]
	if k == nil {
		if len(g.all) >= groupsMost || g.all == nil {
			g.all = map[string]*group{}
		}
		k = &group{kept: kept[*admin.Grouping]{ctx: s.live.ctx, age: groupsAge}}
		k.then = func() { // pages that asked again for nothing new would do so for ever
			if k.differs {
				s.live.changed("failures")
			}
		}
		k.now.Store(begin())
		g.all[of] = k
	}
	g.mu.Unlock()
	found, known, err := k.within(ctx, keptWait, func(ctx context.Context) (*admin.Grouping, error) { return k.group(ctx, begin()) })
	if !known && err == nil {
		found = k.now.Load()
		_, err = found.GoOn(ctx, time.Millisecond) // so that the page has something
	}
	return found, err
}

// group groups failures to the end.
func (k *group) group(ctx context.Context, now *admin.Grouping) (*admin.Grouping, error) {
	began, before := time.Now(), k.value // only one of these runs
	k.now.Store(now)
	for done := false; !done && ctx.Err() == nil; {
		var err error
		if done, err = now.GoOn(ctx, groupsStep); err != nil && ctx.Err() == nil {
			return nil, err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.age, k.differs = max(groupsAge, 10*time.Since(began)), true
	if before != nil {
		had, _, _ := before.Causes()
		has, _, _ := now.Causes()
		k.differs = !reflect.DeepEqual(had, has)
	}
	return now, nil
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
				v.complain(unusable("%q is not the number of a job or an entry.", text))
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
	if !v.IsUsable() {
		return v.show("activity", "Activity", p)
	}
	log := activity.New(v.DB)
	if by.JobID == 0 {
		p.Entries, p.Back, err = log.Newest(v.r.Context(), by, v.looks.page)
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
