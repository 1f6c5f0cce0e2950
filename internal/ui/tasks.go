package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
)

// tasks are what takes longer than a page may.
type tasks struct {
	ctx context.Context
	mu  sync.Mutex
	all []*task
}

// task is an action on many jobs.
type task struct {
	ID     int
	Back   string
	Total  int
	action action
	queue  string
	ended  chan struct{}

	mu            sync.Mutex
	done, refused int
	first, err    error
}

// batch is how many jobs one transaction changes, for which workers may have to wait.
const batch = 100

// tasksKept is how many tasks the server remembers.
const tasksKept = 50

func (k *tasks) begin(c confirmPage, q *queue.Queue, who string, then func()) *task {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := &task{ID: 1, Back: c.Back, Total: len(c.IDs), action: c.action, queue: q.Name, ended: make(chan struct{})}
	if n := len(k.all); n > 0 {
		t.ID = k.all[n-1].ID + 1
	}
	k.all = append(k.all, t)
	k.all = k.all[max(0, len(k.all)-tasksKept):]
	go func() {
		defer close(t.ended)
		t.run(k.ctx, admin.Of(q).By(who), c.IDs)
		then()
	}()
	return t
}

func (t *task) run(ctx context.Context, q *admin.Queue, ids []int64) {
	size := batch
	if t.action.alone {
		size = 1
	}
	for some := range slices.Chunk(ids, size) {
		err := t.action.do(ctx, q, some)
		t.mu.Lock()
		refused, ok := errors.AsType[admin.Refused](err)
		switch {
		case err == nil:
			t.done += len(some)
		case ok:
			for _, err := range refused {
				if t.first = cmp.Or(t.first, err); err == nil {
					t.done++
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
		over := t.err != nil
		t.mu.Unlock()
		if over {
			return
		}
	}
}

// wait reports whether the task ends within the time.
func (t *task) wait(most time.Duration) bool {
	select {
	case <-t.ended:
		return true
	case <-time.After(most):
		return false
	}
}

// Over reports whether the task has ended.
func (t *task) Over() bool { return t.wait(0) }

// Done is how many jobs it has changed or refused.
func (t *task) Done() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return int64(t.done + t.refused)
}

// Said tells what it did.
func (t *task) Said() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	said := fmt.Sprintf("%s of %s %s %s.", texts.Count(t.done, "job"), t.queue, map[bool]string{true: "was", false: "were"}[t.done == 1], t.action.done)
	if t.refused > 0 {
		said += fmt.Sprintf(" %s not: %s", texts.Count(t.refused, "job"), sentence(t.first.Error()))
	}
	if t.err != nil {
		said += fmt.Sprintf(" Then it broke off, %d are left: %s", t.Total-t.done-t.refused, sentence(t.err.Error()))
	}
	return said
}

func (s *Server) showTask(v *view) error {
	id, _ := strconv.Atoi(v.r.PathValue("id"))
	s.tasks.mu.Lock()
	all := s.tasks.all
	s.tasks.mu.Unlock()
	n := slices.IndexFunc(all, func(t *task) bool { return t.ID == id })
	if n < 0 {
		return notFound(fmt.Sprint("task ", v.r.PathValue("id")))
	}
	t := all[n]
	if !t.Over() {
		v.w.Header().Set("Refresh", "1")
	}
	return v.show("task", t.action.Label, t)
}
