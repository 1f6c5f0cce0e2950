package workers

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
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
	err := r.db.SQL.Tx(ctx, func(tx *engine.Tx) error {
		serves, err := json.Marshal(w.Serves)
		if err != nil {
			return err
		}
		now, end, started := engine.At(tx.Now), engine.Time{}, sql.NullInt64{}
		if state != "working" {
			end, started.Valid = now, true
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO "+r.db.Workers()+" (id, host, pid, state, slots, start_time, heartbeat, lock_until, end_time, started, process, by_hand, serves)"+
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
