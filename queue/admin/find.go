package admin

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

// Status is where a job stands: one of job.States, or of what Counts counts.
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

// Statuses are all there are. Running includes jobs that wait for an answer, error those about which a retry handler is asked.
var Statuses = []Status{
	Initial, Running, Error, Retry, Final,
	Due, Held, Scheduled, Locked, Waiting, Failed, Closed, Finished,
}

// conditions are what the rows of each standing meet, by the statuses, which the index has. {now} is the database's clock.
var conditions = map[Status]string{
	Initial:   waiting + " AND attempt = 0",
	Retry:     retrying,
	Running:   "status IN ('running', 'answered', 'awaiting')",
	Error:     "status IN ('deciding', 'undecided')",
	Final:     "status IN ('finished', 'failed', 'closed') AND part = 'NONE'",
	Due:       "status IN ('submitted', 'available', 'scheduled') AND (status = 'available' OR scheduled_run_time <= {now})",
	Held:      "status = 'throttled'",
	Scheduled: "status IN ('submitted', 'scheduled') AND scheduled_run_time > {now}",
	Locked:    "status = 'locked'",
	Waiting:   "status = 'awaiting'",
	Failed:    "status = 'failed' AND part = 'NONE'",
	Closed:    "status = 'closed' AND part = 'NONE'",
	Finished:  "status = 'finished' AND part = 'NONE'",
}

// waiting is the condition for a row that waits for its next attempt, retrying for one that has had an attempt. The index has both.
const (
	waiting  = "status IN ('submitted', 'available', 'scheduled', 'throttled', 'locked')"
	retrying = waiting + " AND attempt > 0"
)

// mayHaveError leaves out the statuses that most jobs have, and that go with no error.
const mayHaveError = "status IN ('available', 'scheduled', 'throttled', 'locked', 'running', 'answered', 'deciding', 'undecided'," +
	" 'failed', 'closed')"

// Filter narrows what Find gives. A zero field doesn't narrow.
type Filter struct {
	Status Status
	Type   string
	Key    string
	// Error takes only jobs whose error contains this text, as it is written.
	Error string
	// Fingerprint takes only jobs whose error has this fingerprint, as Failures gives it.
	Fingerprint string
	// Place takes only jobs of one shard, by Division.Place.
	Place int
	// Since and Until take only jobs whose update_time is since, and before.
	Since, Until time.Time
	// Among looks only at so many jobs with the highest ids, so that the cost doesn't depend on the queue's length.
	Among int
	// Limit takes the newest so many.
	Limit int
}

// where is the condition of a filter, without its fingerprint, and the hint for the index that serves it, if one does.
func (q *Queue) where(by Filter) (w engine.Where, hint string) {
	switch {
	case by.Status != "":
		w.And(strings.ReplaceAll(cmp.Or(conditions[by.Status], "1 = 0"), "{now}", "(SELECT "+q.s.DB().SQL.NowSQL+")"))
		hint = q.s.ClaimIndex()
	case by.Error != "" || by.Fingerprint != "":
		w.And(mayHaveError)
		hint = q.s.ClaimIndex()
	}
	if by.Place != 0 {
		w.And("shard = ?", by.Place)
	}
	if by.Type != "" {
		w.And("job_type = ?", by.Type)
	}
	if by.Key != "" {
		w.And("job_key = ?", by.Key)
	}
	if by.Type != "" && by.Key != "" {
		hint = q.s.Index("live")
	}
	if by.Fingerprint != "" { // what has no error has not failed in any way
		w.And("(error <> 'NONE' OR status IN ('failed', 'closed'))")
	}
	w.Says(by.Error)
	w.Within("update_time", by.Since, by.Until)
	if by.Among > 0 {
		w.And("id >= (SELECT MIN(id) FROM (SELECT id FROM "+q.s.Table()+" ORDER BY id DESC LIMIT ?) AS newest)", by.Among)
		hint = q.s.DB().SQL.ByID
	}
	return w, hint
}

// FindIDs gives the ids of the jobs that the filter lets pass, in order.
func (q *Queue) FindIDs(ctx context.Context, by Filter) (ids []int64, err error) {
	most := max(by.Limit, 0)
	if by.Fingerprint == "" {
		ids, err = q.newest(ctx, by, most)
		slices.Reverse(ids)
		return ids, err
	}
	failed, err := q.newest(ctx, by, 0)
	if err != nil {
		return nil, err
	}
	err = q.each(ctx, by, failed, failureColumns, func(j *job.Job) error {
		if texts.Fingerprint(j.Error) == by.Fingerprint {
			ids = append(ids, j.ID)
		}
		return nil
	})
	ids = ids[:min(len(ids), cmp.Or(most, len(ids)))]
	slices.Reverse(ids)
	return ids, err
}

// newest gives the ids of the jobs that where lets pass, the newest first; a most of 0 is all.
func (q *Queue) newest(ctx context.Context, by Filter, most int) (ids []int64, err error) {
	w, hint := q.where(by)
	query := "SELECT id FROM " + q.s.Table() + " " + hint + w.SQL() + " ORDER BY id DESC LIMIT ?"
	err = q.s.DB().SQL.SelectContext(ctx, &ids, query, append(w.Args, cmp.Or(most, math.MaxInt))...)
	return ids, texts.Wrap(err, "find jobs of %s", q.s.Name)
}

// Find calls f with each job that the filter lets pass, oldest first, and ends with f's first error.
func (q *Queue) Find(ctx context.Context, by Filter, f func(*job.Job) error) error {
	if _, hint := q.where(by); hint != "" || by.Limit > 0 {
		// the ids first, because in the order of an index whole rows would have to be sorted, with all of their data
		ids, err := q.FindIDs(ctx, by)
		if err != nil {
			return err
		}
		return q.each(ctx, by, ids, store.AllColumns, f)
	}
	// a page after the other, because the table may have millions of rows
	for last, n := int64(0), findPage; n == findPage; {
		n = 0
		w, _ := q.where(by)
		w.And("id > ?", last)
		err := q.page(ctx, w, store.AllColumns, "", func(j *job.Job) error {
			n, last = n+1, j.ID
			return f(j)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// each calls f with the jobs of these ids, in their order, up or down, if the filter still lets them pass.
func (q *Queue) each(ctx context.Context, by Filter, ids []int64, of store.Selection, f func(*job.Job) error) error {
	order := ""
	if len(ids) > 1 && ids[0] > ids[1] {
		order = " DESC"
	}
	for some := range slices.Chunk(ids, findPage) {
		w, _ := q.where(by)
		w.And("id IN "+engine.In(len(some)), store.Args(some, func(id int64) any { return id })...)
		if err := q.page(ctx, w, of, order, f); err != nil {
			return err
		}
	}
	return nil
}

const findPage = 500

// page calls f with the first jobs that a condition lets pass, in the order of their ids.
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

// failuresMost is how many kinds of failures are told apart, among the newest failuresAmong jobs.
const failuresMost, failuresAmong = 1000, 1_000_000

// Failure is jobs of one type whose errors have the same fingerprint, which leaves out numbers, ids, times and quoted paths.
type Failure struct {
	Type string `json:"job_type"`
	// Fingerprint is eight hex digits, the same in all versions of hipq.
	Fingerprint string `json:"fingerprint"`
	// Jobs is how many there are, First and Last are when the first and the last of them failed.
	Jobs  int64    `json:"jobs"`
	First job.Time `json:"first"`
	Last  job.Time `json:"last"`
	// Example is the newest of them, by its id, and Error the beginning of its error.
	Example int64  `json:"example"`
	Error   string `json:"-"`
	// State is Failed, Closed, or Retry: these jobs will be retried, and the first of them at NextRetry.
	State     Status   `json:"state"`
	NextRetry job.Time `json:"next_retry"`
}

// Failures are the jobs that a filter lets pass, by how they failed.
type Failures struct {
	// Kinds are those with the newest jobs. The kind with the most jobs comes first.
	Kinds []Failure
	// Others is how many jobs failed in yet other ways.
	Others int64
	// More says that there are older jobs, at which Failures didn't look.
	More bool
}

var failureColumns = store.Only("id", "job_type", "status", "error", "update_time", "scheduled_run_time")

// Failures groups jobs by type and the fingerprint of their error. The filter's standing is Failed by default, or Closed, or Retry; its
// Limit is of kinds, 1,000 at most. It looks at the newest million of the jobs, reads them by the page, and locks nothing.
func (q *Queue) Failures(ctx context.Context, by Filter) (Failures, error) {
	by.Status = cmp.Or(by.Status, Failed)
	most := min(cmp.Or(max(by.Limit, 0), failuresMost), failuresMost)
	ids, err := q.newest(ctx, by, failuresAmong+1)
	if err != nil {
		return Failures{}, err
	}
	found, at := Failures{More: len(ids) > failuresAmong}, map[[2]string]int{}
	err = q.each(ctx, by, ids[:min(len(ids), failuresAmong)], failureColumns, func(j *job.Job) error {
		key := [2]string{j.Type, texts.Fingerprint(j.Error)}
		n, known := at[key]
		switch {
		case by.Fingerprint != "" && by.Fingerprint != key[1], by.Status == Retry && j.Error == job.None:
			return nil
		case !known && len(found.Kinds) == most:
			found.Others++
			return nil
		case !known:
			n, at[key] = len(found.Kinds), len(found.Kinds)
			beginning := strings.ToValidUTF8(j.Error[:min(len(j.Error), texts.FingerprintBytes)], "")
			found.Kinds = append(found.Kinds, Failure{
				Type: j.Type, State: by.Status, Fingerprint: key[1], First: job.Time{Time: j.UpdateTime}, Example: j.ID, Error: beginning,
			})
		}
		f := &found.Kinds[n]
		f.Jobs++
		if next := f.NextRetry; by.Status == Retry && (next.IsZero() || j.ScheduledRunTime.Before(next.Time)) {
			f.NextRetry.Time = j.ScheduledRunTime
		}
		f.First.Time = slices.MinFunc([]time.Time{f.First.Time, j.UpdateTime}, time.Time.Compare)
		f.Last.Time = slices.MaxFunc([]time.Time{f.Last.Time, j.UpdateTime}, time.Time.Compare)
		return nil
	})
	slices.SortStableFunc(found.Kinds, func(a, b Failure) int { return cmp.Compare(b.Jobs, a.Jobs) })
	return found, err
}
