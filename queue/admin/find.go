package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

// Status is one of job.States, or of the parts that Counts counts.
type Status string

// The statuses: first job.States, then parts of them.
const (
	Initial   Status = Status(job.Initial)
	Running   Status = Status(job.Running)
	Error     Status = Status(job.Error)
	Retry     Status = Status(job.Retry)
	Final     Status = Status(job.Final)
	Due       Status = "due"
	Held      Status = "held"
	Scheduled Status = "scheduled"
	Locked    Status = "locked"
	Waiting   Status = "waiting"
	Failed    Status = "failed"
	Closed    Status = "closed"
	Finished  Status = "finished"
)

// Statuses are all statuses. Running includes jobs that wait for an answer; Error includes jobs whose retry handler is asked.
var Statuses = []Status{
	Initial, Running, Error, Retry, Final,
	Due, Held, Scheduled, Locked, Waiting, Failed, Closed, Finished,
}

// Stored are the stored statuses that aren't among Statuses, and select what their names say.
var Stored = []Status{"submitted", "available", "throttled", "answered", "awaiting", "deciding", "undecided"}

// stored are the stored statuses of the jobs that may have one of Statuses.
var stored = map[Status][]string{
	Initial: toStart, Retry: toStart, Running: {"running", "answered", "awaiting"}, Error: {"deciding", "undecided"},
	Final: {"finished", "failed", "closed"}, Due: {"available", "submitted", "scheduled"}, Held: {"throttled"}, Scheduled: {"submitted", "scheduled"},
	Locked: {"locked"}, Waiting: {"awaiting"}, Failed: {"failed"}, Closed: {"closed"}, Finished: {"finished"},
}

// toStart have jobs that wait for their next attempt.
var toStart = []string{"submitted", "available", "scheduled", "throttled", "locked"}

// further conditions select those of them that have the status, on indexed columns. {now} is the database's clock.
var further = map[Status]string{
	Initial: " AND attempt = 0", Retry: " AND attempt > 0", Final: ended, Failed: ended, Closed: ended, Finished: ended,
	Due: " AND (status = 'available' OR scheduled_run_time <= {now})", Scheduled: " AND scheduled_run_time > {now}",
}

const ended = " AND part = 'NONE'"

// rows are the stored statuses of the jobs that may have one of Statuses or Stored.
func (s Status) rows() []string {
	if slices.Contains(Stored, s) {
		return []string{string(s)}
	}
	return stored[s]
}

func (s Status) condition() string {
	return "status IN ('" + strings.Join(s.rows(), "', '") + "')" + further[s]
}

// mayHaveError excludes jobs that have no error: most final ones, and those that had no attempt. The index has both columns.
const mayHaveError = "status IN ('available', 'scheduled', 'throttled', 'locked', 'running', 'answered', 'deciding', 'undecided'," +
	" 'failed', 'closed') AND (attempt > 0 OR status IN ('failed', 'closed'))"

// Filter selects jobs for Find. Zero fields select all.
type Filter struct {
	Status Status
	Type   string
	Key    string
	// Error selects jobs whose error contains this text literally.
	Error string
	// Fingerprint selects jobs whose error has this fingerprint, as in Failure.
	Fingerprint string
	// Place selects jobs of one shard, by Division.Place.
	Place int
	// Since and Until select by update_time. Since is inclusive, Until exclusive.
	Since, Until time.Time
	// Among searches only this many jobs with the highest IDs, so that the cost doesn't depend on the queue's length.
	Among int
	// Limit keeps only the newest jobs.
	Limit int
}

// where returns a filter's condition without the fingerprint and Among, and an index hint if an index serves it.
func (q *Queue) where(by Filter) (w engine.Where, hint string) {
	w, hint = q.indexed(by)
	engine.Is(&w, "job_key = ?", by.Key)
	if by.Fingerprint != "" { // jobs without an error have no fingerprint
		w.And("(error <> 'NONE' OR status IN ('failed', 'closed'))")
	}
	w.Says(by.Error)
	w.Within("update_time", by.Since, by.Until)
	return w, hint
}

// indexed returns the part of a filter's condition that the claim index has, and the index that serves the filter.
func (q *Queue) indexed(by Filter) (w engine.Where, hint string) {
	if by.Status != "" {
		w.And(strings.ReplaceAll(by.Status.condition(), "{now}", "(SELECT "+q.s.DB().SQL.NowSQL+")"))
		hint = q.s.ClaimIndex()
	}
	if by.saysError() {
		w.And(mayHaveError)
		hint = q.s.ClaimIndex()
	}
	engine.Is(&w, "shard = ?", by.Place)
	engine.Is(&w, "job_type = ?", by.Type)
	if by.Key != "" && by.Type != "" {
		hint = q.s.Index("live")
	}
	return w, hint
}

func (by Filter) saysError() bool { return by.Error != "" || by.Fingerprint != "" }

// FindIDs returns the IDs of the selected jobs in ascending order.
func (q *Queue) FindIDs(ctx context.Context, by Filter) (ids []int64, err error) {
	most := max(by.Limit, 0)
	if !by.saysError() || by.Key != "" && by.Fingerprint == "" {
		ids, err = q.newest(ctx, by, most)
		slices.Reverse(ids)
		return ids, err
	}
	may, enough := []int64(nil), errors.New("enough")
	if w, hint := q.indexed(by); by.Key == "" && by.Among == 0 && hint != "" { // the index has all that may have an error
		may, err = q.ids(ctx, w, hint, 0)
	} else {
		may, err = q.newest(ctx, by, 0)
	}
	if err != nil {
		return nil, err
	}
	err = q.each(ctx, by, may, failureColumns, func(j *job.Job) error {
		if by.Fingerprint == "" || texts.Fingerprint(j.Error) == by.Fingerprint {
			ids = append(ids, j.ID)
		}
		if most > 0 && len(ids) == most {
			return enough
		}
		return nil
	})
	if errors.Is(err, enough) {
		err = nil
	}
	slices.Reverse(ids)
	return ids, err
}

// Find calls f with each selected job, oldest first, until f returns an error, which it returns.
func (q *Queue) Find(ctx context.Context, by Filter, f func(*job.Job) error) error {
	_, hint := q.where(by)
	narrow := hint != "" || by.Key != "" || by.Limit > 0 || by.Among > 0
	if !narrow && by.Type != "" {
		index, err := q.narrow(ctx, by, fewest)
		if narrow = index != ""; err != nil {
			return err
		}
	}
	if narrow {
		// IDs first, because sorting whole rows in index order would include their data
		ids, err := q.FindIDs(ctx, by)
		if err != nil {
			return err
		}
		return q.each(ctx, by, ids, store.AllColumns, f)
	}
	// in pages, because the table may have millions of rows
	low, high, err := q.span(ctx, by)
	for last, n := low-1, findPage; err == nil && n == findPage; {
		n = 0
		w, _ := q.where(by)
		w.And("id > ?", last)
		w.And("id < ?", high)
		err = q.page(ctx, w, store.AllColumns, "", func(j *job.Job) error {
			n, last = n+1, j.ID
			return f(j)
		})
	}
	return err
}

// each calls f with the jobs of these ascending or descending IDs that the filter still selects.
func (q *Queue) each(ctx context.Context, by Filter, ids []int64, of store.Selection, f func(*job.Job) error) error {
	order := ""
	if len(ids) > 1 && ids[0] > ids[1] {
		order = " DESC"
	}
	done := 0
	for some := range slices.Chunk(ids, findPage) {
		w, _ := q.where(by)
		w.And("id IN "+engine.In(len(some)), engine.Args(some)...)
		if err := q.page(ctx, w, of, order, f); err != nil {
			return err
		}
		if done += len(some); done > findPage {
			q.tell(int64(done), int64(len(ids)))
		}
	}
	return nil
}

const findPage = 500

// page calls f with the first jobs that meet a condition, ordered by ID.
func (q *Queue) page(ctx context.Context, w engine.Where, of store.Selection, order string, f func(*job.Job) error) error {
	var stop error
	rest := q.s.DB().SQL.ByID + w.SQL() + " ORDER BY id" + order + " LIMIT ?"
	err := engine.ReadOn(ctx, q.s.DB().SQL, q.s.Jobs(of, rest, append(w.Args, findPage), func(j *job.Job) {
		if stop == nil {
			stop = f(j)
		}
	}))
	if err != nil && stop == nil {
		return fmt.Errorf("find jobs of %s: %w", q.s.Name, err)
	}
	return cmp.Or(stop, err)
}
