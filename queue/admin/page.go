package admin

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

// pageSteps are how many IDs one query of a walk looks at: few at first, because the newest jobs mostly have what is asked for, and
// rows may be long.
const pageSteps, pageStepsMost = 1000, 8000

// listColumns are what the lists of hipq ui show. Page reads no others, so don't ask its jobs what is Invalid.
var listColumns = store.Only("id", "job_type", "job_key", "status", "attempt", "error", "scheduled_run_time", "start_time", "update_time", "priority",
	"retried_as", "create_time", "progress", "progress_note", "progress_attempt", "progress_time", "losses", "shard", "worker_id")

// PageOptions say which page of a list of jobs to read.
type PageOptions struct {
	// After is where the page before ended; empty for the first.
	After string
	// Oldest lists the oldest jobs first.
	Oldest bool
	// Within is how long to look for matching jobs; 0 means 1 s.
	Within time.Duration
	// Ranges may be nil.
	Ranges *Ranges
}

// List is a page of a list of jobs.
type List struct {
	Jobs []*job.Job
	// Next is where the next page begins, empty if there is none.
	Next string
	// Looked is how many jobs were looked at.
	Looked int64
}

// Page returns up to by.Limit (100 by default) of the selected jobs: those of a status by their run time, the latest first, others by ID. They
// have only what lists show. If the time is over before the page is full, it ends early. Each job that stays as it is comes on
// one page. The cost doesn't depend on the queue's length.
func (q *Queue) Page(ctx context.Context, by Filter, o PageOptions) (l List, err error) {
	by.Limit, o.Within = cmp.Or(max(by.Limit, 0), 100), cmp.Or(o.Within, time.Second)
	l.Next, l.Looked, err = q.eachUntil(ctx, by, o, listColumns, func(j *job.Job) bool {
		l.Jobs = append(l.Jobs, j)
		return len(l.Jobs) < by.Limit
	})
	return l, texts.Wrap(err, "list jobs of %s", q.s.Name)
}

// NewestFailures is Failures among up to most jobs with the latest run times that it finds within a time.
func (q *Queue) NewestFailures(ctx context.Context, by Filter, most int, within time.Duration) (Failures, error) {
	by.Status = cmp.Or(by.Status, Failed)
	g, n, full := newGrouping(by), 0, by
	full.Limit = most
	next, _, err := q.eachUntil(ctx, full, PageOptions{Within: within}, failureColumns, func(j *job.Job) bool {
		g.add(j)
		n++
		return n < most
	})
	return g.sorted(next != ""), texts.Wrap(err, "group the failures of %s", q.s.Name)
}

// Count counts the selected jobs from o.After on, until the time is over. next is where to go on; empty if all are counted. What
// an index can't select is read job by job, 100,000 of them in some seconds.
func (q *Queue) Count(ctx context.Context, by Filter, o PageOptions) (n int64, next string, err error) {
	by.Limit, o.Within = countPage, cmp.Or(o.Within, time.Second)
	of := store.Only("id")
	if by.Fingerprint != "" {
		of = failureColumns
	}
	next, _, err = q.eachUntil(ctx, by, o, of, func(*job.Job) bool {
		n++
		return true
	})
	return n, next, texts.Wrap(err, "count jobs of %s", q.s.Name)
}

const countPage = 2000

// eachUntil calls f with the selected jobs until f returns false, or the time is over. next is where to go on. looked is how many
// jobs it looked at.
func (q *Queue) eachUntil(ctx context.Context, by Filter, o PageOptions, of store.Selection, f func(*job.Job) bool) (next string, looked int64, err error) {
	look := q.lookByID
	if by.Status != "" && (by.Type == "" || by.Key == "") {
		look = q.lookByTime
	}
	return look(ctx, by, o, func(some []place) (end int, err error) {
		found, ids := map[int64]*job.Job{}, texts.Map(some, func(p place) int64 { return p.ID })
		slices.Sort(ids)
		err = q.each(ctx, by, ids, of, func(j *job.Job) error {
			if by.Fingerprint == "" || texts.Fingerprint(j.Error) == by.Fingerprint {
				found[j.ID] = j
			}
			return nil
		})
		for n, p := range some {
			if j := found[p.ID]; j != nil && !f(j) {
				return n + 1, err
			}
		}
		return -1, err
	})
}

type place struct {
	ID      int64
	At      string // the run time as the tables have it
	Attempt int
}

func (p place) String() string { return p.At + "/" + strconv.FormatInt(p.ID, 10) }

// parsePlace is the place that String wrote; nil for an empty text.
func parsePlace(text string) (*place, error) {
	if text == "" {
		return nil, nil
	}
	at, id, _ := strings.Cut(text, "/")
	n, err := strconv.ParseInt(id, 10, 64)
	if _, bad := engine.ParseTime(at); err != nil || at != "" && bad != nil {
		return nil, ErrPage
	}
	return &place{ID: n, At: at}, nil
}

// ErrPage is the error if PageOptions.After is not a text from Page.
var ErrPage = errors.New("this is not where a page ended")

// lookByID looks at all jobs by their IDs. take returns how many of them it takes, -1 for all.
func (q *Queue) lookByID(ctx context.Context, by Filter, o PageOptions, take func([]place) (int, error)) (next string, looked int64, err error) {
	low, end, err := q.span(ctx, by)
	if err != nil {
		return "", looked, err
	}
	high := end - 1
	switch after, err := parsePlace(o.After); {
	case err != nil:
		return "", looked, err
	case after != nil && o.Oldest:
		low = after.ID + 1
	case after != nil:
		high = after.ID - 1
	}
	deadline := time.Now().Add(o.Within)
	for step := int64(pageSteps); low <= high; {
		began := time.Now()
		from, to, order := max(low, high-step+1), high, " DESC"
		if o.Oldest {
			from, to, order = low, min(high, low+step-1), ""
		}
		w, hint := q.where(by)
		if by.Type == "" || by.Key == "" {
			hint = q.s.DB().SQL.ByID
		} else {
			from, to = low, high // the index finds them all
		}
		w.And("id >= ?", from)
		w.And("id <= ?", to)
		var ids []int64
		query := "SELECT id FROM " + q.s.Table() + " " + hint + w.SQL() + " ORDER BY id" + order + " LIMIT ?"
		if err := q.s.DB().SQL.SelectContext(ctx, &ids, query, append(w.Args, by.Limit)...); err != nil {
			return "", looked, err
		}
		some := texts.Map(ids, func(id int64) place { return place{ID: id} })
		end, err := take(some)
		switch {
		case err != nil:
			return "", looked, err
		case end > 0:
			return some[end-1].String(), looked + int64(end), nil
		case len(ids) == by.Limit: // not all of the step was read
			if o.Oldest {
				to = ids[len(ids)-1]
			} else {
				from = ids[len(ids)-1]
			}
		}
		looked += to - from + 1
		if time.Since(began) < o.Within/4 {
			step = min(2*step, pageStepsMost)
		}
		if o.Oldest {
			low = to + 1
		} else if high = from - 1; len(ids) == 0 && low <= high {
			if high, err = q.endBelow(ctx, from); err != nil {
				return "", looked, err
			}
			high--
		}
		if low <= high && time.Now().After(deadline) {
			return map[bool]place{true: {ID: low - 1}, false: {ID: high + 1}}[o.Oldest].String(), looked, nil
		}
	}
	return "", looked, nil
}
