package queue

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/rules"
	"github.com/hipq/hipq/internal/shards"
	"github.com/hipq/hipq/queue/job"
)

// insert inserts those of the jobs that which names, and gives their ids: where it is refused, those of the first that are in
// all the same.
func (q *Queue) insert(ctx context.Context, tx *engine.Tx, d shards.Division, jobs []job.New, which []int, whole bool) ([]int64, error) {
	now, stamp := tx.Stamp()
	names := "job_type, job_data, job_key, timeout, priority, throttle_factor, time_windows, start_time, create_time, update_time"
	row := "(?,?,?,?,?,?,?," + now + "," + now + "," + now
	// most jobs have none of these
	keyed := slices.ContainsFunc(which, func(i int) bool { return jobs[i].ShardKey != job.None })
	timed := slices.ContainsFunc(which, func(i int) bool { return jobs[i].IsTimed() })
	if keyed {
		names, row = names+", shard_key", row+",?"
	}
	if d.N > 1 {
		names, row = names+", shard", row+",?"
	}
	if timed {
		names, row = names+", status, scheduled_run_time, wake_time", row+",?,?,?)"
	} else {
		names, row = names+", status, scheduled_run_time", row+",'available',"+now+")"
	}
	args := make([]any, 0, len(which)*14)
	for _, i := range which {
		j := &jobs[i]
		args = append(args, j.Type, j.Data, j.Key, int64(j.Timeout/time.Second), *j.Priority, *j.ThrottleFactor, j.Windows.Encode())
		args = append(append(append(args, stamp...), stamp...), stamp...)
		if keyed {
			args = append(args, j.ShardKey)
		}
		if d.N > 1 {
			args = append(args, placeOf(d, j))
		}
		if timed {
			at := q.scheduled(*j, tx.Now)
			status, wake := rules.Place(at, tx.Now)
			args = append(args, string(status), engine.Text(at), engine.At(wake))
		} else {
			args = append(args, stamp...)
		}
	}
	insert := engine.Insert{Table: q.table, Columns: names, Row: row, Args: args, N: len(which), Whole: whole}
	if !q.db.IDsByKey || len(which) == 1 { // of one row there is nothing to count, nor a row before it to undo
		return tx.InsertIDs(ctx, q.db.Dialect, insert)
	}
	// as one statement, for the keys that are there when it is refused must be others'
	insert.Whole = true
	var live map[[2]string]int64
	err := tx.Undoing(ctx, func() (err error) {
		if err = tx.Insert(ctx, insert); err == nil {
			live, err = q.live(ctx, tx, jobs, which, "")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	ids := make([]int64, len(which))
	for n, i := range which {
		ids[n] = live[typeAndKey(jobs[i])]
	}
	return ids, nil
}

// typeAndKey is what is unique among the jobs that are not final.
func typeAndKey(j job.New) [2]string { return [2]string{j.Type, j.Key} }

// live gives the ids of those of the jobs' types and keys that are taken.
func (q *Queue) live(ctx context.Context, from engine.Reader, jobs []job.New, which []int, lock string) (map[[2]string]int64, error) {
	byType := map[string][]any{}
	for _, i := range which {
		byType[jobs[i].Type] = append(byType[jobs[i].Type], jobs[i].Key)
	}
	live := map[[2]string]int64{}
	for _, name := range slices.Sorted(maps.Keys(byType)) {
		keys := byType[name]
		query := "SELECT id, job_key FROM " + q.table + " WHERE live = 1 AND job_type = ? AND job_key IN " + engine.In(len(keys)) + " ORDER BY job_key " + lock
		err := engine.ReadOn(ctx, from, engine.Query{SQL: query, Args: append([]any{name}, keys...), Scan: engine.EachRow(func(row *sql.Rows) error {
			var id int64
			var key string
			err := row.Scan(&id, &key)
			live[[2]string{name, key}] = id
			return err
		})})
		if err != nil {
			return nil, fmt.Errorf("find the jobs of these keys: %w", err)
		}
	}
	return live, nil
}
