package ui

import (
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

// one returns the queue and the number of the job of the request.
func (v *view) one() (*queue.Queue, int64, error) {
	q, err := v.named(v.r.PathValue("queue"))
	if err != nil {
		return nil, 0, err
	}
	id, err := strconv.ParseInt(v.r.PathValue("id"), 10, 64)
	if err != nil || id < 1 {
		return nil, 0, notFound("job " + v.r.PathValue("id"))
	}
	return q, id, nil
}

// jobPace is how often the page of a job is renewed: reasons cost many statements, and the activity says nothing of progress.
// aheadMost is up to how many due jobs before it are counted.
const jobPace, aheadMost = 4 * time.Second, 1000

func (s *Server) job(v *view) error {
	q, id, err := v.one()
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
	p := jobPage{Job: j, Can: actionsFor(admin.Status(shown(j))), Enqueue: enqueueCommand(j), Reasons: why.Reasons}
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
	return v.show("job", fmt.Sprint("Job ", j.ID, " of ", q.Name), p)
}

// storyMost is how many entries of a job's story one page tells, and storyBytes how many bytes of their texts.
const storyMost, storyBytes = 50, 40 << 10

// tell reads the job's story.
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
func (s *Server) download(v *view) error {
	q, id, err := v.one()
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

// enqueueQueue is a queue that the form offers.
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
	if err != nil {
		return err
	}
	for _, q := range all {
		types, err := v.typeNames(q, "")
		if err != nil {
			return err
		}
		queues = append(queues, enqueueQueue{q.Name, types})
	}
	if said != "" {
		v.status, v.Said = http.StatusUnprocessableEntity, said
	}
	return v.show("enqueue", "Enqueue a job", queues)
}

func (s *Server) enqueue(v *view) error {
	form := v.r.PostForm.Get
	q, err := v.named(form("queue"))
	if err != nil {
		return err
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
			return v.showForm(sentence(err.Error()))
		}
	}
	var added job.Added
	if err = s.CheckType(v.r.Context(), q, j.Type); err == nil {
		added, err = admin.Of(q).By(v.who()).AddJob(v.r.Context(), j)
	}
	if err != nil {
		return v.showForm(sentence(err.Error()))
	}
	s.changed(q.Name)
	said := saidOf(added)
	if !slices.Contains(s.Asker(q.Name).Handled, j.Type) {
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
