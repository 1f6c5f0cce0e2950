package admin

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
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

// conditions are SQL conditions for each status, on indexed columns. {now} is the database's clock.
var conditions = map[Status]string{
	Initial:   toStart + " AND attempt = 0",
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

// toStart selects rows that wait for their next attempt.
const (
	toStart = "status IN ('submitted', 'available', 'scheduled', 'throttled', 'locked')"
	// retrying selects those that have had an attempt. The index has both columns.
	retrying = toStart + " AND attempt > 0"
)

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
	if by.Key != "" {
		w.And("job_key = ?", by.Key)
	}
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
		condition := cmp.Or(conditions[by.Status], "1 = 0")
		if slices.Contains(Stored, by.Status) {
			condition = "status = '" + string(by.Status) + "'"
		}
		w.And(strings.ReplaceAll(condition, "{now}", "(SELECT "+q.s.DB().SQL.NowSQL+")"))
		hint = q.s.ClaimIndex()
	}
	if by.saysError() {
		w.And(mayHaveError)
		hint = q.s.ClaimIndex()
	}
	if by.Place != 0 {
		w.And("shard = ?", by.Place)
	}
	if by.Type != "" {
		w.And("job_type = ?", by.Type)
	}
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

// walked is how many IDs newest walks at first, and walkStep is up to how many one query walks. fewest is how many entries of an index
// are always few enough to sort.
const walked, walkStep, fewest = 2000, 50_000, 20_000

// newest returns the IDs of selected jobs, newest first; most 0 means all. An index has a status or a type, but not in the order of
// IDs: it costs what it has, and a walk through the IDs what it passes. So the walk goes on only while the index has more.
func (q *Queue) newest(ctx context.Context, by Filter, most int) (ids []int64, err error) {
	w, hint := q.where(by)
	if by.Key != "" && by.Type == "" {
		names, err := q.s.TypeNames(ctx)
		if err != nil || len(names) == 0 {
			return nil, err
		}
		for some := range slices.Chunk(names, findPage) {
			own := w.Clone()
			own.And("job_type IN "+engine.In(len(some)), engine.Args(some)...)
			found, err := q.ids(ctx, own, q.s.Index("live"), most)
			if ids = append(ids, found...); err != nil {
				return nil, err
			}
		}
		slices.SortFunc(ids, func(a, b int64) int { return cmp.Compare(b, a) })
		return ids[:min(len(ids), cmp.Or(most, len(ids)))], nil
	}
	if by.Key != "" || by.Among == 0 && (most == 0 || most > fewest) && hint != "" {
		return q.ids(ctx, w, hint, most)
	}
	low, high, err := q.span(ctx, by)
	all := high - low
	for budget, counted := int64(walked), int64(0); err == nil && low < high; budget *= 2 {
		few := max(fewest, budget)
		if budget == walked { // most find enough at once
			few = walked
		}
		if by.Among == 0 && few > counted {
			counted = few
			if index, err := q.narrow(ctx, by, counted); index != "" || err != nil {
				if err == nil {
					ids, err = q.ids(ctx, w, index, most)
				}
				return ids, err
			}
		}
		for end := high - budget; high > max(low, end); {
			step := w.Clone()
			step.And("id < ?", high)
			high = max(low, end, high-walkStep)
			step.And("id >= ?", high)
			some, err := q.ids(ctx, step, q.s.DB().SQL.ByID, max(0, most-len(ids)))
			if ids = append(ids, some...); err != nil || most > 0 && len(ids) == most {
				return ids, err
			}
			if len(some) == 0 && high > low {
				if high, err = q.endBelow(ctx, high); err != nil {
					return nil, err
				}
			}
			q.tell(all-(high-low), all)
		}
	}
	return ids, err
}

// ids returns the IDs of rows, newest first; most 0 means all.
func (q *Queue) ids(ctx context.Context, w engine.Where, hint string, most int) (ids []int64, err error) {
	query := "SELECT id FROM " + q.s.Table() + " " + hint + w.SQL() + " ORDER BY id DESC LIMIT ?"
	err = q.s.DB().SQL.SelectContext(ctx, &ids, query, append(w.Args, cmp.Or(most, math.MaxInt))...)
	return ids, texts.Wrap(err, "find jobs of %s", q.s.Name)
}

// span returns the IDs among which the selected jobs are: low, and one above the last. A row with the highest possible ID isn't
// among them.
func (q *Queue) span(ctx context.Context, by Filter) (low, high int64, err error) {
	from, ends := " FROM "+q.s.Table(), struct{ Low, High int64 }{}
	// SQLite reads all of the table for both at once
	query := "SELECT COALESCE((SELECT MIN(id)" + from + "), 1) AS low, COALESCE((SELECT MAX(id)" + from + "), 0) AS high"
	err = q.s.DB().SQL.GetContext(ctx, &ends, query)
	if ends.High = min(ends.High, math.MaxInt64-1) + 1; err == nil && by.Among > 0 {
		err = q.s.DB().SQL.GetContext(ctx, &ends.Low, "SELECT COALESCE(MIN(id), 1) FROM (SELECT id"+from+" ORDER BY id DESC LIMIT ?) AS newest", by.Among)
	}
	if err == nil && !by.Until.IsZero() { // a job is changed after it was added
		ends.High, err = q.addedBefore(ctx, by.Until.Add(addedLate), ends.Low, ends.High)
	}
	return ends.Low, ends.High, texts.Wrap(err, "find jobs of %s", q.s.Name)
}

// endBelow is one above the last ID below another: IDs may have gaps of any size.
func (q *Queue) endBelow(ctx context.Context, id int64) (end int64, err error) {
	err = q.s.DB().SQL.GetContext(ctx, &end, "SELECT COALESCE(MAX(id), 0) + 1 FROM "+q.s.Table()+" WHERE id < ?", id)
	return end, texts.Wrap(err, "find jobs of %s", q.s.Name)
}

// addedLate is how much earlier than a job before it, by ID, a job may be added: transactions take their time, and clocks differ.
const addedLate = time.Hour

// addedBefore returns the first ID from which on jobs were added at a time or later.
func (q *Queue) addedBefore(ctx context.Context, at time.Time, low, high int64) (int64, error) {
	query := "SELECT id, create_time < ? AS earlier FROM " + q.s.Table() + " " + q.s.DB().SQL.ByID + " WHERE id >= ? ORDER BY id LIMIT 1"
	for low < high {
		var next struct {
			ID      int64
			Earlier bool
		}
		mid := low + (high-low)/2
		if err := q.s.DB().SQL.GetContext(ctx, &next, query, engine.At(at), mid); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return 0, err
		}
		if next.Earlier {
			low = next.ID + 1
		} else {
			high = mid
		}
	}
	return high, nil
}

// narrow returns an index that finds the selected jobs among at most most entries; empty if there is none.
func (q *Queue) narrow(ctx context.Context, by Filter, most int64) (index string, err error) {
	under := func(hint, where string, args ...any) bool {
		var more []int
		query := "SELECT 1 FROM " + q.s.Table() + " " + hint + " WHERE " + where + " LIMIT 1 OFFSET ?"
		if err == nil {
			err = q.s.DB().SQL.SelectContext(ctx, &more, query, append(args, most)...)
		}
		return err == nil && len(more) == 0
	}
	statuses := stored[by.Status]
	if slices.Contains(Stored, by.Status) {
		statuses = []string{string(by.Status)}
	}
	switch live := q.s.Index("live"); {
	case by.Type != "" && under(live, "job_type = ?", by.Type):
		return live, nil
	case len(statuses) > 0 && under(q.s.ClaimIndex(), "status IN "+engine.In(len(statuses)), engine.Args(statuses)...):
		return q.s.ClaimIndex(), nil
	}
	return "", texts.Wrap(err, "find jobs of %s", q.s.Name)
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

// failuresMost is how many kinds of failures are distinguished, among the newest failuresAmong jobs.
const failuresMost, failuresAmong = 1000, 1_000_000

// Failure is a group of jobs of one type with the same error fingerprint, which ignores numbers, IDs, times and quoted paths.
type Failure struct {
	Type string `json:"job_type"`
	// Fingerprint is eight hex digits that these errors share. It is stable across hipq versions.
	Fingerprint string `json:"fingerprint"`
	// Jobs is the number of jobs in the group.
	Jobs int64 `json:"jobs"`
	// First is when the first of these jobs failed.
	First job.Time `json:"first"`
	// Last is when the last of these jobs failed.
	Last job.Time `json:"last"`
	// Hours is how many jobs failed in each hour; the keys are the beginnings of the hours, in UTC.
	Hours map[time.Time]int64 `json:"-"`
	// Example is the id of the newest job.
	Example int64 `json:"example"`
	// Error is the beginning of its error.
	Error string `json:"-"`
	// State is "failed", "retry" (the jobs will be retried) or, with --state=closed, "closed".
	State Status `json:"state"`
	// NextRetry is when the first of these jobs is retried, if State is "retry".
	NextRetry job.Time `json:"next_retry"`
}

// Failures are the selected failed jobs, grouped by failure.
type Failures struct {
	// Kinds are the groups with the newest jobs, largest group first.
	Kinds []Failure
	// Others is how many jobs failed in other ways.
	Others int64
	// More says that Failures ignored older jobs.
	More bool
}

var failureColumns = store.Only("id", "job_type", "status", "error", "update_time", "scheduled_run_time")

// Failures groups jobs by type and error fingerprint. by.Status is Failed (the default), Closed or Retry; by.Limit limits the
// groups, at most 1,000. It reads the newest million jobs in pages, and locks nothing.
func (q *Queue) Failures(ctx context.Context, by Filter) (Failures, error) {
	by.Status = cmp.Or(by.Status, Failed)
	ids, err := q.newest(ctx, by, failuresAmong+1)
	if err != nil {
		return Failures{}, err
	}
	g := grouping{by: by, at: map[[2]string]int{}}
	err = q.each(ctx, by, ids[:min(len(ids), failuresAmong)], failureColumns, func(j *job.Job) error {
		g.add(j)
		return nil
	})
	found := g.sorted()
	found.More = len(ids) > failuresAmong
	return found, err
}

// grouping groups failed jobs by type and fingerprint.
type grouping struct {
	by    Filter
	found Failures
	// at has the indexes of the kinds.
	at map[[2]string]int
}

func (g *grouping) add(j *job.Job) {
	key := [2]string{j.Type, texts.Fingerprint(j.Error)}
	n, known := g.at[key]
	switch {
	case g.by.Fingerprint != "" && g.by.Fingerprint != key[1], g.by.Status == Retry && j.Error == job.None:
		return
	case !known && len(g.found.Kinds) == min(cmp.Or(max(g.by.Limit, 0), failuresMost), failuresMost):
		g.found.Others++
		return
	case !known:
		n, g.at[key] = len(g.found.Kinds), len(g.found.Kinds)
		beginning := strings.ToValidUTF8(j.Error[:min(len(j.Error), texts.FingerprintBytes)], "")
		g.found.Kinds = append(g.found.Kinds, Failure{
			Type: j.Type, State: g.by.Status, Fingerprint: key[1], First: job.Time{Time: j.UpdateTime}, Example: j.ID, Error: beginning,
			Hours: map[time.Time]int64{},
		})
	}
	f := &g.found.Kinds[n]
	f.Jobs++
	f.Hours[j.UpdateTime.UTC().Truncate(time.Hour)]++
	if next := f.NextRetry; g.by.Status == Retry && (next.IsZero() || j.ScheduledRunTime.Before(next.Time)) {
		f.NextRetry.Time = j.ScheduledRunTime
	}
	f.First.Time = slices.MinFunc([]time.Time{f.First.Time, j.UpdateTime}, time.Time.Compare)
	f.Last.Time = slices.MaxFunc([]time.Time{f.Last.Time, j.UpdateTime}, time.Time.Compare)
}

// sorted returns the largest groups first.
func (g *grouping) sorted() Failures {
	slices.SortStableFunc(g.found.Kinds, func(a, b Failure) int { return cmp.Compare(b.Jobs, a.Jobs) })
	return g.found
}
