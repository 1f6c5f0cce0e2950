package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hipq/hipq/activity"
)

// live tells open pages what has changed. All of them share one poll a second, and without any there is none.
type live struct {
	ctx context.Context
	log *activity.Log

	mu sync.Mutex
	// pages get the news.
	pages map[chan news]bool
	stop  context.CancelFunc
	// told counts the news, so that a page that was made before some of them learns it when it begins to listen.
	told int
	// away is why the database can't be read; empty if it can.
	away string
}

// news is what changed within a poll.
type news struct {
	// Changed has queues, jobs ("emails/42") and "workers", or "*" for anything.
	Changed []string `json:"changed"`
	// Away says why the database can't be read. Back is set when it can again.
	Away string `json:"away,omitempty"`
	Back bool   `json:"back,omitempty"`
}

// serve sends the news to one page until it is closed.
func (l *live) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	seen, _ := strconv.Atoi(r.FormValue("seen"))
	page := l.open(seen)
	defer l.close(page)
	alive := time.NewTicker(15 * time.Second) // so that a closed page is noticed
	defer alive.Stop()
	for text := ": hello"; ; {
		if _, err := fmt.Fprintf(w, "%s\n\n", text); err != nil || out.Flush() != nil {
			return
		}
		select {
		case n := <-page:
			line, _ := json.Marshal(n) // texts never fail
			text = "data: " + string(line)
		case <-alive.C:
			text = ": still here"
		case <-r.Context().Done():
			return
		case <-l.ctx.Done():
			return
		}
	}
}

// seen is how many news a page that is made now knows.
func (l *live) seen() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told
}

func (l *live) open(seen int) chan news {
	l.mu.Lock()
	defer l.mu.Unlock()
	page := make(chan news, 8)
	l.pages[page] = true
	if l.away != "" {
		page <- news{Away: l.away, Changed: []string{}}
	}
	if l.told > seen {
		page <- news{Changed: []string{"*"}}
	}
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
	if l.told++; n.Away != "" || n.Back {
		l.away = n.Away
	}
	for page := range l.pages {
		select {
		case page <- n:
		default: // a page that doesn't keep up has news enough
		}
	}
}

// changed tells open pages what somebody has changed here, because not each change is in the activity.
func (l *live) changed(what ...string) { l.tell(news{Changed: what}) }

// touchedMost is how many entries one poll reads. overlap is how many of them it reads again, because transactions commit in
// another order than they take their ids.
const touchedMost, overlap = 1000, 200

// pollMost is how long a poll waits for the database. touchedMost and overlap fit to pollEvery.
const pollEvery, pollMost = time.Second, 5 * time.Second

func (l *live) poll(ctx context.Context) {
	var seen map[int64]bool // nil before the first look
	l.mu.Lock()
	last, failed := int64(0), l.away != ""
	l.mu.Unlock()
	for ctx.Err() == nil {
		looking, cancel := context.WithTimeout(ctx, pollMost)
		touched, err := l.log.Touched(looking, last-overlap, touchedMost)
		cancel()
		if ctx.Err() != nil {
			return
		}
		n := news{Changed: []string{}, Back: failed && err == nil}
		if err != nil && !failed {
			n.Away = sentence(err.Error())
		}
		if err == nil {
			changed, now := map[string]bool{}, map[int64]bool{}
			for _, e := range touched {
				now[e.ID], last = true, max(last, e.ID)
				switch {
				case seen == nil || seen[e.ID]:
				case e.Kind == activity.Worker:
					changed["workers"] = true
				default:
					changed[e.Queue], changed[fmt.Sprint(e.Queue, "/", e.JobID)] = true, true
				}
			}
			if seen != nil && len(touched) == touchedMost {
				changed["*"] = true
			}
			seen, n.Changed = now, slices.AppendSeq(n.Changed, maps.Keys(changed))
		}
		if failed = err != nil; len(n.Changed) > 0 || n.Away != "" || n.Back {
			l.tell(n)
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
		}
	}
}
