package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

// adding is one call's jobs on their way into the table.
type adding struct {
	*Queue
	tx       *engine.Tx
	division policy.Division
	jobs     []job.Params
	added    []job.Added
	// todo holds the indexes of the jobs without a result yet.
	todo []int
	// left are held jobs that were replaced: others of their groups may have waited behind them.
	left []*job.Job
}

// Add inserts the jobs whose keys are free, and returns the existing jobs' ids for the other keys. The unique index decides:
// Add looks up keys only after the index has refused a statement, to leave their rows out of the next try.
//
// by goes to the activity.
func (q *Queue) Add(ctx context.Context, tx *engine.Tx, prepared []job.Params, by string) ([]job.Added, error) {
	a, err := q.add(ctx, tx, prepared, false, by)
	if err != nil {
		return nil, err
	}
	return a.added, nil
}

// add is Add. byKey inserts the jobs in the order of their keys, in one statement, to avoid repeated deadlocks between programs
// that enqueue the same keys. It isn't the default, because equal jobs run in the order of insertion.
func (q *Queue) add(ctx context.Context, tx *engine.Tx, prepared []job.Params, byKey bool, by string) (*adding, error) {
	a := &adding{Queue: q, tx: tx, added: make([]job.Added, len(prepared))}
	if err := a.complete(ctx, prepared); err != nil {
		return nil, err
	}
	jobs := a.jobs
	if tx.Now.IsZero() && (slices.ContainsFunc(jobs, job.Params.IsTimed) || q.db.SQL.DearNow && len(jobs) > 1) {
		if err := q.db.SQL.SetClock(ctx, tx); err != nil {
			return nil, err
		}
	}
	others, err := a.distinct()
	if err != nil {
		return nil, err
	}
	if byKey {
		slices.SortFunc(a.todo, func(i, j int) int {
			return cmp.Or(strings.Compare(jobs[i].Type, jobs[j].Type), strings.Compare(jobs[i].Key, jobs[j].Key))
		})
	}
	lock := ""
	if slices.ContainsFunc(jobs, func(j job.Params) bool { return j.OnDuplicate == job.ReplaceDuplicate }) {
		// On a server, lock the jobs to replace before the first insert, in key order. A refused insert leaves shared locks
		// on them, and two transactions that then write deadlock.
		lock = q.db.SQL.ForUpdate
	}
	for try := 0; len(a.todo) > 0; try++ {
		if lock != "" || try > 0 {
			if err := a.skipLive(ctx, cmp.Or(lock, q.db.SQL.ForShare)); err != nil {
				return nil, err
			}
		}
		if err := a.insert(ctx, byKey); err != nil && (!engine.IsDuplicate(err) || try == 10) {
			return nil, err
		}
		if len(a.todo) == 0 {
			a.todo, others = others, nil // their keys are taken now
		}
	}
	return a, a.log(ctx, by)
}

// log writes what activity.Write would for the new jobs. It omits columns with default values because that is cheaper.
func (a *adding) log(ctx context.Context, by string) error {
	now, stamp := a.tx.Stamp()
	args := make([]any, 0, len(a.jobs)*6)
	for i, done := range a.added {
		if !done.Duplicate {
			args = append(append(args, stamp...), a.Name, done.ID, a.jobs[i].Type, done.Key, cmp.Or(by, job.None))
		}
	}
	n := len(args) / (len(stamp) + 5)
	if n == 0 {
		return nil
	}
	err := a.tx.Insert(ctx, engine.Insert{
		Table: a.db.Activity(), Columns: "at, kind, state, queue, job_id, job_type, job_key, output",
		Row: "(" + now + ",'job','added',?,?,?,?,?)", Args: args, N: n,
	})
	return texts.Wrap(err, "record activity")
}

// complete applies the types' defaults. It refuses weightless jobs if the registration does.
func (a *adding) complete(ctx context.Context, prepared []job.Params) error {
	a.jobs = make([]job.Params, len(prepared))
	for i, j := range prepared {
		t, err := a.TypeOf(ctx, a.tx, j.Type)
		if err != nil {
			return err
		}
		a.jobs[i] = j.WithDefaults(t)
	}
	a.division = a.Division()
	weightless := slices.IndexFunc(a.jobs, func(j job.Params) bool { return *j.ThrottleFactor < 1 })
	if weightless < 0 && a.Shards > 0 {
		return nil
	}
	r, err := a.registered(ctx, a.tx)
	if err != nil {
		return err
	}
	if weightless >= 0 && r.RefuseWeightless {
		return fmt.Errorf("%s %q: %w", prepared[weightless].Type, prepared[weightless].Key, job.ErrWeightless)
	}
	if a.Shards < 1 {
		a.division = r.division()
	}
	return nil
}

// distinct puts the first job of each type and key into todo. The others are duplicates of these.
func (a *adding) distinct() (others []int, err error) {
	seen := make(map[[2]string]bool, len(a.jobs))
	a.todo = make([]int, 0, len(a.jobs))
	for i, j := range a.jobs {
		switch {
		case !seen[typeAndKey(j)]:
			seen[typeAndKey(j)] = true
			a.todo = append(a.todo, i)
		case j.OnDuplicate == job.RefuseDuplicate:
			return nil, &job.DuplicateError{Index: i, Key: j.Key}
		default:
			others = append(others, i)
		}
	}
	return others, nil
}

// skipLive looks up which keys are taken, and replaces those jobs if wanted. Jobs with free keys stay in todo.
func (a *adding) skipLive(ctx context.Context, lock string) error {
	live, err := a.live(ctx, lock)
	if err != nil {
		return err
	}
	var rest []int
	for _, i := range a.todo {
		j := &a.jobs[i]
		there, ok := live[typeAndKey(*j)]
		if !ok {
			rest = append(rest, i)
			continue
		}
		a.added[i] = job.Added{ID: there.ID, Key: j.Key, Duplicate: true}
		switch j.OnDuplicate {
		case job.RefuseDuplicate:
			return &job.DuplicateError{Index: i, ID: there.ID, Key: j.Key}
		case job.ReplaceDuplicate:
			if a.added[i].Replaced, err = a.replace(ctx, there.ID, j); err != nil {
				return err
			}
			if there.Status == job.StatusThrottled {
				a.left = append(a.left, there)
			}
		}
	}
	a.todo = rest
	return nil
}

// replace overwrites a job that hasn't started with j. A worker that has locked the job loses its lock.
func (a *adding) replace(ctx context.Context, id int64, j *job.Params) (replaced bool, err error) {
	at, status, wake := a.due(j)
	replaced, err = engine.Changed(a.tx.ExecContext(ctx, "UPDATE "+a.table+" "+a.db.SQL.ByID+ScheduledAnew+
		", job_data = ?, timeout = ?, priority = ?, throttle_factor = ?, time_windows = ?,"+
		" shard_key = ?, shard = ?, throttle_group = 'NONE' WHERE id = ? AND state = 'initial'",
		status, wake, at, engine.At(a.tx.Now), j.Data, int64(j.Timeout/time.Second), *j.Priority, *j.ThrottleFactor, j.Windows.Encode(),
		j.ShardKey, a.division.PlaceOf(j.Type, j.Key, j.ShardKey, []byte(j.Data)), id))
	return replaced, texts.Wrap(err, "replace job %d", id)
}

// due returns when a job may first start, and its status until then.
func (a *adding) due(j *job.Params) (text string, status job.Status, wake engine.Time) {
	when := j.At
	if when.IsZero() {
		when = a.tx.Now.Add(j.In)
	}
	when = policy.Opening(*j.Windows, a.Location, when)
	status, at := policy.StatusAt(when, a.tx.Now)
	return engine.Text(when), status, engine.At(at)
}

// typeAndKey is unique among jobs that aren't final.
func typeAndKey(j job.Params) [2]string { return [2]string{j.Type, j.Key} }

// live returns the jobs that hold these types and keys, by both, with what LetIn needs of them.
func (a *adding) live(ctx context.Context, lock string) (map[[2]string]*job.Job, error) {
	byType := map[string][]any{}
	for _, i := range a.todo {
		byType[a.jobs[i].Type] = append(byType[a.jobs[i].Type], a.jobs[i].Key)
	}
	live := map[[2]string]*job.Job{}
	for _, name := range slices.Sorted(maps.Keys(byType)) {
		keys := byType[name]
		query := "SELECT id, job_key, status, COALESCE(throttle_factor, 0), shard, throttle_group FROM " + a.table + " " + a.Index("live") +
			" WHERE live = 1 AND job_type = ? AND job_key IN " + engine.In(len(keys)) + " ORDER BY job_key " + lock
		var j job.Job
		err := engine.ReadOn(ctx, a.tx, engine.Query{SQL: query, Args: append([]any{name}, keys...), Scan: engine.Into(func() {
			live[[2]string{name, j.Key}] = &job.Job{ID: j.ID, Status: j.Status, ThrottleFactor: j.ThrottleFactor, Place: j.Place, Group: j.Group}
		}, &j.ID, &j.Key, &j.Status, &j.ThrottleFactor, &j.Place, &j.Group)})
		if err != nil {
			return nil, fmt.Errorf("find the jobs of these keys: %w", err)
		}
	}
	return live, nil
}

// ScheduledAnew reschedules a waiting job. A submitted row keeps its status. A worker that locked the job loses its lock.
const ScheduledAnew = " SET status = CASE WHEN status = 'submitted' THEN status ELSE ? END," +
	" wake_time = CASE WHEN status = 'submitted' THEN NULL ELSE ? END, scheduled_run_time = ?, update_time = ?," +
	" worker_id = 'NONE', lock_token = 'NONE'"

// insert inserts the jobs in todo. Even if it fails, the first of them may have been inserted.
func (a *adding) insert(ctx context.Context, whole bool) error {
	if len(a.todo) == 0 {
		return nil
	}
	var ids []int64
	var err error
	if a.db.SQL.IDsByKey && len(a.todo) > 1 { // one row needs no count, and no undo of rows before it
		ids, err = a.insertByKey(ctx)
	} else {
		ids, err = a.tx.InsertIDs(ctx, a.db.SQL.Dialect, a.rows(whole))
	}
	for n, id := range ids {
		i := a.todo[n]
		a.added[i] = job.Added{ID: id, Key: a.jobs[i].Key}
	}
	a.todo = a.todo[len(ids):]
	return err
}

func (a *adding) rows(whole bool) engine.Insert {
	now, stamp := a.tx.Stamp()
	names, row := "job_type, job_data, job_key, timeout, priority, throttle_factor, time_windows, start_time", "(?,?,?,?,?,?,?,"+now
	// most jobs have neither
	placed := a.division.N > 1 || slices.ContainsFunc(a.todo, func(i int) bool { return a.jobs[i].ShardKey != job.None })
	if placed {
		names, row = names+", shard_key, shard", row+",?,?"
	}
	// Without a clock, column defaults set the other times. That costs a server less than a value in each row.
	clocked := !a.tx.Now.IsZero()
	if clocked {
		names, row = names+", create_time, update_time, scheduled_run_time, status, wake_time", row+",?,?,?,?,?)"
	} else {
		names, row = names+", status", row+",'available')"
	}
	args := make([]any, 0, len(a.todo)*15)
	for _, i := range a.todo {
		j := &a.jobs[i]
		args = append(args, j.Type, j.Data, j.Key, int64(j.Timeout/time.Second), *j.Priority, *j.ThrottleFactor, j.Windows.Encode())
		args = append(args, stamp...)
		if placed {
			args = append(args, j.ShardKey, a.division.PlaceOf(j.Type, j.Key, j.ShardKey, []byte(j.Data)))
		}
		args = append(append(args, stamp...), stamp...)
		if j.IsTimed() {
			at, status, wake := a.due(j)
			args = append(args, at, string(status), wake)
		} else if clocked {
			args = append(append(args, stamp...), "available", nil)
		}
	}
	return engine.Insert{Table: a.table, Columns: names, Row: row, Args: args, N: len(a.todo), Whole: whole}
}

// insertByKey is for ids that can't be counted. It inserts all rows in one statement, so a key in the way isn't its own.
func (a *adding) insertByKey(ctx context.Context) (ids []int64, err error) {
	err = a.tx.Undoing(ctx, func() error {
		if err := a.tx.Insert(ctx, a.rows(true)); err != nil {
			return err
		}
		live, err := a.live(ctx, a.db.SQL.ForShare) // not what an old snapshot shows
		if err != nil {
			return err
		}
		for _, i := range a.todo {
			ids = append(ids, live[typeAndKey(a.jobs[i])].ID)
		}
		return nil
	})
	return ids, err
}
