package queue

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/record"
	"github.com/hipq/hipq/internal/rules"
	"github.com/hipq/hipq/internal/shards"
	"github.com/hipq/hipq/queue/job"
)

// Enqueue adds one job. Without a Key of your own, a call whose error left open whether the job is in must not simply
// be repeated; with one it may.
func (q *Queue) Enqueue(ctx context.Context, j job.New) (Added, error) {
	added, err := q.EnqueueMany(ctx, []job.New{j})
	if err != nil {
		return Added{}, err
	}
	return added[0], nil
}

// EnqueueMany adds jobs in multi-row statements, some hundreds a transaction. After an error those that it returns are
// in, and are the first of jobs; the others are not, unless the answer to the last commit was lost: then the next few
// hundred may be in too, and only those with a Key of your own may simply be enqueued again.
func (q *Queue) EnqueueMany(ctx context.Context, jobs []job.New) ([]Added, error) {
	prepared, err := q.prepare(jobs)
	if err != nil {
		return nil, err
	}
	added := make([]Added, 0, len(jobs))
	for len(prepared) > 0 {
		n := chunk(prepared)
		batch, err := q.addChunk(ctx, prepared[:n])
		if refused, ok := errors.AsType[*DuplicateError](err); ok {
			if n = refused.Index; n > 0 {
				// those before it are to be in
				rest, failed := q.EnqueueMany(ctx, prepared[:n])
				return append(added, rest...), errors.Join(failed, q.refused(len(added)+n, refused))
			}
			return added, q.refused(len(added), refused)
		}
		if engine.IsLockTimeout(err) {
			err = fmt.Errorf("wait for the keys of %d jobs, the first %s %q: %w", n, prepared[0].Type, prepared[0].Key, err)
		}
		if err != nil {
			return added, fmt.Errorf("enqueue in %s: %w", q.Name, err)
		}
		added = append(added, batch...)
		prepared = prepared[n:]
	}
	return added, nil
}

// addChunk adds jobs in a transaction of their own.
func (q *Queue) addChunk(ctx context.Context, prepared []job.New) (added []Added, err error) {
	tries := 0
	err = q.db.TxUnclocked(ctx, func(tx *engine.Tx) error {
		tries++
		if tx.MayBeDone {
			// they must not be taken for duplicates of themselves, nor added again if they are final by now
			if in, err := q.wasAdded(ctx, tx, added); in || err != nil {
				return err
			}
		}
		all, err := q.add(ctx, tx, prepared, tries > 1, "")
		if err == nil {
			added = all
		}
		return err
	})
	return added, err
}

// wasAdded says whether jobs are in that an earlier try of the transaction has added, whose commit was not answered. That may
// still be under way, so it waits for the row of the first.
func (q *Queue) wasAdded(ctx context.Context, tx *engine.Tx, jobs []Added) (bool, error) {
	first := slices.IndexFunc(jobs, func(a Added) bool { return !a.Duplicate })
	if first < 0 {
		return false, nil
	}
	id := jobs[first].ID
	if _, err := q.ids(ctx, tx, "SELECT id FROM "+q.table+" "+q.db.ByID+" WHERE id = ? "+q.db.ForUpdate, id); err != nil {
		return false, fmt.Errorf("wait for an earlier try: %w", err)
	}
	// by the activity, for the row may be gone
	var added bool
	err := tx.GetContext(ctx, &added, "SELECT EXISTS (SELECT 1 FROM "+q.db.Activity()+
		" WHERE job_id = ? AND queue = ? AND job_key = ? AND kind = 'job' AND state = 'added')", id, q.Name, jobs[first].Key)
	return added, err
}

// refused is the error about the index-th of all jobs.
func (q *Queue) refused(index int, e *DuplicateError) error {
	return fmt.Errorf("enqueue in %s: %w", q.Name, &DuplicateError{Index: index, ID: e.ID, Key: e.Key})
}

// EnqueueTx adds jobs in the application's own transaction: they are there if and when it commits. After an error the
// transaction must be rolled back. With SQLite the transaction must have begun IMMEDIATE, as with _txlock=immediate. That of another
// database than the queue's is not found out, where that has an instance of the same name: the jobs are in that one then.
func (q *Queue) EnqueueTx(ctx context.Context, tx *sql.Tx, jobs ...job.New) ([]Added, error) {
	prepared, err := q.prepare(jobs)
	if err != nil {
		return nil, err
	}
	if tx == nil {
		return nil, fmt.Errorf("enqueue in %s: the transaction is nil", q.Name)
	}
	joined := q.db.Join(tx)
	var added []Added
	for len(prepared) > 0 {
		n := chunk(prepared)
		batch, err := q.add(ctx, joined, prepared[:n], false, "")
		if err != nil {
			return nil, fmt.Errorf("enqueue in %s: %w", q.Name, err)
		}
		added = append(added, batch...)
		prepared = prepared[n:]
	}
	return added, nil
}

// chunk says how many of the jobs go into one statement: enough to make the round trip cheap, not more than the servers'
// packet limits and SQLite's number of parameters allow.
func chunk(jobs []job.New) int {
	const maxRows, maxBytes = 500, 1 << 20
	n, size := 0, 0
	for n < len(jobs) && n < maxRows && (n == 0 || size+len(jobs[n].Data) <= maxBytes) {
		size += len(jobs[n].Data)
		n++
	}
	return n
}

func (q *Queue) prepare(jobs []job.New) (prepared []job.New, err error) {
	if q.db == nil {
		return nil, fmt.Errorf("%w: the Queue was not made by Open or New", ErrOptions)
	}
	prepared = make([]job.New, len(jobs))
	for i, j := range jobs {
		if err := q.Check(j); err != nil {
			return nil, err
		}
		if prepared[i], err = j.WithKey(); err != nil {
			return nil, err
		}
	}
	return prepared, nil
}

// scheduled is when the job may start first.
func (q *Queue) scheduled(j job.New, now time.Time) time.Time {
	at := j.At
	if at.IsZero() {
		at = now.Add(j.In)
	}
	return rules.Opening(*j.Windows, q.Location, at)
}

// add inserts the jobs whose keys are free and gives the ids of those in whose way they are. The unique index decides:
// only after it has refused a statement are the keys looked up, to find out which rows to leave out of the next try.
//
// byKey inserts them in the order of their keys, in one statement: so those who enqueue the same keys don't lock them crosswise again. It isn't
// the rule, for of jobs that are alike in all else the one that was added first runs first.
//
// by goes to the activity: what enqueues the jobs, if it is nobody's program.
func (q *Queue) add(ctx context.Context, tx *engine.Tx, prepared []job.New, byKey bool, by string) ([]Added, error) {
	added, jobs := make([]Added, len(prepared)), make([]job.New, len(prepared))
	for i, j := range prepared {
		t, err := q.typeOf(ctx, tx, j.Type)
		if err != nil {
			return nil, err
		}
		jobs[i] = j.WithDefaults(t)
	}
	if err := q.checkWeights(ctx, tx, jobs); err != nil {
		return nil, err
	}
	division, err := q.dividedBy(ctx, tx)
	if err != nil {
		return nil, err
	}
	if tx.Now.IsZero() && (slices.ContainsFunc(jobs, job.New.IsTimed) || q.db.DearNow && len(jobs) > 1) {
		if err := q.db.SetClock(ctx, tx); err != nil {
			return nil, err
		}
	}
	todo, twins, err := distinct(jobs)
	if err != nil {
		return nil, err
	}
	if byKey {
		slices.SortFunc(todo, func(a, b int) int {
			return cmp.Or(strings.Compare(jobs[a].Type, jobs[b].Type), strings.Compare(jobs[a].Key, jobs[b].Key))
		})
	}
	if slices.ContainsFunc(jobs, func(j job.New) bool { return j.OnDuplicate == job.ReplaceDuplicate }) {
		// the jobs to replace are locked first, in the order of their keys: a refused insert would leave shared locks on them,
		// and two who both want to write then stand in each other's way
		if todo, err = q.skipLive(ctx, tx, division, jobs, todo, added, q.db.ForUpdate); err != nil {
			return nil, err
		}
	}
	for try := 0; len(todo) > 0; try++ {
		ids, err := q.insert(ctx, tx, division, jobs, todo, byKey)
		for i, id := range ids { // where some were refused, those before them may be in
			added[todo[i]] = Added{ID: id, Key: jobs[todo[i]].Key}
		}
		if todo = todo[len(ids):]; err == nil {
			break
		}
		if !engine.IsDuplicate(err) || try == 10 {
			return nil, err
		}
		if todo, err = q.skipLive(ctx, tx, division, jobs, todo, added, q.db.ForShare); err != nil {
			return nil, err
		}
	}
	for at, first := range twins {
		added[at] = Added{ID: added[first].ID, Key: jobs[at].Key, Duplicate: true, Replaced: jobs[at].OnDuplicate == job.ReplaceDuplicate}
	}
	return added, record.Entries(ctx, tx, q.db, q.addedEntries(jobs, added, by))
}

// distinct gives the indexes of the jobs with a type and key of their own, and for the others that of the first alike,
// which one that replaces has become.
func distinct(jobs []job.New) (first []int, twins map[int]int, err error) {
	seen := make(map[[2]string]int, len(jobs))
	first = make([]int, 0, len(jobs))
	for i, j := range jobs {
		k := typeAndKey(j)
		if at, ok := seen[k]; ok {
			if twins == nil {
				twins = map[int]int{}
			}
			twins[i] = at
			switch j.OnDuplicate {
			case job.RefuseDuplicate:
				return nil, nil, &DuplicateError{Index: i, Key: j.Key}
			case job.ReplaceDuplicate:
				jobs[at] = j
			}
			continue
		}
		seen[k] = i
		first = append(first, i)
	}
	return first, twins, nil
}

// skipLive looks up which of the jobs' keys are taken, notes them in added, and gives back the others.
func (q *Queue) skipLive(
	ctx context.Context, tx *engine.Tx, d shards.Division, jobs []job.New, which []int, added []Added, lock string,
) (rest []int, err error) {
	live, err := q.live(ctx, tx, jobs, which, lock)
	if err != nil {
		return nil, err
	}
	for _, i := range which {
		id, ok := live[typeAndKey(jobs[i])]
		if !ok {
			rest = append(rest, i)
			continue
		}
		added[i] = Added{ID: id, Key: jobs[i].Key, Duplicate: true}
		switch jobs[i].OnDuplicate {
		case job.RefuseDuplicate:
			return nil, &DuplicateError{Index: i, ID: id, Key: jobs[i].Key}
		case job.ReplaceDuplicate:
			if added[i].Replaced, err = q.replace(ctx, tx, d, id, jobs[i]); err != nil {
				return nil, err
			}
		}
	}
	return rest, nil
}

// replace makes a job that has not started what j is to be. A worker that has it locked finds its lock gone.
func (q *Queue) replace(ctx context.Context, tx *engine.Tx, d shards.Division, id int64, j job.New) (replaced bool, err error) {
	at := q.scheduled(j, tx.Now)
	status, wake := rules.Place(at, tx.Now)
	res, err := tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET job_data = ?, status = CASE WHEN status = 'submitted' THEN status ELSE ? END,"+
		" wake_time = CASE WHEN status = 'submitted' THEN NULL ELSE ? END, timeout = ?, priority = ?, throttle_factor = ?, time_windows = ?,"+
		" shard_key = ?, shard = ?, throttle_group = 'NONE', scheduled_run_time = ?, worker_id = 'NONE', lock_token = 'NONE', update_time = ? WHERE id = ? AND state = 'initial'",
		j.Data, status, engine.At(wake), int64(j.Timeout/time.Second), *j.Priority, *j.ThrottleFactor, j.Windows.Encode(), j.ShardKey, placeOf(d, &j),
		engine.At(at), engine.At(tx.Now), id)
	if err != nil {
		return false, fmt.Errorf("replace job %d: %w", id, err)
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

func (q *Queue) addedEntries(jobs []job.New, added []Added, by string) []activity.Entry {
	entries := make([]activity.Entry, 0, len(jobs))
	for i, a := range added {
		if !a.Duplicate {
			entries = append(entries, activity.Entry{
				Kind: activity.Job, State: activity.Added, Queue: q.Name, JobID: a.ID, JobType: jobs[i].Type, JobKey: a.Key,
				Output: by,
			})
		}
	}
	return entries
}
