package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/scheduler"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

type jobPage struct {
	*job.Job
	// Entries are the latest of the story, or those before the entry that the address names.
	Entries []activity.Entry
	// Earlier is the entry before which more is told on another page; 0 if there is nothing. Latest says that none is later.
	Earlier int64
	Latest  bool
	// Schedule is what added the job, if one did.
	Schedule string
	Reasons  []admin.Reason
	// Progressed is the progress of the latest attempt.
	Progressed *job.Progress
	Can        []action
	// Enqueue is a command that adds such a job.
	Enqueue string
	now     time.Time
}

// span is a part of a job's life: X and W are in percent of it.
type span struct {
	X, W        float64
	Class, Said string
}

// Spans are the waits and the attempts of the story. None is too narrow to be seen.
func (p jobPage) Spans() (spans []span) {
	weights, sum := []float64{}, 0.0
	add := func(from, to time.Time, class, said string) {
		d := max(0, to.Sub(from).Seconds())
		spans, weights, sum = append(spans, span{Class: class, Said: said + " " + texts.Duration(to.Sub(from))}), append(weights, d), sum+d
	}
	for n, e := range p.Entries {
		if e.State == activity.Starting {
			if n > 0 {
				add(p.Entries[n-1].At, e.At, "wait", "waited")
			}
			end, state := p.now, e.State
			stopping := func(e activity.Entry) bool { return e.State == activity.Stopping } // it runs on
			if next := slices.DeleteFunc(slices.Clone(p.Entries[n+1:]), stopping); len(next) > 0 {
				end, state = next[0].At, p.Told(next[0])
			} else if p.State() != job.Running {
				continue
			}
			add(e.At, end, "run "+string(state), fmt.Sprintf("attempt %d, %s, ran", e.Attempt, state))
		}
	}
	if n := len(p.Entries); n > 0 && p.Latest && p.State() == job.Initial {
		add(p.Entries[n-1].At, p.now, "wait", "waits for")
	}
	total, x := 0.0, 0.0
	for n := range weights {
		weights[n] = max(weights[n]/max(sum, 1e-9), .012)
		total += weights[n]
	}
	for n := range spans {
		spans[n].X, spans[n].W = x, 100*weights[n]/total
		x += spans[n].W
	}
	return spans
}

// Told is an entry's state in the words of its job: what was stopped is cancelled.
func (jobPage) Told(e activity.Entry) activity.State {
	if e.State == activity.Failed && e.Error == job.Cancelled {
		return activity.Cancelled
	}
	return e.State
}

// Acted is the operator of an entry; empty if there was none.
func (p jobPage) Acted(e activity.Entry) string {
	return map[bool]string{true: e.Output}[p.Schedule == "" && e.State == activity.Added && strings.HasPrefix(e.Output, "by ") || (*view)(nil).By(e) != ""]
}

// By is the operator of an entry, as the activity has it.
func (*view) By(e activity.Entry) string {
	return map[bool]string{true: e.Output}[slices.Contains(activity.Operated, e.State) && e.Output != activity.None]
}

// Movable reports whether the job can be rescheduled.
func (p jobPage) Movable() bool { return admin.CanCancel(p.Job) == nil }

// see is what helps further with a reason: a page, or advice.
type see struct{ Href, Label string }

// See is what helps with a reason; nil if the page's buttons do.
func (p jobPage) See(r admin.Reason) *see {
	list := func(status, sort string) string { return "/queues/" + p.Queue + "?status=" + status + sort }
	switch r.Word {
	case "limit_full", "group_full", "slots_full", "lane_full", "held", "rate":
		return &see{list("running", ""), "See the running jobs"}
	case "behind":
		return &see{list("due", "&sort=oldest"), "See the due jobs"}
	case "no_worker", "locked":
		return &see{"/workers", "See the workers"}
	case "no_handler":
		return &see{Label: "Add a handler for the type to hipq.yaml, or cancel the job"}
	}
	return nil
}

// Text is a reason without the command for which the page has a button.
func (p jobPage) Text(r admin.Reason) string {
	if r.Word == "paused" {
		return advice().ReplaceAllString(r.Text, "")
	}
	return r.Text
}

// id returns the number of the job of the request.
func (v *view) id() (int64, error) {
	id, err := strconv.ParseInt(v.r.PathValue("id"), 10, 64)
	if err != nil || id < 1 {
		return 0, notFound("job " + v.r.PathValue("id"))
	}
	return id, nil
}

// jobPace is how often the page of a job is renewed: reasons cost many statements, and the activity says nothing of progress.
// aheadMost is up to how many due jobs before it are counted.
const jobPace, aheadMost = 4 * time.Second, 1000

func (s *Server) job(v *view, q *queue.Queue) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	asker := s.Asker(q.Name)
	asker.Ranges, asker.AheadMost = &s.ranges, aheadMost
	why, err := admin.Of(q).Why(v.r.Context(), id, asker)
	if err != nil {
		return err
	}
	j := why.Job
	p := jobPage{Job: j, Can: actionsFor(admin.Status(shown(j))), Enqueue: enqueueCommand(j), Reasons: why.Reasons, now: v.Now}
	if err := v.tell(&p); err != nil {
		return err
	}
	if reached, ok := j.Reached(); ok {
		p.Progressed = &reached
	}
	v.Pace = jobPace
	if v.Live = fmt.Sprint(q.Name, "/", j.ID); !p.Latest {
		v.Live = "" // what was told stays as it is
	} else if j.State() == job.Running {
		v.Every = jobPace
	}
	return v.show("job", fmt.Sprintf("%s %s", j.Type, texts.Clip(j.Key, 80)), p)
}

// storyMost is how many entries of a job's story one page tells, and storyBytes how many bytes of their texts.
const storyMost, storyBytes = 50, 40 << 10

func (v *view) tell(p *jobPage) error {
	before := v.r.FormValue("before")
	by := activity.Filter{Kind: activity.Job, Queue: p.Queue, JobID: p.ID, Limit: storyMost + 1}
	if p.Latest = before == ""; !p.Latest {
		id, err := strconv.ParseInt(before, 10, 64)
		if err != nil || id < 1 {
			return unusable("%q is not the number of an entry.", before)
		}
		by.Before = id
	}
	err := activity.New(v.DB).Find(v.r.Context(), by, func(e activity.Entry) error {
		if name, _ := scheduler.Of(e.Output); e.State == activity.Added && name != "" {
			p.Schedule = name
		}
		p.Entries = append(p.Entries, e)
		return nil
	})
	first, bytes := len(p.Entries), 0
	for ; first > 0 && len(p.Entries)-first < storyMost; first-- {
		e := p.Entries[first-1]
		if bytes += min(len(e.Error), shownBytes) + min(len(e.Output), shownBytes); bytes > storyBytes && first < len(p.Entries) {
			break
		}
	}
	if first > 0 {
		p.Earlier = p.Entries[first].ID
	}
	p.Entries = p.Entries[first:]
	return err
}

// enqueueCommand is empty if a shell could not be given the data.
func enqueueCommand(j *job.Job) string {
	words := []string{"hipq", "enqueue", j.Queue, texts.ShellWord(j.Type)}
	if j.Data != job.None {
		if len(j.Data) > 4<<10 || texts.IndexHidden(j.Data) < len(j.Data) {
			return ""
		}
		words = append(words, "--data", texts.ShellWord(j.Data))
	}
	return strings.Join(append(words, "--key", texts.ShellWord(j.Key)), " ")
}

// shownBytes is how much of an error or an output a page shows.
const shownBytes = 16 << 10

// Shown is the beginning of a text.
func (v *view) Shown(text string) string { return texts.Clip(text, shownBytes) }

// dataBytes is how much of a job's data and result a page shows.
const dataBytes = 8 << 10

// ShownData is the beginning of data, of which JSON is indented and coloured unless that makes it long.
func (v *view) ShownData(text string) template.HTML {
	if len(text) <= dataBytes {
		if html := highlighted(text); len(html) <= 4*dataBytes {
			return html
		}
	}
	return template.HTML(template.HTMLEscapeString(texts.Clip(text, dataBytes))) //nolint:gosec // it is escaped
}

// IsLongData reports whether ShownData is only the beginning.
func (v *view) IsLongData(text string) bool { return len(text) > dataBytes }

// download sends a text of a job as a file, which no browser shows as a page.
func (s *Server) download(v *view, q *queue.Queue) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	j, err := q.Get(v.r.Context(), id)
	if err != nil {
		return err
	}
	name := v.r.PathValue("text")
	text, ok := map[string]string{"data": j.Data, "result": j.Result, "error": j.Error}[name]
	if !ok {
		return notFound(name + " of a job")
	}
	v.w.Header().Set("Content-Type", "application/octet-stream")
	v.w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s-%d-%s.txt"`, j.Queue, j.ID, name))
	http.ServeContent(v.w, v.r, "", time.Time{}, strings.NewReader(text))
	return nil
}

type enqueueQueue struct {
	Name  string
	Types []string
}

func (s *Server) enqueueForm(v *view) error {
	if s.ReadOnly {
		return notFound("form, because hipq ui was started with --read-only")
	}
	return v.showForm("")
}

func (v *view) showForm(said string) error {
	var queues []enqueueQueue
	all, err := v.queues.now(v.r.Context())
	for _, q := range all {
		types, bad := v.typeNames(q, "")
		err = cmp.Or(err, bad)
		queues = append(queues, enqueueQueue{q.Name, types})
	}
	if err != nil && said == "" {
		return err
	}
	if said != "" {
		v.status, v.Said, v.Bad = max(v.status, http.StatusUnprocessableEntity), said, true
	}
	if err != nil && v.Form("queue") != "" { // what somebody typed outlives the database
		queues = []enqueueQueue{{Name: v.Form("queue")}}
	}
	return v.show("enqueue", "Enqueue a job", queues)
}

// refused shows the form again, with what was typed.
func (v *view) refused(err error) error {
	said := sentence(err.Error())
	if trouble, remedy := schema.Diagnose(err); trouble != schema.NoTrouble || errors.Is(err, context.DeadlineExceeded) {
		v.status, said = http.StatusServiceUnavailable, said+" "+sentence(remedy+" What you typed is still here")
	}
	return v.showForm(strings.TrimSpace(said))
}

// misspelt refuses a type that this config has no handler for, and that no job has.
func (v *view) misspelt(q *queue.Queue, jobType string) error {
	known, err := v.typeNames(q, "")
	known = append(slices.Clone(known), v.Asker(q.Name).Handled...)
	if err != nil || jobType == "" || slices.Contains(known, jobType) || slices.Contains(known, job.AllTypes) || v.Form("anyway") != "" {
		return err
	}
	slices.Sort(known)
	return fmt.Errorf("no job of %s has the type %q, and this config has no handler for it; known are: %s. To add it nevertheless, tick the box", q.Name, jobType, texts.Clip(strings.Join(slices.Compact(known), ", "), 400))
}

func (s *Server) enqueue(v *view) error {
	form := v.r.PostForm.Get
	q, err := v.named(form("queue"))
	if err != nil {
		return v.refused(err)
	}
	j := job.Params{Type: form("type"), Key: form("key"), Data: strings.ReplaceAll(form("data"), "\r\n", "\n"), OnDuplicate: job.OnDuplicate(form("on-duplicate"))}
	if text := form("priority"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return v.showForm(fmt.Sprintf("The priority %q is not a number.", text))
		}
		j.Priority = &n
	}
	if text := form("at"); text != "" {
		if j.At, err = s.Time(v.r.Context(), text); err != nil {
			return v.refused(err)
		}
	}
	var added job.Added
	if err = errors.Join(s.CheckType(v.r.Context(), q, j.Type), v.misspelt(q, j.Type)); err == nil {
		added, err = admin.Of(q).By(v.who()).AddJob(v.r.Context(), j)
	}
	if err != nil {
		return v.refused(err)
	}
	s.changed(q.Name)
	said := saidOf(added)
	if handled := s.Asker(q.Name).Handled; !slices.Contains(handled, j.Type) && !slices.Contains(handled, job.AllTypes) {
		said += " This config has no handler for its type."
	}
	return v.back(nil, fmt.Sprintf("/queues/%s/jobs/%d", q.Name, added.ID), said)
}

func saidOf(added job.Added) string {
	if added.Duplicate {
		return fmt.Sprintf("Job %d has this type and key, and is not final. %s", added.ID, map[bool]string{true: "It was replaced.", false: "Nothing was added."}[added.Replaced])
	}
	return fmt.Sprintf("Job %d was added.", added.ID)
}
