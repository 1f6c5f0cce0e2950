package ui

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor/report"
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
	Status, Type, Key, Text, Fingerprint, Since string
	// Sort is "oldest", or empty.
	Sort string
	// After is where the page before ended.
	After string
}

func selected(form url.Values) (s selection, err error) {
	s = selection{
		Status: form.Get("status"), Type: form.Get("type"), Key: form.Get("key"), Text: form.Get("text"),
		Fingerprint: form.Get("fingerprint"), Since: form.Get("since"), Sort: form.Get("sort"), After: form.Get("after"),
	}
	if s.Status != "" && !slices.Contains(admin.Statuses, admin.Status(s.Status)) {
		return s, unusable("%q is not a status.", s.Status)
	}
	if s.Fingerprint != "" && !texts.IsFingerprint(s.Fingerprint) {
		return s, unusable("%q is not a fingerprint.", s.Fingerprint)
	}
	return s, nil
}

// Narrow reports whether it selects only some of the jobs of a status.
func (s selection) Narrow() bool { return s.Type+s.Key+s.Text+s.Fingerprint+s.Since != "" }

// Remark is what a list says of a job: its error, or what it has reached.
func (v *view) Remark(j *job.Job) string {
	if p, ok := j.Reached(); ok && !j.Status.IsFinal() {
		return p.String()
	}
	if j.Error == job.None {
		return ""
	}
	return j.Error
}

// filter is the selection for the queue's functions.
func (v *view) filter(s selection) (by admin.Filter, err error) {
	by = admin.Filter{Status: admin.Status(s.Status), Type: s.Type, Key: s.Key, Error: s.Text, Fingerprint: s.Fingerprint}
	by.Since, err = v.since(s.Since)
	return by, err
}

// since reads an age, such as 2h, or a time.
func (v *view) since(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := v.Time(v.r.Context(), "-"+text)
	if err != nil {
		at, err = v.Time(v.r.Context(), text)
	}
	if err != nil {
		return at, unusable("%q is no age and no time: write 30m, 2h, 7d, or 2026-12-31 23:00.", text)
	}
	return at, nil
}

type queuePage struct {
	queueRow
	selection
	Tabs  []string
	Jobs  []*job.Job
	Next  string
	Types []string
	// Chart is the week of the queue; nil if nothing was measured.
	Chart *report.QueueView
	// Can are the actions that fit the status.
	Can []action
}

// tabs are the statuses that a page has a tab for, in the order of a job's life.
var tabs = []string{"due", "held", "scheduled", "locked", "running", "waiting", "error", "failed", "closed", "finished"}

func (s *Server) queue(v *view) error {
	q, err := v.named(v.r.PathValue("queue"))
	if err != nil {
		return err
	}
	sel, err := selected(v.r.URL.Query())
	if err != nil {
		return err
	}
	by, err := v.filter(sel)
	if err != nil {
		return err
	}
	ctx, of := v.r.Context(), admin.Of(q)
	rows, err := v.rows(q)
	if err != nil {
		return err
	}
	p := queuePage{queueRow: rows[0], selection: sel, Tabs: tabs}
	by.Limit = pageJobs
	p.Jobs, p.Next, err = of.Page(ctx, by, admin.PageOptions{After: sel.After, Oldest: sel.Sort == "oldest", Within: pageWithin, Ranges: &s.ranges})
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
	p.Chart, p.Can = metrics.View().Queue(q.Name), actionsFor(admin.Status(sel.Status))
	if v.Live = q.Name; sel.After != "" {
		v.Live = "" // a page of old jobs stays as it is
	}
	return v.show("queue", q.Name, p)
}

type failuresPage struct {
	selection
	Queue, State string
	Queues       []string
	Kinds        []failure
	Others       int64
	// More says that older jobs were left out.
	More bool
}

type failure struct {
	Queue string
	admin.Failure
}

// failuresAmong is how many failed jobs of a queue are grouped, and failuresWithin how long that may take.
const (
	failuresAmong  = 5000
	failuresWithin = time.Second
)

func (s *Server) failures(v *view) error {
	form := v.r.URL.Query()
	sel, err := selected(form)
	if err != nil {
		return err
	}
	p := failuresPage{selection: sel, Queue: form.Get("queue"), State: cmp.Or(form.Get("state"), string(admin.Failed))}
	if !slices.Contains([]admin.Status{admin.Failed, admin.Retry, admin.Closed}, admin.Status(p.State)) {
		return unusable("%q is not a state of failures.", p.State)
	}
	all, err := v.queues.now(v.r.Context())
	if err != nil {
		return err
	}
	for _, q := range all {
		p.Queues = append(p.Queues, q.Name)
		if p.Queue != "" && p.Queue != q.Name {
			continue
		}
		by, err := v.filter(sel)
		if err != nil {
			return err
		}
		by.Status, by.Limit = admin.Status(p.State), pageJobs
		found, err := admin.Of(q).NewestFailures(v.r.Context(), by, failuresAmong, failuresWithin)
		if err != nil {
			return err
		}
		p.More = p.More || found.More
		for _, k := range found.Kinds {
			p.Kinds = append(p.Kinds, failure{q.Name, k})
		}
		p.Others += found.Others
	}
	slices.SortStableFunc(p.Kinds, func(a, b failure) int { return cmp.Compare(b.Jobs, a.Jobs) })
	return v.show("failures", "Failures", p)
}

type activityPage struct {
	Queue, Type, State, Text, Job string
	States                        []activity.State
	Queues                        []string
	Entries                       []activity.Entry
	Back                          time.Time
}

func (s *Server) activity(v *view) error {
	form := v.r.URL.Query()
	p := activityPage{Queue: form.Get("queue"), Type: form.Get("type"), State: form.Get("state"), Text: form.Get("text"), Job: form.Get("job"), States: activity.States}
	by := activity.Filter{Queue: p.Queue, JobType: p.Type, State: activity.State(p.State), Error: p.Text, Limit: 2 * pageJobs}
	if p.State != "" && !slices.Contains(activity.States, by.State) {
		return unusable("%q is not a state.", p.State)
	}
	if p.Job != "" {
		n, err := strconv.ParseInt(p.Job, 10, 64)
		if err != nil {
			return unusable("%q is not the number of a job.", p.Job)
		}
		by.JobID = n
	}
	if text := form.Get("until"); text != "" {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return unusable("%q is not a time.", text)
		}
		by.Until = at
	}
	if by.JobType != "" || by.JobID != 0 {
		by.Kind = activity.Job
	}
	all, err := v.queues.now(v.r.Context())
	if err != nil {
		return err
	}
	for _, q := range all {
		p.Queues = append(p.Queues, q.Name)
	}
	if p.Entries, p.Back, err = activity.New(v.DB).Newest(v.r.Context(), by, pageWithin); err != nil {
		return err
	}
	if n := len(p.Entries); p.Back.IsZero() && n == by.Limit {
		p.Back = p.Entries[0].At
	}
	slices.Reverse(p.Entries)
	if v.Live = "*"; !by.Until.IsZero() {
		v.Live = ""
	}
	return v.show("activity", "Activity", p)
}
