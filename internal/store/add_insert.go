package store

import (
	"context"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

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
			ids = append(ids, live[typeAndKey(a.jobs[i])].id)
		}
		return nil
	})
	return ids, err
}
