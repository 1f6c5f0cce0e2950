package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
)

// action is what a person can do to jobs.
type action struct {
	Name, Label string
	// done is what a job then was.
	done string
	// Undo says how to take it back, if a person can.
	Undo string
	// Asks is set if it ends jobs or adds many, so that a page asks first.
	Asks bool
	// from are the statuses of the jobs that it changes.
	from []admin.Status
	do   func(q *admin.Queue, ctx context.Context, ids ...int64) error
	// alone is set if do takes one job.
	alone bool
}

var toStart = []admin.Status{admin.Due, admin.Held, admin.Scheduled, admin.Locked, admin.Initial, admin.Retry}

// actions are what is offered. The functions of admin decide for each job.
var actions = []action{
	{Name: "retry", Label: "Retry", done: "retried", Asks: true, from: []admin.Status{admin.Failed}, do: retry(false), Undo: "A retry is another job. Until it starts, you can cancel it."},
	{Name: "again", Label: "Rerun", done: "added again", Asks: true, from: []admin.Status{admin.Finished, admin.Closed}, do: retry(true), Undo: "A rerun is another job. Until it starts, you can cancel it."},
	{Name: "dismiss", Label: "Dismiss", done: "dismissed", Asks: true, from: []admin.Status{admin.Failed}, do: (*admin.Queue).Dismiss, Undo: "A dismissed job moves to the tab closed, where you can still rerun it."},
	{
		Name: "now", Label: "Run now", done: "rescheduled to now, or to the opening of its time window",
		from: []admin.Status{admin.Scheduled, admin.Retry}, alone: true, Undo: "Until a job starts, you can reschedule it.",
		do: func(q *admin.Queue, ctx context.Context, ids ...int64) error {
			return q.Reschedule(ctx, ids[0], admin.RescheduleOptions{In: new(time.Duration(0))})
		},
	},
	{Name: "cancel", Label: "Cancel", done: "cancelled", Asks: true, from: toStart, do: (*admin.Queue).Cancel, Undo: "A cancelled job moves to the tab closed, where you can still rerun it."},
	{
		Name: "stop", Label: "Stop", done: "told to stop", Asks: true, Undo: "This can't be undone: what an attempt has done so far stays done.",
		from: []admin.Status{admin.Running, admin.Waiting, admin.Error}, alone: true,
		do: func(q *admin.Queue, ctx context.Context, ids ...int64) error {
			_, err := q.Stop(ctx, ids[0])
			return err
		},
	},
}

// retry adds copies of failed jobs, or also of other final ones.
func retry(again bool) func(*admin.Queue, context.Context, ...int64) error {
	return func(q *admin.Queue, ctx context.Context, ids ...int64) error {
		added, err := q.Retry(ctx, again, ids...)
		refused, some := errors.AsType[admin.Refused](err)
		if err != nil && !some {
			return err
		}
		refused = append(refused, make(admin.Refused, len(ids)-len(refused))...)
		for n, a := range added {
			if refused[n] == nil && a.Duplicate {
				refused[n] = fmt.Errorf("job %d has its type and key, and is not final", a.ID)
			}
		}
		return refused
	}
}

// actionsFor are the actions on jobs of one status.
func actionsFor(status admin.Status) []action {
	return slices.DeleteFunc(slices.Clone(actions), func(a action) bool { return !slices.Contains(a.from, status) })
}

// who is the person's name for the activity: the proxy's, or this process's user.
func (v *view) who() string {
	if v.User != "" {
		return texts.Clip(v.User, 64)
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "hipq ui"
}

// changeJobs does something to the chosen jobs, or to all that match. What ends jobs is asked about first, with their number.
func (s *Server) changeJobs(v *view, q *queue.Queue) error {
	sel, err := v.selected(v.r.PostForm)
	if err != nil {
		return err
	}
	t := &task{selection: sel, All: v.r.Form.Has("all"), Back: here(v.r.PostForm.Get("back"))}
	if t.action, err = v.action(v.r.PostForm.Get("at")); err != nil {
		v.Bad = true
		page, _, _ := strings.Cut(t.Back, "?")
		return v.back(nil, page+"?"+string(query("at", v.r.PostForm.Get("at"))), err.Error())
	}
	var ids []int64
	for _, text := range v.r.PostForm["id"] {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return unusable("%q is not the number of a job.", text)
		}
		ids = append(ids, id)
	}
	if t.All {
		if t.Status == "" {
			return unusable("Choose a status first: all jobs of a queue are not changed at once.")
		}
		if ids, err = admin.Of(q).FindIDs(v.r.Context(), t.Filter); err != nil {
			return err
		}
	}
	t.parts = []part{{q, ids}}
	return s.ask(v, t)
}

// changeFailures does something to all jobs of a cause, whose kinds the form has.
func (s *Server) changeFailures(v *view) error {
	sel, err := v.selected(v.r.PostForm)
	if err != nil {
		return err
	}
	t := &task{selection: sel, All: true, Back: here(v.r.PostForm.Get("back"))}
	if t.action, err = v.action(""); err != nil {
		return err
	}
	for _, text := range v.r.PostForm["kind"] {
		kind, err := url.ParseQuery(text)
		if err != nil || t.Status == "" || kind.Get("type") == "" || !texts.IsFingerprint(kind.Get("fingerprint")) { // never all jobs of a queue
			return unusable("%q is not a kind of failures.", text)
		}
		q, err := v.named(kind.Get("queue"))
		if err != nil {
			return err
		}
		of := sel.Filter
		of.Type, of.Fingerprint = kind.Get("type"), kind.Get("fingerprint")
		ids, err := admin.Of(q).FindIDs(v.r.Context(), of)
		if err != nil {
			return err
		}
		if len(ids) > 0 {
			t.parts = append(t.parts, part{q, ids})
		}
	}
	return s.ask(v, t)
}

// ask asks before a task is done that ends jobs or changes many.
func (s *Server) ask(v *view, t *task) error {
	s.tasks.add(t)
	if v.Bad = t.Total == 0; v.Bad {
		return v.back(nil, t.Back, "No job was selected, so nothing was changed.")
	}
	if j, err := t.parts[0].Get(v.r.Context(), t.parts[0].ids[0]); err == nil { // which may be gone
		t.First, t.Example = j, v.Remark(j)
		if opens := j.Windows.Next(v.Now.In(v.Zone)); t.Name == "now" && t.Total == 1 && opens.Equal(j.ScheduledRunTime) {
			v.Bad = true
			return v.back(nil, t.Back, fmt.Sprintf("Nothing was changed: the time window of job %d is closed until %s.", j.ID, opens.In(v.Zone).Format("2 Jan 15:04")))
		}
	}
	if t.Asks || t.Total > 1 {
		return v.back(nil, fmt.Sprint("/tasks/", t.ID), "")
	}
	return s.begin(v, t)
}

// changed tells open pages what somebody has changed here.
func (s *Server) changed(what ...string) {
	s.ranges.Forget()
	s.groups.forget()
	s.live.changed(what...)
}

// touched is what news say of changed jobs.
func touched(queue string, ids []int64) []string {
	if len(ids) > batch {
		return []string{"*"}
	}
	return append(texts.Map(ids, func(id int64) string { return fmt.Sprint(queue, "/", id) }), queue)
}

// action is the one that the form names.
func (v *view) action(at string) (action, error) {
	name := v.r.PostForm.Get("do")
	if name == "reschedule" {
		when, err := v.Time(v.r.Context(), at)
		if err != nil || when.IsZero() {
			return action{}, unusable("%q is not a time: write 15:30, tomorrow 09:00, or 2026-12-31 23:00.", at)
		}
		do := func(q *admin.Queue, ctx context.Context, ids ...int64) error {
			return q.Reschedule(ctx, ids[0], admin.RescheduleOptions{At: when})
		}
		return action{Name: name, Label: "Reschedule", done: "rescheduled", alone: true, do: do}, nil
	}
	n := slices.IndexFunc(actions, func(a action) bool { return a.Name == name })
	if n < 0 {
		return action{}, unusable("%q is not an action.", name)
	}
	return actions[n], nil
}

// here is an address of this server, whatever a form says. Browsers read \ as /, and leave out tabs and line ends.
func here(to string) string {
	if _, err := url.Parse(to); err != nil || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.Contains(to, `\`) {
		return "/"
	}
	return to
}

func (s *Server) pauseQueue(v *view, q *queue.Queue) error {
	defer s.changed(q.Name)
	to := here(cmp.Or(v.r.FormValue("back"), "/queues/"+q.Name))
	do, said := admin.Of(q).By(v.who()).Resume, "The queue is resumed: its jobs start again."
	if v.r.FormValue("pause") == "yes" {
		do, said = admin.Of(q).By(v.who()).Pause, "The queue is paused: no job starts. Running jobs end as usual."
	}
	return v.back(do(v.r.Context()), to, said)
}

func (s *Server) changeSchedule(v *view) error {
	defer s.changed("schedules")
	name, ctx := v.r.PathValue("name"), v.r.Context()
	switch do := v.r.FormValue("do"); do {
	case "pause", "resume":
		is := map[string]string{"pause": "paused: it adds no jobs", "resume": "resumed"}[do]
		return v.back(s.PauseSchedule(ctx, name, do == "pause"), "/schedules", fmt.Sprintf("The schedule %s is %s.", name, is))
	case "run":
		queue, added, err := s.RunSchedule(ctx, name, v.who())
		return v.back(err, fmt.Sprintf("/queues/%s/jobs/%d", queue, added.ID), saidOf(added))
	default:
		return unusable("%q is not an action.", do)
	}
}
