package ui

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// tasks are what takes longer than a page may, or waits for a yes.
type tasks struct {
	mu  sync.Mutex
	all []*task
}

// task is an action on jobs.
type task struct {
	action
	selection
	ID string // of no other task, also after a restart: a button must not do what another one asked
	// All says that the jobs are all that matched when somebody looked.
	All   bool
	Total int64
	Back  string
	parts []part
	begun atomic.Bool
	ended chan struct{}
	// First is the first job; nil if it is gone. Example is its error; empty if it has none.
	First   *job.Job
	Example string

	mu               sync.Mutex
	changed, refused int
	first, err       error
}

// part has the jobs of one queue.
type part struct {
	*queue.Queue
	ids []int64
}

// batch is how many jobs one transaction changes, for which workers may have to wait.
const batch = 100

// tasksKept is how many tasks the server remembers.
const tasksKept = 50

func (k *tasks) add(t *task) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t.ID, t.ended = rand.Text(), make(chan struct{})
	for _, p := range t.parts {
		t.Total += int64(len(p.ids))
	}
	if n := slices.IndexFunc(k.all, func(t *task) bool { return !t.begun.Load() || t.Over() }); n >= 0 && len(k.all) >= tasksKept {
		k.all = slices.Delete(k.all, n, n+1)
	}
	k.all = append(k.all, t)
}

// begin does a task unless it was begun, and shows what it did.
func (s *Server) begin(v *view, t *task) error {
	if who := v.who(); !t.begun.Swap(true) { // a form may be sent twice
		go func() {
			defer close(t.ended)
			var news []string
			for _, p := range t.parts {
				t.run(s.live.ctx, admin.Of(p.Queue).By(who).Among(int(t.Total)), p.ids)
				news = append(news, touched(p.Name, p.ids)...)
			}
			s.health.forget()
			s.changed(news...)
		}()
	}
	if t.wait(2 * time.Second) {
		v.Bad = t.Failed()
		return v.back(nil, t.Back, t.Said())
	}
	return v.back(nil, fmt.Sprint("/tasks/", t.ID), "")
}

// Queue has the names of the queues.
func (t *task) Queue() string {
	names := texts.Map(t.parts, func(p part) string { return p.Name })
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

func (t *task) run(ctx context.Context, q *admin.Queue, ids []int64) {
	size := batch
	if t.alone {
		size = 1
	}
	for some := range slices.Chunk(ids, size) {
		if t.err != nil { // which only this goroutine sets
			return
		}
		err := t.do(q, ctx, some...)
		t.mu.Lock()
		refused, ok := errors.AsType[admin.Refused](err)
		switch {
		case err == nil:
			t.changed += len(some)
		case ok:
			for _, err := range refused {
				if t.first = cmp.Or(t.first, err); err == nil {
					t.changed++
				} else {
					t.refused++
				}
			}
		case admin.IsRefusal(err), errors.Is(err, queue.ErrNotStarted):
			t.refused++
			t.first = cmp.Or(t.first, err)
		default:
			t.err = err
		}
		t.mu.Unlock()
	}
}

func (t *task) wait(most time.Duration) bool {
	select {
	case <-t.ended:
		return true
	case <-time.After(most):
		return false
	}
}

func (t *task) Over() bool { return t.wait(0) }

// Done is how many jobs it has changed or refused.
func (t *task) Done() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return int64(t.changed + t.refused)
}

// Failed reports whether it changed nothing, or broke off.
func (t *task) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err != nil || t.changed == 0 && t.refused > 0
}

func (t *task) Said() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	were := func(n int) string { return map[bool]string{true: "was", false: "were"}[n == 1] }
	said := fmt.Sprintf("%s of %s %s %s.", texts.Count(t.changed, "job"), t.Queue(), were(t.changed), t.done)
	if t.refused > 0 {
		said += fmt.Sprintf(" %s %s not: %s", texts.Count(t.refused, "job"), were(t.refused), sentence(t.first.Error()))
	}
	if t.err != nil {
		said += fmt.Sprintf(" Then an error ended it, with %s left: %s", texts.Count(t.Total-int64(t.changed+t.refused), "job"), sentence(t.err.Error()))
	}
	return said
}

// task serves one of the tasks.
func (s *Server) task(f func(*view, *task) error) func(*view) error {
	return func(v *view) error {
		var found *task
		s.tasks.mu.Lock()
		if n := slices.IndexFunc(s.tasks.all, func(t *task) bool { return t.ID == v.r.PathValue("id") }); n >= 0 {
			found = s.tasks.all[n]
		}
		s.tasks.mu.Unlock()
		if found == nil {
			return notFound(fmt.Sprint("task ", v.r.PathValue("id")))
		}
		return f(v, found)
	}
}

func showTask(v *view, t *task) error {
	if !t.begun.Load() {
		return v.show("confirm", fmt.Sprintf("%s %s?", t.Label, texts.Count(t.Total, "job")), t)
	}
	if !t.Over() {
		v.w.Header().Set("Refresh", "1")
	}
	return v.show("task", t.Label, t)
}
