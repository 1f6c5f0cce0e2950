package crash

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"
)

// watch samples the jobs during a run for violations that the end can't show.
type watch struct {
	db *database
	// every is the sampling interval.
	every time.Duration

	mu     sync.Mutex
	looks  int
	finals map[jobID]row
	// left are the final jobs that changed later. twice are the live keys that were seen more than once.
	left, twice map[string]bool
	unfinished  int
}

func newWatch(db *database, every time.Duration) *watch {
	return &watch{db: db, every: every, finals: map[jobID]row{}, left: map[string]bool{}, twice: map[string]bool{}}
}

// keep samples until ctx ends.
func (w *watch) keep(ctx context.Context, t *testing.T) {
	for ctx.Err() == nil {
		if err := w.look(); err != nil {
			t.Error(err)
			return
		}
		time.Sleep(w.every)
	}
}

// open is how many jobs were not final at the last look.
func (w *watch) open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unfinished
}

func (w *watch) look() error {
	unfinished := 0
	for _, q := range queues {
		final, err := w.db.jobs(q, "WHERE state = 'final'")
		if err != nil {
			return err
		}
		w.compare(q, final)
		open := 0
		if err := w.db.QueryRow("SELECT COUNT(*) FROM " + jobsTable(q) + " WHERE state <> 'final'").Scan(&open); err != nil {
			return err
		}
		unfinished += open
		query := "SELECT job_type, job_key, COUNT(*) FROM " + jobsTable(q) + " WHERE state <> 'final' GROUP BY job_type, job_key HAVING COUNT(*) > 1"
		err = w.db.each(query, nil, func(rows *sql.Rows) error {
			n, times := name{queue: q}, 0
			err := rows.Scan(&n.jobType, &n.key, &times)
			w.twice[fmt.Sprintf("%v is live %d times", n, times)] = true
			return err
		})
		if err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	w.unfinished = unfinished
	return nil
}

// compare records a queue's final jobs, and those that changed or disappeared since.
func (w *watch) compare(queue string, final []row) {
	seen := map[jobID]bool{}
	for _, now := range final {
		seen[now.jobID] = true
		before, known := w.finals[now.jobID]
		if !known {
			w.finals[now.jobID] = now
		} else if before != now {
			w.left[fmt.Sprintf("%s was final as %+v and is %+v", now.jobID, before, now)] = true
		}
	}
	for id, before := range w.finals {
		if id.queue == queue && !seen[id] {
			w.left[fmt.Sprintf("%s was final as %+v and is not any more", id, before)] = true
		}
	}
}
