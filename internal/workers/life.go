package workers

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/internal/texts"
)

// ErrLockLost means that a worker didn't renew its lock in time: others take its jobs.
var ErrLockLost = errors.New("worker lost its lock")

// ErrDuplicateID means that a worker with this id already exists.
var ErrDuplicateID = errors.New("the worker's id was used before")

// Register adds the worker with a lock and without slots. It fails with ErrDuplicateID if the id exists.
func (r *Table) Register(ctx context.Context, w Worker, lockFor time.Duration) error {
	return r.insert(ctx, w, "working", lockFor, activity.Starting)
}

// Pass records a worker that found nothing to do, its row and both entries, in one commit.
func (r *Table) Pass(ctx context.Context, w Worker) error {
	return r.insert(ctx, w, "finished", 0, activity.Starting, activity.Finished)
}

func (r *Table) insert(ctx context.Context, w Worker, state string, lockFor time.Duration, happened ...activity.State) error {
	entries := texts.Map(happened, w.entry)
	serves, _ := json.Marshal(w.Serves) // texts by names
	err := r.db.SQL.Tx(ctx, func(tx *engine.Tx) error {
		now, end, started := engine.At(tx.Now), engine.Time{}, sql.NullInt64{}
		if state != "working" {
			end, started.Valid = now, true
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO "+r.db.Workers()+" (id, host, pid, state, slots, start_time, heartbeat, lock_until, end_time, started, process, by_hand, serves)"+
			" VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?)", w.ID, w.Host, w.PID, state, now, now, engine.At(tx.Now.Add(lockFor)), end, started,
			cmp.Or(w.Process, activity.None), w.ByHand, string(serves))
		if engine.IsDuplicate(err) {
			if tx.MayBeDone {
				return nil // it was committed, with the activity
			}
			return fmt.Errorf("%w: %s", ErrDuplicateID, w.ID)
		}
		if err != nil {
			return err
		}
		return activity.Write(ctx, tx, r.db, entries)
	})
	return texts.Wrap(err, "register the worker")
}

// Renew extends the worker's lock, and its jobs' locks, to lockFor from now. It fails with ErrLockLost if the worker was
// declared dead. It may be repeated.
func (r *Table) Renew(ctx context.Context, w Worker, lockFor time.Duration) error {
	return r.db.SQL.Tx(ctx, func(tx *engine.Tx) error {
		ours, err := engine.Changed(tx.ExecContext(ctx, "UPDATE "+r.db.Workers()+" SET heartbeat = ?, lock_until = ? WHERE id = ? AND state = 'working'",
			engine.At(tx.Now), engine.At(tx.Now.Add(lockFor)), w.ID))
		if err == nil && !ours {
			return ErrLockLost
		}
		return err
	})
}

// End sets the worker's row to Finished or Error, with the number of attempts it started. remark, if any, goes to the
// activity.
func (r *Table) End(ctx context.Context, w Worker, state activity.State, started int, remark error) error {
	err := r.db.SQL.Tx(ctx, func(tx *engine.Tx) error {
		ours, err := engine.Changed(tx.ExecContext(ctx, "UPDATE "+r.db.Workers()+" SET state = ?, slots = 0, end_time = ?, started = ? WHERE id = ?"+
			" AND state = 'working'", string(state), engine.At(tx.Now), started, w.ID))
		if err != nil || !ours {
			return err // declared dead, or finished by a commit without a reply
		}
		entry := w.entry(state)
		if remark != nil {
			entry.Error = remark.Error()
		}
		return activity.Write(ctx, tx, r.db, []activity.Entry{entry})
	})
	return texts.Wrap(err, "sign off the worker")
}

// Dead is a worker whose row says working, although its lock has expired or its process on this host is gone.
type Dead struct {
	Worker
	Heartbeat engine.Time
	Expired   bool
}

// Dead finds the dead workers that w can see.
func (r *Table) Dead(ctx context.Context, w Worker) (found []Dead, err error) {
	query := "SELECT id, host, pid, process, " + r.db.SQL.TimeColumns("heartbeat") + ", lock_until <= (SELECT " + r.db.SQL.NowSQL + ") AS expired FROM " +
		r.db.Workers() + " " + r.db.SQL.Index(r.db.Workers(), "state") +
		" WHERE state = 'working' AND (lock_until <= (SELECT " + r.db.SQL.NowSQL + ") OR host = ? AND process <> ?)"
	err = r.db.SQL.SelectContext(ctx, &found, query, w.Host, activity.None)
	return slices.DeleteFunc(found, func(d Dead) bool { return !d.Expired && !d.isGone(w) }), texts.Wrap(err, "look for dead workers")
}

// isGone says whether it was a process of w's host that is gone. Copies of a host differ only by name.
func (d Dead) isGone(w Worker) bool { return d.Host == w.Host && process.IsGone(d.Process) }

// Reap declares workers dead whose lock has expired, or whose process on w's host is gone, and logs it. They can't renew any
// more, and other workers may take their slots and jobs. First it calls ended for each worker whose lock still holds or that
// was on w's host, to end what that worker left running; what couldn't be ended is logged. found says that it declared some dead. A locked row delays no other.
func (r *Table) Reap(ctx context.Context, w Worker, ended func(workerID string) (left []string)) (found bool, err error) {
	all, err := r.Dead(ctx, w)
	for _, d := range all {
		var left []string
		if !d.Expired || d.Host == w.Host {
			left = ended(d.ID)
		}
		failed := r.db.SQL.TxInParts(ctx, nil, func(tx *engine.Tx) error { return r.declareDead(ctx, tx, w, d, left) })
		if found = found || failed == nil; failed != nil {
			err = errors.Join(err, fmt.Errorf("record dead worker %s: %w", d.ID, failed))
		}
	}
	return found, err
}

// declareDead declares a worker dead, unless it has renewed its lock since.
func (r *Table) declareDead(ctx context.Context, tx *engine.Tx, w Worker, d Dead, left []string) error {
	is, err := engine.Changed(tx.ExecContext(ctx, "UPDATE "+r.db.Workers()+" SET state = 'error', slots = 0, end_time = ?"+
		" WHERE id = ? AND state = 'working' AND heartbeat = ?", engine.At(tx.Now), d.ID, d.Heartbeat))
	if err != nil || !is {
		return err
	}
	why := "worker died: "
	if d.isGone(w) {
		why += "its process is gone, and "
	}
	entry := d.entry(activity.Error)
	entry.Error = why + "its last heartbeat was " + tx.Now.Sub(d.Heartbeat.Time).Round(time.Second).String() + " earlier"
	if len(left) > 0 {
		entry.Error += "; could not end processes of its handlers: " + strings.Join(left, "; ")
	}
	return activity.Write(ctx, tx, r.db, []activity.Entry{entry})
}

// Died counts the workers that died since a time, including those with expired locks that no worker has declared dead yet.
func (r *Table) Died(ctx context.Context, since time.Time) (died int64, err error) {
	query := "SELECT COUNT(*) FROM " + r.db.Workers() + " " + r.db.SQL.Index(r.db.Workers(), "state") +
		" WHERE state = 'error' AND end_time >= ? OR state = 'working' AND lock_until <= (SELECT " + r.db.SQL.NowSQL + ")"
	return died, texts.Wrap(r.db.SQL.GetContext(ctx, &died, query, engine.At(since)), "count the workers that died")
}

// Purge deletes the rows of workers that ended before o.Before, and returns their number. It may be repeated. The last row
// stays, because it says since when no worker has run.
func (r *Table) Purge(ctx context.Context, o activity.PurgeOptions) (deleted int64, err error) {
	last, err := r.Last(ctx)
	if err != nil {
		return 0, err
	}
	// No worker ends before it starts, so the index on the start excludes the recent ones.
	where := " FROM " + r.db.Workers() + " " + r.db.SQL.Index(r.db.Workers(), "start") +
		" WHERE start_time < ? AND end_time < ? AND state <> 'working'"
	args := []any{engine.At(o.Before), engine.At(o.Before)}
	if last != nil {
		where, args = where+" AND id <> ?", append(args, last.ID)
	}
	if o.DryRun {
		return deleted, texts.Wrap(r.db.SQL.GetContext(ctx, &deleted, "SELECT COUNT(*)"+where, args...), "count old workers")
	}
	for {
		began := time.Now()
		var found []string
		if err := r.db.SQL.SelectContext(ctx, &found, "SELECT id"+where+" ORDER BY start_time LIMIT ?", append(args, engine.PurgeBatch)...); err != nil {
			return deleted, fmt.Errorf("find old workers: %w", err)
		}
		// One by one: with a list of ids MySQL may scan the table, and wait for the live workers' rows.
		err := r.db.SQL.Tx(ctx, func(tx *engine.Tx) error {
			for _, id := range found {
				if err := tx.Write(ctx, "DELETE FROM "+r.db.Workers()+" WHERE id = ?", id); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return deleted, fmt.Errorf("delete old workers: %w", err)
		}
		deleted += int64(len(found))
		if o.Tell(deleted); len(found) < engine.PurgeBatch {
			return deleted, nil
		}
		if err := r.db.SQL.Breathe(ctx, r.db.Workers(), began); err != nil {
			return deleted, err
		}
	}
}
