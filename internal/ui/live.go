package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/schema"
)

// live tells open pages what has changed. All of them share one poll a second, and without any there is none.
type live struct {
	ctx context.Context
	log *activity.Log

	mu sync.Mutex
	// pages get the news.
	pages map[chan news]bool
	stop  context.CancelFunc
}

// news is what changed within a poll.
type news struct {
	// Changed has queues, jobs ("emails/42") and "workers".
	Changed []string `json:"changed"`
	// Away says why the database can't be read. Back is set when it can again.
	Away string `json:"away,omitempty"`
	Back bool   `json:"back,omitempty"`
}

func newLive(ctx context.Context, db *schema.DB) *live {
	return &live{ctx: ctx, log: activity.New(db), pages: map[chan news]bool{}}
}

// serve sends the news to one page until it is closed.
func (l *live) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	page := l.open()
	defer l.close(page)
	alive := time.NewTicker(15 * time.Second) // so that a closed page is noticed
	defer alive.Stop()
	fmt.Fprint(w, ": hello\n\n")
	for out.Flush() == nil {
		select {
		case n := <-page:
			text, err := json.Marshal(n)
			if err != nil {
				return
			}
			if _, err := fmt.Fprintf(w, "data: %s\n\n", text); err != nil {
				return
			}
		case <-alive.C:
			if _, err := fmt.Fprint(w, ": still here\n\n"); err != nil {
				return
			}
		case <-r.Context().Done():
			return
		case <-l.ctx.Done():
			return
		}
	}
}

func (l *live) open() chan news {
	l.mu.Lock()
	defer l.mu.Unlock()
	page := make(chan news, 8)
	l.pages[page] = true
	if l.stop == nil {
		var ctx context.Context
		ctx, l.stop = context.WithCancel(l.ctx)
		go l.poll(ctx)
	}
	return page
}

func (l *live) close(page chan news) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pages, page)
	if len(l.pages) == 0 && l.stop != nil {
		l.stop()
		l.stop = nil
	}
}

func (l *live) tell(n news) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for page := range l.pages {
		select {
		case page <- n:
		default: // a page that doesn't keep up has news enough
		}
	}
}

// newestMost is how many entries one poll reads.
const newestMost = 500

// poll follows the activity.
func (l *live) poll(ctx context.Context) {
	last, away := int64(0), false
	for ctx.Err() == nil {
		by := activity.Filter{After: last, Limit: newestMost}
		if last == 0 {
			by.Limit = 1
		}
		changed := map[string]bool{}
		began := last > 0
		err := l.log.Find(ctx, by, func(e activity.Entry) error {
			last = max(last, e.ID)
			if e.Kind == activity.Worker {
				changed["workers"] = true
				return nil
			}
			changed[e.Queue], changed[fmt.Sprint(e.Queue, "/", e.JobID)] = true, true
			return nil
		})
		n := news{Changed: []string{}, Back: away && err == nil}
		switch {
		case err != nil && ctx.Err() == nil && !away:
			n.Away = sentence(err.Error())
		case began:
			for what := range changed {
				n.Changed = append(n.Changed, what)
			}
		}
		if len(n.Changed) > 0 || n.Away != "" || n.Back {
			l.tell(n)
		}
		away = err != nil
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}
